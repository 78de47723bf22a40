"""Hubs and sessions of interpose-mcp without a host around them, and what they leave behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Any

from driving import SECONDS
from loguru import logger
from mcp.types import CallToolResult
from mcp_parts import Served

from interpose.testing.clocks import FakeClock
from interpose_mcp.calling import RunSessions, outcome_of
from interpose_mcp.hub import Hub
from interpose_mcp.settings import ServerSettings
from interpose_mcp.target import Target, target_of

Odd = Callable[..., AbstractContextManager[Served]]
"""Gives a server that does something odd."""


def target(id_: str = "s", folder: Path = Path(), **settings: Any) -> Target:
    """Return a configured server."""
    return target_of(id_, ServerSettings.model_validate(settings), folder)


@contextmanager
def logged() -> Iterator[list[str]]:
    """Keep what goes to the log of operators, as it is written there."""
    texts: list[str] = []
    for package in ("interpose", "interpose_mcp"):
        logger.enable(package)  # another test may have silenced it
    sink = logger.add(
        lambda message: texts.append(str(message)), level="TRACE", format="{level} {message}"
    )
    try:
        yield texts
    finally:
        logger.remove(sink)


@asynccontextmanager
async def hub_of(
    *targets: Target, clock: FakeClock | None = None, max_age: float = 300
) -> AsyncIterator[Hub]:
    """Hold the hub of a host."""
    made = Hub(
        {each.id: each for each in targets},
        max_age=max_age,
        clock=clock or FakeClock(),
        log=logger,
    )
    try:
        yield made
    finally:
        await made.close()


class Run:
    """The sessions of one run; what it defers is done at its end."""

    def __init__(self, hub: Hub) -> None:
        self._deferred: list[Callable[..., Awaitable[None]]] = []
        self.sessions = RunSessions(hub, self._deferred.append)

    async def __aenter__(self) -> RunSessions:
        return self.sessions

    async def __aexit__(self, *_: object) -> None:
        for work in self._deferred:
            await work()


@asynccontextmanager
async def run_of(each: Target) -> AsyncIterator[RunSessions]:
    """Hold the sessions of a run, with one server."""
    async with hub_of(each) as hub, Run(hub) as run:
        yield run


def text(result: CallToolResult) -> str:
    """Return what a model is told of a result."""
    return outcome_of(result).result.content


def names(tools: Any) -> list[str]:
    """Return the names of tools."""
    return [tool.name for tool in tools]


def running(log: list[Mapping[str, Any]] | Any, what: str, key: str = "") -> bool:
    """Tell whether the log of a server says this of its slow tool."""
    return any(each.get("what") == what and key in {"", each.get("key")} for each in log)


async def started(server: Served, key: str = "") -> None:
    """Wait until the slow tool has started."""
    await server.awaited(lambda log: running(log, "started", key))


async def cancelled(server: Served, key: str = "") -> None:
    """Wait until the slow tool has been told to stop."""
    await server.awaited(lambda log: running(log, "cancelled", key))


async def until(true: Callable[[], object]) -> None:
    """Wait for something in this process, for a bounded time."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = true()
            if await found if isawaitable(found) else found:
                return
            await asyncio.sleep(0.01)


def clean(work: Callable[[], Awaitable[Any]]) -> None:
    """Do something with an event loop, and find that no task and no warning is left of it."""
    unheard: list[Mapping[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        async with asyncio.timeout(SECONDS):
            await work()
        await asyncio.sleep(0.01)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    gc.collect()
    assert unheard == []
