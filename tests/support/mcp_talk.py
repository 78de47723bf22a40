"""Talking to MCP servers without the product: with the plain SDK, and without any."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import httpx2
from driving import SECONDS
from mcp import Client
from mcp_parts import Served

T = TypeVar("T")
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Do something with an event loop, for a bounded time."""

    async def bounded() -> T:
        with anyio.fail_after(SECONDS):
            return await work()

    return asyncio.run(bounded())


def plain(result: Any) -> dict[str, Any]:
    """Return what came, as it came."""
    return dict(result.model_dump(by_alias=True, exclude_unset=True, mode="json"))


def talk(target: Any, use: Callable[[Client], Awaitable[T]], **options: Any) -> T:
    """Hold a session with the protocol of before, and return what came of it."""

    async def session() -> T:
        async with Client(target, mode="legacy", **options) as client:
            return await use(client)

    return run(session)


def texts(server: Served, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """Call tools in one session, and return the text of each result."""

    async def use(client: Client) -> list[str]:
        results = [plain(await client.call_tool(name, given)) for name, given in calls]
        return [result["content"][0]["text"] for result in results]

    return talk(server.url, use)


class Wire:
    """A client without any SDK, which does as it is told."""

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self.client = client
        self.url = url
        self.headers = {"accept": "application/json, text/event-stream"}

    async def post(self, method: str, **params: Any) -> httpx2.Response:
        """Send a request, and return what HTTP answers."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await self.client.post(self.url, json=message, headers=self.headers)
        if "mcp-session-id" in answer.headers:
            self.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        return answer

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer of the protocol, however it came."""
        answer = await self.post(method, **params)
        text = (
            answer.text.strip().partition("data: ")[2] if "\ndata: " in answer.text else answer.text
        )
        return dict(json.loads(text))


@asynccontextmanager
async def wire(server: Served, **options: Any) -> AsyncIterator[Wire]:
    """Begin a session without any SDK."""
    async with httpx2.AsyncClient(trust_env=False, **options) as client:
        talking = Wire(client, server.url)
        await talking.post("initialize", **HELLO)
        yield talking


def with_wire(server: Served, use: Callable[[Wire], Awaitable[T]], **options: Any) -> T:
    """Hold a session without any SDK, and return what came of it."""

    async def session() -> T:
        async with wire(server, **options) as talking:
            return await use(talking)

    return run(session)
