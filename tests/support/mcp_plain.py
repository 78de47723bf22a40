"""A small MCP server by hand, of which each odd one of the tests changes one thing.

It speaks the protocol with sessions over streamable HTTP (``/mcp``) and over SSE (``/sse``), and has
a plain tool ``echo(text)``, a tool ``clock`` with a page, and that page.
"""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from mcp_serving import Log
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

PAGE = "ui://clock/app.html"
MIME = "text/html;profile=mcp-app"
ANYTHING = {"type": "object", "properties": {}}
ECHO = {"type": "object", "properties": {"text": {"type": "string"}}}
EVENTS = "text/event-stream"
MOVED = "/moved"


class RefusedError(Exception):
    """What is answered with an error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Plain:
    """The server, with nothing odd. ``other`` is the origin of its second port."""

    def __init__(self, options: Namespace, log: Log, other: str = "") -> None:
        self.options = options
        self.log = log
        self.other = other
        self.posts = 0
        self.sessions: set[str] = set()
        self.streams: dict[str, asyncio.Queue[dict[str, Any] | None]] = {}

    def app(self) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                route
                for prefix in ("", MOVED)
                for route in (
                    Route(f"{prefix}/mcp", self.post, methods=["POST"]),
                    Route(f"{prefix}/mcp", self.delete, methods=["DELETE"]),
                    Route(f"{prefix}/sse", self.sse, methods=["GET"]),
                    Route(f"{prefix}/messages", self.post_of_sse, methods=["POST"]),
                )
            ]
        )

    # What is asked, and what is answered.

    def tools(self, cursor: str | None) -> dict[str, Any]:
        """Return a page of tools."""
        clock = {"ui": {"resourceUri": PAGE}}
        return {
            "tools": [
                {"name": "echo", "description": "Say it again.", "inputSchema": ECHO},
                {
                    "name": "clock",
                    "description": "Tell the time.",
                    "inputSchema": ANYTHING,
                    "_meta": clock,
                },
            ]
        }

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request."""
        match method:
            case "initialize":
                return {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}, "resources": {}},
                    "serverInfo": {"name": "odd", "version": "1.0"},
                }
            case "ping":
                return {}
            case "tools/list":
                return self.tools(params.get("cursor"))
            case "tools/call":
                text = (params.get("arguments") or {}).get("text", params.get("name"))
                return {"content": [{"type": "text", "text": text}]}
            case "resources/read":
                page = {"uri": params.get("uri"), "mimeType": MIME, "text": "<p>12:00</p>"}
                return {"contents": [page]}
        raise RefusedError(-32601, "Method not found")

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the whole answer to a request."""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            return {**answer, "result": self.result(message["method"], message.get("params") or {})}
        except RefusedError as refused:
            return {**answer, "error": {"code": refused.code, "message": refused.message}}

    async def pieces(self, request: Request, message: dict[str, Any]) -> AsyncIterator[bytes]:
        """Yield the text of the answer, as it is to be sent upon a request."""
        yield json.dumps(self.reply(message)).encode()

    async def odd(self, request: Request, message: dict[str, Any]) -> Response | None:
        """Return what is answered instead of an answer of the protocol, if anything."""
        return None

    # How it comes and goes.

    async def post(self, request: Request) -> Response:
        """Take a message over streamable HTTP."""
        message: dict[str, Any] = await request.json()
        self.posts += 1
        odd = await self.odd(request, message)
        if odd is not None:
            return odd
        headers = {}
        if message.get("method") == "initialize":
            headers["mcp-session-id"] = self.begin()
        elif (unknown := self.unknown(request)) is not None:
            return unknown
        if "id" not in message:
            return Response(status_code=202)
        if self.options.answers == "json":
            return StreamingResponse(
                self.pieces(request, message), media_type="application/json", headers=headers
            )
        return StreamingResponse(
            framed(self.pieces(request, message)), media_type=EVENTS, headers=headers
        )

    def begin(self) -> str:
        """Begin a session."""
        session = uuid4().hex
        self.sessions.add(session)
        return session

    def unknown(self, request: Request) -> Response | None:
        """Return how a request without a session that is there is refused."""
        session = request.headers.get("mcp-session-id")
        if session in self.sessions:
            return None
        status, text = (404, "Session not found") if session else (400, "No valid session ID")
        error = {"code": -32000, "message": text}
        return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status)

    async def delete(self, request: Request) -> Response:
        """End a session."""
        self.sessions.discard(request.headers.get("mcp-session-id", ""))
        return Response(status_code=200)

    def endpoint(self, session: str) -> str:
        """Return where a client of SSE is to send its messages."""
        return f"/messages?session={session}"

    async def sse(self, request: Request) -> Response:
        """Open the stream of a session over SSE."""
        odd = await self.odd(request, {})
        if odd is not None:
            return odd
        session = uuid4().hex
        queue = self.streams[session] = asyncio.Queue()

        async def stream() -> AsyncIterator[bytes]:
            yield f"event: endpoint\ndata: {self.endpoint(session)}\n\n".encode()
            while (message := await queue.get()) is not None:
                async for piece in framed(self.pieces(request, message)):
                    yield piece

        return StreamingResponse(stream(), media_type=EVENTS)

    async def post_of_sse(self, request: Request) -> Response:
        """Take a message over SSE."""
        message: dict[str, Any] = await request.json()
        self.posts += 1
        odd = await self.odd(request, message)
        if odd is not None:
            return odd
        if "id" in message:
            self.streams[request.query_params["session"]].put_nowait(message)
        return Response(status_code=202)


async def framed(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a text as one event of a stream."""
    yield b"event: message\ndata: "
    async for piece in pieces:
        yield piece
    yield b"\n\n"


async def gone(request: Request) -> Response:
    """Wait until the client has gone, and answer nothing."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return NoResponse()


class NoResponse(Response):
    """Nothing, for a client that has gone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pass
