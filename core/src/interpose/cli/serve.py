"""``interpose serve``: the agents of the configuration over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING

from interpose.cli.configured import require_agent, startup
from interpose.cli.exits import INTERRUPTED, OK
from interpose.cli.terminal import complain
from interpose.errors import UsageError, render
from interpose.host import Host, host_of
from interpose.logs import to_stderr

if TYPE_CHECKING:
    from interpose.server.listening import Server


def main(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; standard output gets the address, standard error the logs."""
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise UsageError(
                f"interpose serve needs {package}, which is not installed.",
                hint='Install it: pip install "interpose[server]".',
            )
    if arguments.host is not None:
        # Quoted, so that it is a text whatever stands in it.
        arguments.set.append(f"server.host={json.dumps(arguments.host)}")
    if arguments.port is not None:
        arguments.set.append(f"server.port={arguments.port}")
    if arguments.expose_plan:
        arguments.set.append("server.expose_plan=true")
    with startup(arguments, assume_application=False) as (given, prepared):
        for agent in prepared.plans:
            require_agent(prepared, agent, given)
        warnings = [each for each in prepared.warnings if each.severity == "warning"]
        if warnings:
            complain(render(warnings))
        from interpose.server.application import ServerApp
        from interpose.server.listening import Server, listen

        table = prepared.config.server
        host = host_of(given, prepared)
        # After the host, which silences its plugins for embedders.
        to_stderr("INFO", traces=arguments.debug, runs=True)
        server = Server(
            ServerApp(host, guard_origins=True),
            drain=table.shutdown_deadline,
            ending=prepared.config.host.ending_deadline,
        )
        with listen(table.host, table.port) as sock, server.signals():
            asyncio.run(_serve(host, server, sock))
        return INTERRUPTED if server.stopped_by == signal.SIGINT else OK


async def _serve(host: Host, server: Server, sock: socket.socket) -> None:
    from interpose.server.listening import address

    async with host:
        url = address(sock)
        print(f"Serving {url} (Ctrl-C stops)")
        for agent in host.agents:
            path = "" if len(host.agents) == 1 or agent == "default" else f"agents/{agent}"
            print(f"  POST {url}{path}  {agent}", flush=True)
        await server.serve(sockets=[sock])
