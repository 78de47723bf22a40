"""What hangs while a run or a host ends is bounded by ``host.ending_deadline``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ag_ui.core import BaseEvent, RunAgentInput
from playing import agent_of, finished, say, started

from interpose import CallRun, EndInfo, Host, LifespanContext, Middleware, RunContext

DEADLINE = 0.05
GENEROUS = 5.0
"""Seconds that pass only if nobody bounds what hangs for :data:`FOREVER`."""
FOREVER = 60.0


class Outer(Middleware):
    """Further out than what hangs; hears of the end all the same."""

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        finally:
            ctx.attributes["log"].append("outer closed")

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        ctx.attributes["log"].append(f"outer {end.kind}")


def timed(
    layers: list[type[Middleware]], agent: Any, use: Callable[[Host, list[str]], Awaitable[None]]
) -> list[str]:
    """Use a host and leave it; returns what was logged. Fails if it took long."""

    async def main() -> list[str]:
        log: list[str] = []
        overrides = {"host": {"ending_deadline": DEADLINE}}
        async with asyncio.timeout(GENEROUS):
            async with Host([Outer, *layers], agent=agent, overrides=overrides) as host:
                await use(host, log)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return log

    return asyncio.run(main())


async def drain(host: Host, log: list[str]) -> None:
    result = await host.run("hi", attributes={"log": log})
    log.append(result.outcome)


async def stop(host: Host, log: list[str]) -> None:
    """Leave the host while a task of its own plays the run."""
    task = asyncio.create_task(drain(host, log))
    await asyncio.sleep(0.01)
    log.append(str(task.done()))


async def agent_that_hangs_at_its_end(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    try:
        yield started(run_input)
        for event in say("hello"):
            yield event
        yield finished(run_input)
    finally:
        await asyncio.sleep(FOREVER)


class HangsAtItsEnd(Middleware):
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        finally:
            await asyncio.sleep(FOREVER)


class HangsAfterTheTerminal(Middleware):
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            yield event
        await asyncio.sleep(FOREVER)


def test_an_agent_that_hangs_in_its_finally() -> None:
    log = timed([], agent_that_hangs_at_its_end, drain)
    assert log == ["outer closed", "outer finish", "success"]


@pytest.mark.parametrize("layer", [HangsAtItsEnd, HangsAfterTheTerminal])
def test_a_layer_that_hangs_after_the_terminal(layer: type[Middleware]) -> None:
    log = timed([layer], agent_of(*say("hello")), drain)
    assert log == ["outer closed", "outer finish", "success"]


@pytest.mark.parametrize("hook", ["on_finish", "on_end"])
def test_a_terminal_hook_that_hangs_keeps_no_other_from_its_own(hook: str) -> None:
    async def hang(self: Any, ctx: RunContext, info: Any) -> None:
        await asyncio.sleep(FOREVER)

    def told(self: Any, ctx: RunContext, info: Any) -> None:
        ctx.attributes["log"].append("told")

    other = "on_end" if hook == "on_finish" else "on_finish"
    body = {hook: hang, other: told, "__module__": __name__}
    log = timed([type("Hangs", (Middleware,), body)], agent_of(*say("hello")), drain)
    assert log == ["outer closed", "told", "outer finish", "success"]


def test_deferred_work_that_hangs_delays_neither_the_run_nor_what_comes_after_it() -> None:
    class Defers(Middleware):
        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            ctx.defer(asyncio.sleep, FOREVER)
            ctx.defer(ctx.attributes["log"].append, "second")

    async def use(host: Host, log: list[str]) -> None:
        await drain(host, log)
        log.append("the run is over")
        await asyncio.sleep(4 * DEADLINE)

    log = timed([Defers], agent_of(*say("hello")), use)
    assert log[-3:] == ["success", "the run is over", "second"]


def test_deferred_work_that_hangs_ends_with_the_host() -> None:
    class Defers(Middleware):
        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            ctx.defer(asyncio.sleep, FOREVER)
            ctx.defer(asyncio.sleep, FOREVER)

    assert timed([Defers], agent_of(*say("hello")), drain)[-1] == "success"


def test_a_lifespan_that_hangs_keeps_no_other_from_stopping() -> None:
    stopped: list[str] = []

    class First(Middleware):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[None]:
            yield None
            stopped.append("first")

    class Hangs(Middleware):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[None]:
            yield None
            await asyncio.sleep(FOREVER)

    timed([First, Hangs], agent_of(), drain)
    assert stopped == ["first"]


def test_a_task_of_a_lifespan_that_ends_slowly_is_bounded() -> None:
    async def slow() -> None:
        try:
            await asyncio.sleep(FOREVER)
        finally:
            await asyncio.sleep(4 * DEADLINE)

    class Starts(Middleware):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[None]:
            ctx.start_task(slow())
            await asyncio.sleep(0)
            yield None

    async def main() -> None:
        overrides = {"host": {"ending_deadline": DEADLINE}}
        async with asyncio.timeout(GENEROUS):
            async with Host([Starts], agent=agent_of(), overrides=overrides) as host:
                await host.run("hi")

    asyncio.run(main())


def test_a_host_that_is_left_ends_a_run_whose_agent_hangs_in_its_finally() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        try:
            yield started(run_input)
            await asyncio.sleep(FOREVER)
        finally:
            await asyncio.sleep(FOREVER)

    log = timed([], agent, stop)
    assert log == ["False", "outer closed", "outer abort", "cancelled"]
