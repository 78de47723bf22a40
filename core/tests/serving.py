"""What the tests of the server share: a real server on loopback, and a client for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import uvicorn

from interpose import Host
from interpose.server import Provide, asgi
from interpose.server.listening import listen


def body(text: str = "hello", *, run_id: str = "run-1", **fields: Any) -> dict[str, Any]:
    """Return an input in wire form, as a client of AG-UI 1.0 sends it."""
    return {
        "protocolVersion": "1.0",
        "threadId": "thread-1",
        "runId": run_id,
        "messages": [{"id": "u1", "role": "user", "content": text}],
        **fields,
    }


def events_of(text: str) -> list[dict[str, Any]]:
    """Return the events of a response that has ended."""
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]


def types_of(text: str) -> list[str]:
    """Return the types of the events of a response that has ended."""
    return [event["type"] for event in events_of(text)]


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the test's own event loop."""
        yield


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI application in this event loop; yields its URL."""
    sock = listen("127.0.0.1", 0)
    config = uvicorn.Config(app, log_config=None, access_log=False, ws="websockets-sansio")
    server = _Server(config)
    with sock:
        task = asyncio.create_task(server.serve(sockets=[sock]))
        while not server.started:
            if task.done():
                await task
            await asyncio.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}/"
        finally:
            server.should_exit = True
            await task


@asynccontextmanager
async def served(
    host: Host, *, provide: Provide | None = None
) -> AsyncIterator[tuple[httpx2.AsyncClient, str]]:
    """Serve a host; yields a client and the server's URL."""
    async with (
        listening(asgi(host, provide=provide)) as url,
        httpx2.AsyncClient(base_url=url, trust_env=False, timeout=20) as client,
    ):
        yield client, url


def server(**table: Any) -> dict[str, Any]:
    """Return overrides with a ``[server]`` table."""
    return {"server": table}


def run_async(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine, and see that it leaves no task behind."""

    async def whole() -> None:
        before = asyncio.all_tasks()
        async with asyncio.timeout(30):
            await test()
        for _ in range(50):
            if asyncio.all_tasks() <= before:
                break
            await asyncio.sleep(0.01)
        left = [task.get_name() for task in asyncio.all_tasks() - before]
        assert left == []

    asyncio.run(whole())


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait until something has come true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - any condition
            await asyncio.sleep(0.005)
