"""What the MCP servers in tests/mcp_servers are run with: a log of requests, and a bounded life.

Each prints one line of JSON when it is ready, ``{"port": …, "other": …}``: it listens on two ports
of this machine, so that it can send a client to another origin. It ends when its standard input
ends, however the tests ended.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = "/__log"
CLEAR = "/__log/clear"


class Log:
    """What a server has seen and done, in order; written to a file, too, if it is given one."""

    def __init__(self, path: Path | None = None) -> None:
        self.entries: list[dict[str, Any]] = []
        self._path = path

    def add(self, kind: str, **said: Any) -> dict[str, Any]:
        """Note something, with the seconds since the machine started."""
        entry = {"kind": kind, "at": time.monotonic(), **said}
        self.entries.append(entry)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        return entry


class Logged:
    """An application whose requests are noted, and which tells what was noted."""

    def __init__(self, app: ASGIApp, log: Log) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] == LOG:
            await JSONResponse(self._log.entries)(scope, receive, send)
        elif scope["path"] == CLEAR:
            self._log.entries.clear()
            await JSONResponse([])(scope, receive, send)
        else:
            await self._noted(scope, receive, send)

    async def _noted(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        entry = self._log.add("request", **described(scope, body))
        sent = False

        async def again() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def note_status(message: Message) -> None:
            if message["type"] == "http.response.start":
                entry["status"] = message["status"]
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                entry["answered"] = True

        await self._app(scope, again, note_status)


async def read_body(receive: Receive) -> bytes:
    """Read all of a request's body."""
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def described(scope: Scope, body: bytes) -> dict[str, Any]:
    """Say what a request asks for."""
    try:
        message: Any = json.loads(body or b"{}")
    except ValueError:
        message = {}
    asked: Mapping[str, Any] = message if isinstance(message, dict) else {}
    return {
        "method": scope["method"],
        "path": scope["path"],
        "query": scope["query_string"].decode(),
        "port": scope["server"][1],
        "rpc": asked.get("method"),
        "params": asked.get("params"),
        "headers": {name.decode(): value.decode() for name, value in scope["headers"]},
        "status": None,
        "answered": False,
    }


class Announced(uvicorn.Server):
    """A server that says when it is ready."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        first, other = (each.getsockname()[1] for each in sockets or ())
        print(json.dumps({"port": first, "other": other}), flush=True)  # noqa: T201 - the protocol


def end_with_standard_input() -> None:
    """End this process, whatever it is doing, when nobody holds its standard input any more."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def bound() -> socket.socket:
    """Return a socket on a free port of this machine."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(("127.0.0.1", 0))
    return taken


def serve(app: ASGIApp, log: Log, sockets: Sequence[socket.socket] = ()) -> None:
    """Serve an application on two ports, for as long as somebody holds standard input."""
    end_with_standard_input()
    config = uvicorn.Config(Logged(app, log), log_level="warning", timeout_graceful_shutdown=1)
    Announced(config).run(sockets=list(sockets) or [bound(), bound()])
