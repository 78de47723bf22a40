"""An MCP server that does one odd thing, so that tests see what a client makes of it.

    python odd_server.py --kind KIND [--where METHOD] [--how HOW] [--after N] ...

It prints its ports and keeps its log as ``mcp_serving`` says; all but the odd thing is as in
``mcp_plain``. ``KINDS`` has what there is.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from mcp_plain import ANYTHING, EVENTS, MOVED, Plain, RefusedError, gone
from mcp_serving import Log, bound, serve
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

PRIVATE = "private: s3cret"
SIZE = 64 * 1024
MEGABYTE = 1024 * 1024


class Redirect(Plain):
    """After so many messages it sends a client to another path of its own, where it answers."""

    async def odd(self, request: Request, message: dict[str, Any]) -> Response | None:
        if self.has_moved(request) or self.posts < self.options.after + bool(message):
            return None
        path = f"{request.url.path}?{request.url.query}".removesuffix("?")
        return RedirectResponse(self.target() + path, 307)

    def has_moved(self, request: Request) -> bool:
        """Say whether the client is where it is to go."""
        return request.url.path.startswith(MOVED)

    def target(self) -> str:
        """Return where it is to go."""
        return MOVED


class RedirectAway(Redirect):
    """Likewise, to its other port."""

    def has_moved(self, request: Request) -> bool:
        return str(request.base_url).rstrip("/") == self.other

    def target(self) -> str:
        return self.other


class ChangesOrigin(Plain):
    """It names its other port: in the endpoint of SSE; over streamable HTTP as where to log in."""

    def endpoint(self, session: str) -> str:
        return self.other + super().endpoint(session)

    async def odd(self, request: Request, message: dict[str, Any]) -> Response | None:
        if request.url.path != "/mcp":
            return None
        known = f"{self.other}/.well-known/oauth-protected-resource"
        headers = {"www-authenticate": f'Bearer resource_metadata="{known}"'}
        return Response(status_code=401, headers=headers)


class StallsOnDelete(Plain):
    """It never answers the end of a session."""

    async def delete(self, request: Request) -> Response:
        return await gone(request)


class DiesInCall(Plain):
    """The process ends, with status 3, when a tool is called."""

    async def odd(self, request: Request, message: dict[str, Any]) -> Response | None:
        if message.get("method") == "tools/call":
            os._exit(3)
        return None


class DropsConnection(Plain):
    """It ends the stream of a call without an answer, and lives on.

    How: ``clean`` ends the response in good order, ``abrupt`` cuts the connection, ``resumable``
    gives an event id first, with which a client may ask for the rest, in vain.
    """

    async def odd(self, request: Request, message: dict[str, Any]) -> Response | None:
        if message.get("method") != "tools/call":
            return None
        if request.url.path == "/messages":
            self.streams[request.query_params["session"]].put_nowait(None)
            return Response(status_code=202)
        return StreamingResponse(self.dropped(), media_type=EVENTS)

    async def dropped(self) -> AsyncIterator[bytes]:
        """Yield the beginning of a stream."""
        if self.options.how == "resumable":
            yield b"id: 1\nretry: 10\ndata: \n\n"
        else:
            yield b": working\n\n"
        if self.options.how == "abrupt":
            raise ConnectionError("cut, as asked")


class Many(Plain):
    """It has very many tools, on pages: ``tool_000`` and so on."""

    def tools(self, cursor: str | None) -> dict[str, Any]:
        first, total = int(cursor or 0), self.options.total
        after = min(first + self.options.page, total)
        page: dict[str, Any] = {"tools": [tool(number) for number in range(first, after)]}
        return {**page, "nextCursor": str(after)} if after < total else page


class GrowingCursor(Plain):
    """Its list has another page always, each with another cursor and another tool."""

    def tools(self, cursor: str | None) -> dict[str, Any]:
        number = int(cursor or 0)
        return {"tools": [tool(number)], "nextCursor": str(number + 1)}


class EndlessCursor(Plain):
    """Its list has another page always, each with the same cursor and another tool."""

    pages = 0

    def tools(self, cursor: str | None) -> dict[str, Any]:
        self.pages += 1
        return {"tools": [tool(self.pages)], "nextCursor": "again"}


class PrivateErrors(Plain):
    """It answers with an error that has private text: of the protocol (``rpc``) or ``http``."""

    async def odd(self, request: Request, message: dict[str, Any]) -> Response | None:
        if self.options.how == "http" and message.get("method") == self.options.where:
            return PlainTextResponse(PRIVATE, 500)
        return None

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self.options.how != "http" and method == self.options.where:
            raise RefusedError(-32603, PRIVATE)
        return super().result(method, params)


class Huge(Plain):
    """An answer has so many megabytes, in pieces. The log has how many bytes of it were sent."""

    async def pieces(self, request: Request, message: dict[str, Any]) -> AsyncIterator[bytes]:
        if message["method"] != self.options.where:
            async for piece in super().pieces(request, message):
                yield piece
            return
        before, _, after = json.dumps({**self.reply(message), "result": self.filled()}).partition(
            "X"
        )
        entry = self.log.add("huge", bytes=0, ended=False)
        try:
            yield before.encode()
            for _ in range(self.options.megabytes * MEGABYTE // SIZE):
                if await request.is_disconnected():
                    return
                yield b"x" * SIZE
                entry["bytes"] += SIZE
            yield after.encode()
        finally:
            entry["ended"] = True

    def filled(self) -> dict[str, Any]:
        """Return a result with an X where it is to be filled."""
        if self.options.where == "tools/list":
            return {"tools": [{"name": "huge", "description": "X", "inputSchema": ANYTHING}]}
        if self.options.where == "resources/read":
            return {"contents": [{"uri": "text://huge", "mimeType": "text/plain", "text": "X"}]}
        return {"content": [{"type": "text", "text": "X"}]}


class Compressed(Plain):
    """An answer is compressed, though nobody asked for that."""

    async def odd(self, request: Request, message: dict[str, Any]) -> Response | None:
        if message.get("method") != self.options.where:
            return None
        text = json.dumps(self.reply(message))
        kind = "application/json"
        if self.options.answers == "sse":
            text, kind = f"data: {text}\n\n", EVENTS
        headers = {"content-encoding": "gzip"}
        return Response(gzip.compress(text.encode()), media_type=kind, headers=headers)


class PromisesChanges(Plain):
    """It promises to say when its tools change, and opens no stream to say so on."""

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        result = super().result(method, params)
        if method == "initialize":
            result["capabilities"]["tools"]["listChanged"] = True
        return result


class SlowHandshake(Plain):
    """It never answers the beginning of a session."""

    async def odd(self, request: Request, message: dict[str, Any]) -> Response | None:
        if message.get("method") in {"initialize", "server/discover"}:
            return await gone(request)
        return None


class BadJson(Plain):
    """An answer is no JSON."""

    async def pieces(self, request: Request, message: dict[str, Any]) -> AsyncIterator[bytes]:
        if message["method"] == self.options.where:
            yield b"{not json: " + PRIVATE.encode()
            return
        async for piece in super().pieces(request, message):
            yield piece


class NoSessionAfter(Plain):
    """After so many messages it forgets all sessions, once, as if it had been started again."""

    async def odd(self, request: Request, message: dict[str, Any]) -> Response | None:
        if self.posts == self.options.after + 1:
            self.sessions.clear()
        return None


class PingRefused(Plain):
    """It knows no ping."""

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "ping":
            raise RefusedError(-32601, "Method not found")
        return super().result(method, params)


KINDS: dict[str, type[Plain]] = {
    "plain": Plain,
    "redirect": Redirect,
    "redirect-away": RedirectAway,
    "changes-origin": ChangesOrigin,
    "stalls-on-delete": StallsOnDelete,
    "dies-in-call": DiesInCall,
    "drops-connection": DropsConnection,
    "many": Many,
    "endless-cursor": EndlessCursor,
    "growing-cursor": GrowingCursor,
    "private-errors": PrivateErrors,
    "huge": Huge,
    "compressed": Compressed,
    "promises-changes": PromisesChanges,
    "slow-handshake": SlowHandshake,
    "bad-json": BadJson,
    "no-session-after": NoSessionAfter,
    "ping-refused": PingRefused,
}


def tool(number: int) -> dict[str, Any]:
    """Return one of many tools."""
    return {"name": f"tool_{number:03}", "description": f"No. {number}", "inputSchema": ANYTHING}


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--where", default="tools/call", help="the method that it is odd in")
    parser.add_argument("--how", default="", help="see the kinds")
    parser.add_argument("--after", type=int, default=0, help="messages before it is odd")
    parser.add_argument("--total", type=int, default=500, help="tools")
    parser.add_argument("--page", type=int, default=50, help="tools of a page")
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--answers", choices=["json", "sse"], default="json")
    options = parser.parse_args()
    log = Log()
    sockets = [bound(), bound()]
    other = f"http://127.0.0.1:{sockets[1].getsockname()[1]}"
    serve(KINDS[options.kind](options, log, other).app(), log, sockets)


if __name__ == "__main__":
    main()
