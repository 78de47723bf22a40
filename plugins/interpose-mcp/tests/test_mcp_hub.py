"""Listings of all runs of a host: read once, kept while they are true, read anew when they are not."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from loguru import logger
from mcp import MCPError
from mcp.server import Server
from mcp.types import ListToolsResult, Tool

from interpose.testing.clocks import FakeClock
from interpose_mcp.failures import McpFailure
from interpose_mcp.hub import Hub
from interpose_mcp.settings import ServerSettings
from interpose_mcp.target import Target

RUN: ContextVar[str] = ContextVar("RUN", default="none")
MODES = pytest.mark.parametrize("protocol", ["auto", "legacy"])


class Shop:
    """A server in this process whose listing a test decides."""

    def __init__(self) -> None:
        self.names = ["a"]
        self.listings = 0
        self.seen_in: list[str] = []
        self.open = 0
        self.sessions = 0
        self.gate: asyncio.Event | None = None
        self.fails = False
        self.unreachable = False
        self.server = Server("shop", on_list_tools=self.list, lifespan=self.lifespan)

    @asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[None]:
        if self.unreachable:
            raise ConnectionError("nobody is at home")
        self.open += 1
        self.sessions += 1
        try:
            yield
        finally:
            self.open -= 1

    async def list(self, _ctx: Any, _params: Any) -> ListToolsResult:
        self.listings += 1
        self.seen_in.append(RUN.get())
        found = [Tool(name=name, input_schema={"type": "object"}) for name in self.names]
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            raise MCPError(-32_050, "private")
        return ListToolsResult(tools=found)


@pytest.fixture
def log() -> Iterator[list[str]]:
    texts: list[str] = []
    logger.enable("interpose_mcp")  # another test may have silenced it
    sink = logger.add(lambda text: texts.append(str(text)), format="{level} {message}")
    yield texts
    logger.remove(sink)


def play(
    use: Callable[[Hub, Shop, FakeClock], Awaitable[None]], *, max_age: float = 300, **settings: Any
) -> Shop:
    """Use a hub with one server, and find that nothing is left of it."""
    shop, clock = Shop(), FakeClock()

    async def main() -> None:
        me = ServerSettings.model_validate({"python": "not:imported", **settings})
        target = Target("s", me, Path(), server=shop.server)
        hub = Hub({"s": target}, max_age=max_age, clock=clock, log=logger)
        async with asyncio.timeout(30):
            try:
                await use(hub, shop, clock)
            finally:
                await hub.close()
        gc.collect()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert shop.open == 0
    return shop


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [tool.name for tool in tools]


async def until(true: Callable[[], object]) -> None:
    """Wait for something in this process; ``play`` bounds it."""
    while not true():  # noqa: ASYNC110 - the server sets no event
        await asyncio.sleep(0.01)


@MODES
def test_runs_that_come_together_share_one_listing(protocol: str) -> None:
    async def use(hub: Hub, shop: Shop, _: FakeClock) -> None:
        found = await asyncio.gather(*(hub.tools("s") for _ in range(20)))
        assert {tuple(names(each)) for each in found} == {("a",)}

    assert play(use, protocol=protocol).listings == 1


def test_a_listing_is_kept_for_its_time_and_no_longer() -> None:
    async def use(hub: Hub, shop: Shop, clock: FakeClock) -> None:
        first = await hub.tools("s")
        await clock.advance(299)
        assert await hub.tools("s") is first
        shop.names = ["b"]
        await clock.advance(2)
        assert names(await hub.tools("s")) == ["b"]

    shop = play(use)
    assert shop.listings == shop.sessions == 2


def test_without_an_age_each_run_lists_anew() -> None:
    async def use(hub: Hub, *_: Any) -> None:
        await hub.tools("s")
        await hub.tools("s")

    assert play(use, max_age=0).listings == 2


def test_a_session_that_no_run_shares_does_not_outlive_the_listing() -> None:
    async def use(hub: Hub, shop: Shop, _: FakeClock) -> None:
        await hub.tools("s")
        await until(lambda: not shop.open)

    play(use)


def test_the_session_that_all_runs_share_is_the_one_that_lists() -> None:
    async def use(hub: Hub, shop: Shop, clock: FakeClock) -> None:
        sessions = await asyncio.gather(*(hub.session("s") for _ in range(5)))
        await hub.tools("s")
        await clock.advance(400)
        await hub.tools("s")
        assert {*sessions, await hub.session("s")} == {sessions[0]}

    shop = play(use, session="host")
    assert (shop.sessions, shop.listings) == (1, 2)


def test_a_run_that_is_cancelled_while_it_waits_harms_no_other() -> None:
    async def use(hub: Hub, shop: Shop, _: FakeClock) -> None:
        shop.gate = asyncio.Event()
        runs = [asyncio.create_task(hub.tools("s")) for _ in range(3)]
        await until(lambda: shop.listings)
        runs[0].cancel()
        await asyncio.wait([runs[0]])
        assert runs[0].cancelled()
        shop.gate.set()
        assert [names(await run) for run in runs[1:]] == [["a"], ["a"]]

    assert play(use).listings == 1


def test_if_all_that_wait_are_cancelled_the_listing_is_there_for_the_next() -> None:
    async def use(hub: Hub, shop: Shop, _: FakeClock) -> None:
        shop.gate = asyncio.Event()
        run = asyncio.create_task(hub.tools("s"))
        await until(lambda: shop.listings)
        run.cancel()
        await asyncio.wait([run])
        shop.gate.set()
        assert names(await hub.tools("s")) == ["a"]

    assert play(use).listings == 1


def test_a_host_that_ends_while_a_listing_is_read_leaves_nothing() -> None:
    async def use(hub: Hub, shop: Shop, _: FakeClock) -> None:
        shop.gate = asyncio.Event()
        run = asyncio.create_task(hub.tools("s"))
        await until(lambda: shop.listings)
        await hub.close()
        await asyncio.wait([run])
        with pytest.raises(McpFailure, match="the host ends"):
            await hub.session("s")

    play(use)


def test_a_server_that_fails_is_left_alone_for_thirty_seconds(log: list[str]) -> None:
    async def use(hub: Hub, shop: Shop, clock: FakeClock) -> None:
        shop.fails = True
        for _ in range(3):
            with pytest.raises(McpFailure, match="answered with an error") as caught:
                await hub.tools("s")
            assert "private" not in caught.value.message
        assert shop.listings == 1
        shop.fails = False
        await clock.advance(29)
        with pytest.raises(McpFailure):
            await hub.tools("s")
        await clock.advance(2)
        assert names(await hub.tools("s")) == ["a"]

    play(use)
    assert len([line for line in log if line.startswith("ERROR")]) == 1


@MODES
def test_a_server_that_cannot_be_reached_is_left_alone_too(protocol: str) -> None:
    async def use(hub: Hub, shop: Shop, clock: FakeClock) -> None:
        shop.unreachable = True
        for _ in range(2):
            with pytest.raises(McpFailure, match="could not be reached") as caught:
                await hub.tools("s")
            assert not caught.value.executed
        shop.unreachable = False
        await clock.advance(31)
        assert names(await hub.tools("s")) == ["a"]

    play(use, protocol=protocol)


def test_a_failure_that_is_remembered_grows_with_no_run() -> None:
    async def use(hub: Hub, shop: Shop, _: FakeClock) -> None:
        shop.fails = True
        seen = []
        for _run in range(3):
            with pytest.raises(McpFailure) as caught:
                await hub.tools("s")
            seen.append(caught.value)
        assert len({id(each) for each in seen}) == 3

    play(use)


def test_a_change_while_a_listing_is_read_is_not_lost() -> None:
    async def use(hub: Hub, shop: Shop, _: FakeClock) -> None:
        session = await hub.session("s")
        shop.gate = asyncio.Event()
        early = asyncio.create_task(hub.tools("s"))
        await until(lambda: shop.listings)
        shop.names = ["a", "b"]
        session.missed()
        late = asyncio.create_task(hub.tools("s"))  # it must not be given the old listing
        await until(lambda: shop.listings == 2)
        shop.gate.set()
        assert names(await early) == ["a"]
        assert names(await late) == ["a", "b"]
        assert names(await hub.tools("s")) == ["a", "b"]

    assert play(use, session="host").listings == 2


def test_a_listing_that_was_overtaken_does_not_replace_a_newer_one() -> None:
    async def use(hub: Hub, shop: Shop, _: FakeClock) -> None:
        session = await hub.session("s")
        shop.gate = slow = asyncio.Event()
        early = asyncio.create_task(hub.tools("s"))
        await until(lambda: shop.listings)
        shop.names, shop.gate = ["b"], None
        session.missed()
        assert names(await hub.tools("s")) == ["b"]
        slow.set()
        await early
        assert names(await hub.tools("s")) == ["b"]

    assert play(use, session="host").listings == 2


def test_tools_that_cannot_be_offered_are_left_out_and_told(log: list[str]) -> None:
    async def use(hub: Hub, shop: Shop, _: FakeClock) -> None:
        shop.names = ["a", "twice", "twice"]
        assert names(await hub.tools("s")) == ["a", "twice"]

    play(use)
    [line] = [line for line in log if line.startswith("WARNING")]
    assert "'twice' of the MCP server 's' is left out: the server lists it twice" in line


def test_work_that_outlives_a_run_is_not_in_its_context() -> None:
    async def use(hub: Hub, *_: Any) -> None:
        RUN.set("first")
        await hub.tools("s")

    assert play(use).seen_in == ["none"]
