"""A context for calls, and a provider that plays what a test writes, byte by byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ag_ui.core import BaseEvent, UserMessage

from interpose import LifespanContext, ModelContext, ModelRequest
from interpose_models import Models, ModelsSettings

KEY = "sk-test-0123456789abcdef"


@dataclass
class Run:
    """A call's context, and what was logged in it."""

    logged: list[str] = field(default_factory=list)

    @property
    def context(self) -> ModelContext:
        def warning(text: str, *values: object) -> None:
            self.logged.append(text.format(*values))

        run = SimpleNamespace(log=lambda _model: SimpleNamespace(warning=warning))
        return ModelContext(cast("Any", run), "main", "m1")


@pytest.fixture(name="run")
def run_fixture() -> Run:
    return Run()


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Provider:
    """A provider that reads one request for each answer that it has, and remembers it."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a caller closed its connection."""

    def model(self, name: str, **settings: Any) -> Any:
        base_url = self.url if name.startswith("anthropic") else f"{self.url}/v1"
        given = {"name": name, "api_key": KEY, "base_url": base_url, **settings}
        context = cast("LifespanContext", None)
        return Models()(ModelsSettings.model_validate(given), context)


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncIterator[Provider]:
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                provider.heads.append(head)
                length = next(
                    int(line.partition(":")[2])
                    for line in head.lower().splitlines()
                    if line.startswith("content-length:")
                )
                provider.bodies.append(json.loads(await reader.readexactly(length)))
                answering = asyncio.ensure_future(left.pop(0)(writer))
                leaving = asyncio.ensure_future(reader.read(1))
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if leaving.done() and not answering.done():
                    answering.cancel()
                    break
                await answering
                break
        except asyncio.IncompleteReadError:
            pass
        finally:
            provider.gone.set()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    provider = Provider(f"http://{host}:{port}")
    async with server:
        yield provider


def sse(*data: Any, named: bool) -> list[bytes]:
    frames = []
    for each in data:
        name = f"event: {each['type']}\n" if named else ""
        text = each if isinstance(each, str) else json.dumps(each)
        frames.append(f"{name}data: {text}\n\n".encode())
    return frames


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def streaming(frames: Sequence[bytes], *, then: str = "end") -> Answer:
    """Answer with these frames; ``then``: ``end`` in good order, ``hang`` or ``break``."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for frame in frames:
            writer.write(b"%x\r\n%s\r\n" % (len(frame), frame))
            await writer.drain()
        if then == "hang":
            await asyncio.sleep(60)
        elif then == "end":
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    return answer


def chat_chunk(*, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o-2024-11-20",
        "choices": [choice],
    }


def chat_answer(*chunks: dict[str, Any], then: str = "end") -> Answer:
    return streaming(sse(*chunks, named=False), then=then)


def claude_answer(*events: dict[str, Any], then: str = "end") -> Answer:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 30,
        "cache_creation_input_tokens": 5,
        "output_tokens": 1,
    }
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    start = {"type": "message_start", "message": message}
    return streaming(sse(start, *events, named=True), then=then)


def refusal(status: int, body: Any, *headers: str) -> Answer:
    text = json.dumps(body).encode()

    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = [
            f"HTTP/1.1 {status} No",
            "content-type: application/json",
            f"content-length: {len(text)}",
            *headers,
        ]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + text)
        await writer.drain()

    return answer


class Wire:
    """A provider to serve, its answers in either protocol, and a call to play.

    ``chat``: OpenAI's chat completions; ``claude``: Anthropic's messages; ``refusing``: a status
    and a body, and nothing else.
    """

    serve = staticmethod(serving)
    chat = staticmethod(chat_answer)
    chunk = staticmethod(chat_chunk)
    claude = staticmethod(claude_answer)
    refusing = staticmethod(refusal)
    hello = ModelRequest("main", (UserMessage(id="u1", content="Hello"),))

    def __init__(self, run: Run) -> None:
        self.run = run

    async def play(self, model: Any, request: ModelRequest, run: Run) -> list[BaseEvent]:
        """Play one call, and close the model."""
        try:
            return [event async for event in model.stream(request, run.context)]
        finally:
            await model.aclose()

    async def collect(self, model: Any, events: list[BaseEvent]) -> None:
        """Play one call into a list that has what came before a failure."""
        try:
            async for event in model.stream(self.hello, self.run.context):
                events.append(event)  # noqa: PERF401 - see above
        finally:
            await model.aclose()


@pytest.fixture(name="wire")
def wire_fixture(run: Run) -> Wire:
    return Wire(run)
