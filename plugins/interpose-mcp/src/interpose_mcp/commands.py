"""``interpose mcp``: what the MCP servers of the configuration have to offer."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from interpose.commands import OK, PROBLEMS, Configuration, configuration

if TYPE_CHECKING:
    from interpose_mcp.inspection import Layer, Server, Tool

SUMMARY: Final = "list the MCP servers of the configuration, and their tools"
ABOUT: Final = """\
interpose mcp list: for each layer that uses mcp.tools or mcp.apps, each of its servers: how it is
reached, its hash, and each of its tools: the name that a model calls, who may use it, its UI
resource, and why it is left out. It connects to all of them at once, and starts no agent.

Exit code 1: a server cannot be listed, or two tools of one layer have one name."""

_LOGGERS: Final = ("mcp", "client")
_LIST: Final = "list servers and tools"
_NONE: Final = """\
No layer uses mcp.tools or mcp.apps. To give an agent the tools of a server, add to the config file:

[middleware.mcp]
use = "mcp.tools"

[middleware.mcp.servers.docs]          # `docs` is the id of the server
url = "https://mcp.example.org/mcp"    # or command = "docs-mcp", or python = "my_app.docs:server"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``list``, with what it takes."""
    words = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = words.add_parser("list", help=_LIST, description=_LIST, allow_abbrev=False)
    listing.add_argument(
        "--server",
        metavar="ID",
        help="only this server; names that depend on other servers cannot be told then",
    )
    listing.add_argument("--json", action="store_true", help="write it as JSON, for tools")


def main(arguments: argparse.Namespace) -> int:
    """List everything; return the exit code."""
    if not arguments.debug:  # the SDK logs the tracebacks of what is told here in a line
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(logging.NullHandler())
    with configuration(arguments) as found:
        layers = _looked_at(found, arguments.server)
    if arguments.json:
        print(json.dumps({"layers": [_as_json(layer) for layer in layers]}, indent=2))  # noqa: T201
    else:
        print("\n\n".join(map(_as_text, layers)) or _NONE.rstrip())  # noqa: T201 - what it is for
    return PROBLEMS if any(layer.is_wrong for layer in layers) else OK


def _looked_at(found: Configuration, server: str | None) -> Sequence[Layer]:
    from interpose_mcp.inspection import inspected

    return asyncio.run(inspected(found.layers, found.folder, server))


def _as_text(layer: Layer) -> str:
    agents = "agent" if len(layer.agents) == 1 else "agents"
    lines = [f"{layer.id}  {layer.use}, {agents} {', '.join(layer.agents)}"]
    for server in layer.servers:
        lines += ["", *(f"  {line}" for line in _server_lines(server))]
    if layer.problems:
        lines += ["", *(f"  problem: {_visible(problem)}" for problem in layer.problems)]
    return "\n".join(lines)


def _server_lines(server: Server) -> Iterator[str]:
    yield f"{server.id}  {server.transport} {_visible(server.address)}"
    yield f"  hash {server.digest}"
    if server.protocol:
        about = f", {_visible(server.name)}" if server.name else ""
        yield f"  protocol {server.protocol}{about}"
    if server.problem:
        yield f"  problem: {_visible(server.problem)}"
        return
    if not server.tools:
        yield "  no tools"
    rows = [[_visible(cell) for cell in _row(tool)] for tool in server.tools]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(map(str.ljust, row, widths)).rstrip()


def _row(tool: Tool) -> tuple[str, str, str, str]:
    rest = [tool.resource_uri or "", f"left out: {tool.left_out}" if tool.left_out else ""]
    return tool.name or "-", tool.own_name, tool.visibility, "  ".join(filter(None, rest))


def _visible(text: str) -> str:
    """Spell out what does not show: a server may not steer a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _as_json(layer: Layer) -> dict[str, Any]:
    return {
        "id": layer.id,
        "use": layer.use,
        "agents": list(layer.agents),
        "servers": [_server_json(server) for server in layer.servers],
        "problems": list(layer.problems),
    }


def _server_json(server: Server) -> dict[str, Any]:
    return {
        "id": server.id,
        "transport": server.transport,
        "address": server.address,
        "hash": server.digest,
        "protocol": server.protocol or None,
        "server": server.name or None,
        "problem": server.problem,
        "tools": [_tool_json(tool) for tool in server.tools],
    }


def _tool_json(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "tool": tool.own_name,
        "visibility": [] if tool.visibility == "nobody" else tool.visibility.split(", "),
        "resourceUri": tool.resource_uri,
        "leftOut": tool.left_out,
    }
