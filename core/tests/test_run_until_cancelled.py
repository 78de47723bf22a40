"""A layer that waits for something of its own learns that the run is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from ag_ui.core import BaseEvent, RunAgentInput, RunFinishedCancelledOutcome, RunFinishedEvent
from playing import agent_of

from interpose import CallRun, Host, Middleware, Point, RunContext
from interpose.loop import LoopAgent, ScriptedModel


class Waits(Middleware):
    """Waits for ever before it goes on, unless the run is cancelled."""

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        trace.append(f"waits {ctx.cancelled}")
        await ctx.until_cancelled()
        trace.append(f"stops {ctx.cancelled}")
        await ctx.until_cancelled()
        return
        yield


trace: list[str] = []


@pytest.mark.parametrize("early", [True, False])
def test_it_returns_when_the_run_is_cancelled_and_at_once_after_that(*, early: bool) -> None:
    trace.clear()

    async def main() -> list[BaseEvent]:
        async with Host([Waits], agent=agent_of()) as host:
            run = host.run("hi")
            if early:
                asyncio.get_running_loop().call_soon(run.cancel, "enough")
            else:
                asyncio.get_running_loop().call_later(0.05, run.cancel, "enough")
            async with asyncio.timeout(20):
                return [event async for event in run]

    events = asyncio.run(main())
    assert trace == ["waits False", "stops True"]
    last = events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert isinstance(last.outcome, RunFinishedCancelledOutcome)


def test_a_layer_learns_where_the_agent_lets_the_host_in() -> None:
    found: list[tuple[Point, ...]] = []

    class Looks(Middleware):
        def setup(self, ctx: RunContext) -> None:
            found.append(ctx.points)

    async def main() -> None:
        for agent in (agent_of(), LoopAgent(ScriptedModel("hello"))):
            async with Host([Looks], agent=agent) as host:
                await host.run("hi")

    asyncio.run(main())
    plain, loop = found
    assert set(plain) == {Point.RUN, Point.EVENTS}
    assert set(loop) == set(Point)
