"""A clock that a test drives."""

from __future__ import annotations

import asyncio

from contracting import in_loop

from interpose import (
    Layer,
    Middleware,
    RunContext,
)
from interpose.loop import Budget, LoopAgent, tool
from interpose.loop.scripted import ScriptedModel
from interpose.testing import (
    FakeClock,
    make_host,
    scripted,
)


@in_loop
async def test_sleepers_wake_in_the_order_of_their_moments_each_at_its_own() -> None:
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, *seconds: float) -> None:
        for each in seconds:
            await clock.sleep(each)
            woken.append((name, clock.monotonic()))

    tasks = [asyncio.ensure_future(sleep(*each)) for each in (("a", 3), ("b", 1, 1), ("c", 9))]
    await clock.advance(5)
    assert woken == [("b", 1.0), ("b", 2.0), ("a", 3.0)]
    assert clock.monotonic() == 5.0
    assert clock.time() == 1_700_000_005.0
    assert clock.sleepers == 1
    await clock.advance(4)
    await asyncio.gather(*tasks)
    assert woken[-1] == ("c", 9.0)


@in_loop
async def test_a_cancelled_sleeper_is_no_sleeper() -> None:
    clock = FakeClock()
    task = asyncio.ensure_future(clock.sleep(5))
    await asyncio.sleep(0)
    assert clock.sleepers == 1
    task.cancel()
    await asyncio.wait([task])
    assert clock.sleepers == 0
    await clock.advance(10)
    assert clock.monotonic() == 10.0


@in_loop
async def test_many_sleepers_wake() -> None:
    clock = FakeClock()
    tasks = [asyncio.ensure_future(clock.sleep(number % 10 + 1)) for number in range(500)]
    await clock.advance(10)
    assert all(task.done() for task in tasks)


@in_loop
async def test_to_sleep_for_no_time_lets_others_run() -> None:
    clock = FakeClock()
    await clock.sleep(0)
    await clock.sleep(-1)
    assert clock.sleepers == 0


@in_loop
async def test_a_jumping_clock_needs_nobody_to_drive_it() -> None:
    clock = FakeClock(jump=True)
    await asyncio.gather(clock.sleep(60), clock.sleep(3600))
    assert clock.monotonic() == 3600.0
    await clock.sleep(1)
    assert clock.monotonic() == 3601.0


@in_loop
async def test_a_jumping_clock_does_not_jump_to_a_cancelled_sleeper() -> None:
    clock = FakeClock(jump=True)
    long = asyncio.ensure_future(clock.sleep(1000))
    short = asyncio.ensure_future(clock.sleep(1))
    await asyncio.sleep(0)
    long.cancel()
    await asyncio.wait([long, short])
    assert clock.monotonic() == 1.0


class Waits(Middleware):
    async def setup(self, ctx: RunContext, /) -> None:
        await ctx.sleep(60)


@in_loop
async def test_the_deadline_of_a_layer_goes_by_the_clock() -> None:
    clock = FakeClock()
    layers = [Layer(Waits, deadline=5)]
    async with make_host(layers, agent=scripted("hi"), clock=clock) as host:
        run = asyncio.ensure_future(host.run("hi")._outcome())
        await clock.advance(4.9)
        assert not run.done()
        await clock.advance(0.2)
        result = await run
    assert getattr(result.error, "code", "") == "deadline-exceeded"


@in_loop
async def test_timeouts_of_tools_and_budgets_go_by_the_clock() -> None:
    clock = FakeClock(jump=True)

    @tool
    async def slow() -> str:
        """Take long."""
        await clock.sleep(90)
        return "done"

    model = ScriptedModel({"calls": [{"name": "slow"}]}, "So be it.")
    async with make_host([], agent=LoopAgent(model, [slow], tool_timeout=60), clock=clock) as host:
        result = await host.run("hi")
    assert result.text == "So be it."
    assert clock.monotonic() == 60.0
    for delay, said in ((1.0, "So be it."), (40.0, "")):
        model = ScriptedModel({"calls": [{"name": "slow"}], "delay": delay}, "So be it.")
        agent = LoopAgent(model, [slow], tool_timeout=1, budget=Budget(seconds=30))
        async with make_host([], agent=agent, clock=FakeClock(jump=True)) as host:
            assert (await host.run("hi")).text == said
