"""A server on 127.0.0.1 that answers HTTP with whatever bytes a test wants, whenever it wants."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

STREAM = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    line: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def input(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    def started(self) -> dict[str, Any]:
        """Return the RUN_STARTED of this request."""
        ids = {"threadId": self.input["threadId"], "runId": self.input["runId"]}
        return {"type": "RUN_STARTED", **ids}

    def finished(self) -> dict[str, Any]:
        """Return the RUN_FINISHED of this request."""
        return {**self.started(), "type": "RUN_FINISHED"}

    def whole(self, text: str = "hello") -> list[dict[str, Any]]:
        """Return the events of a run that says ``text``."""
        return [self.started(), *says(text), self.finished()]


def says(*deltas: str) -> list[dict[str, Any]]:
    """Return the events of a message."""
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
        *({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta} for delta in deltas),
        {"type": "TEXT_MESSAGE_END", "messageId": "m"},
    ]


def frames(events: Iterable[Mapping[str, Any]], newline: str = "\n") -> bytes:
    """Return events as server-sent events."""
    return "".join(
        f"data: {json.dumps(event, ensure_ascii=False)}{newline}{newline}" for event in events
    ).encode()


class Answering:
    """What a handler answers with."""

    def __init__(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        self._writer = writer
        self._reader = reader

    async def raw(self, text: str | bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(text.encode() if isinstance(text, str) else text)
        await self._writer.drain()

    async def begin(self) -> None:
        """Send the head of a stream of events."""
        await self.raw(STREAM)

    async def chunk(self, data: bytes) -> None:
        """Send one chunk of the body."""
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        """End the body in good order."""
        await self.raw("0\r\n\r\n")

    async def stream(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Send a whole stream of events."""
        await self.begin()
        await self.chunk(frames(events))
        await self.end()

    async def whole(self, status: str, body: str = "", **headers: str) -> None:
        """Send a whole answer that is no stream."""
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body.encode())}", *lines])
        await self.raw(f"{head}\r\n\r\n{body}")

    async def closed(self) -> None:
        """Wait until the other side has closed the connection."""
        while await self._reader.read(1000):
            pass


Handler = Callable[[Asked, Answering], Awaitable[None]]


class RawServer:
    """The server; ``asked`` holds the requests, ``connections`` how many there were and are."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[Asked] = []
        self.connections = 0
        self.open = 0
        self.gone = asyncio.Event()
        """Set when a connection has ended."""


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """Serve inside the block; a connection that the handler leaves takes the next request."""
    server = RawServer()
    tasks: set[asyncio.Task[None]] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        server.open += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line, *lines = head.decode().strip().split("\r\n")
                pairs = (each.partition(":") for each in lines)
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                server.asked.append(Asked(line, headers, body))
                await handler(server.asked[-1], Answering(writer, reader))
        except (asyncio.IncompleteReadError, ConnectionError, StopAsyncIteration):
            pass
        finally:
            server.open -= 1
            server.gone.set()
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(connection(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    scheme = "http" if tls is None else "https"
    server.url = f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/agent"
    try:
        yield server
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
