"""Parts that end badly, or at a bad moment: the rest of the run ends as it should."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ag_ui.core import BaseEvent, EventType, RunAgentInput, TextMessageContentEvent
from playing import agent_of, finished, play, say, started

from interpose import (
    CallRun,
    EndInfo,
    Host,
    Layer,
    LifespanContext,
    Middleware,
    RunContext,
    StartupError,
    middleware,
    on,
)


class Retries(Middleware):
    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            held = [event async for event in call_next(run_input)]
        except ValueError:
            held = [event async for event in call_next(run_input)]
        for event in held:
            yield event


def test_a_task_cancelled_between_two_attempts_leaves_no_layer_untold() -> None:
    trace: list[str] = []

    class Inner(Middleware):
        async def on_error(self, ctx: RunContext, info: Any) -> None:
            await asyncio.sleep(0.03)
            trace.append(f"{ctx.layer} error")

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            trace.append(f"{ctx.layer} end")

    async def main() -> None:
        layers = [Layer(Retries), Layer(Inner, id="a"), Layer(Inner, id="b")]
        async with Host(layers, agent=agent_of(ValueError())) as host:

            async def use() -> None:
                await host.run("hi")

            task = asyncio.create_task(use())
            await asyncio.sleep(0.02)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert trace == ["b error", "b end", "a error", "a end"]


def test_an_attempt_that_was_given_up_is_told_of_its_own_end_only() -> None:
    trace: list[Any] = []
    failures = iter([ValueError("first attempt"), None, None])

    class GivesUp(Middleware):
        may_repeat = True

        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            if ctx.attempt == 2:
                async for _ in call_next(run_input):
                    break
            async for event in call_next(run_input):
                yield event

    class Inner(Middleware):
        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            trace.append(end.kind)

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        if (failure := next(failures)) is not None:
            raise failure
        yield finished(run_input)

    assert play([Retries, GivesUp, Inner], agent).result.outcome == "success"
    assert trace == ["error", "abort", "finish"]


@pytest.mark.parametrize("inner", ["agent", "layer"])
def test_a_layer_is_closed_in_the_run_although_what_is_further_in_hangs(  # noqa: C901 - both at once
    inner: str,
) -> None:
    """All nested closings have one deadline; the outermost runs out first, and cancels the rest."""
    trace: list[str] = []

    async def hang() -> None:
        trace.append("hangs")
        await asyncio.sleep(60)

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        try:
            yield started(run_input)
            yield finished(run_input)
        finally:
            if inner == "agent":
                await hang()

    @middleware
    async def outer(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        finally:
            trace.append("outer closed")

    @middleware
    async def between(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        finally:
            if inner == "layer":
                await hang()

    async def main() -> None:
        overrides = {"host": {"ending_deadline": 0.05}}
        async with Host([outer, between], agent=agent, overrides=overrides) as host:
            async with host.run("hi") as run:
                async for _ in run:
                    break
            trace.append("the run is closed")

    asyncio.run(main())
    assert trace == ["hangs", "outer closed", "the run is closed"]


@pytest.mark.parametrize("who", ["agent", "layer"])
def test_a_task_group_across_events_does_not_disturb_a_consumer_that_leaves(who: str) -> None:
    """A TaskGroup turns GeneratorExit into a BaseExceptionGroup."""
    trace: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            trace.append("work ended")

    @middleware
    async def beside(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async with asyncio.TaskGroup() as group:
            group.create_task(work())
            async for event in call_next(run_input):
                yield event

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        async with asyncio.TaskGroup() as group:
            group.create_task(work())
            yield started(run_input)
            await asyncio.sleep(60)

    async def quiet(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        await asyncio.sleep(60)

    class Outer(Middleware):
        def on_abort(self, ctx: RunContext, info: Any) -> None:
            trace.append(info.cause)

    async def main() -> None:
        layers: list[type[Middleware]] = [Outer] if who == "agent" else [Outer, beside]
        played = agent if who == "agent" else quiet
        async with Host(layers, agent=played) as host, host.run("hi") as run:
            async for _ in run:
                await asyncio.sleep(0.01)
                break

    asyncio.run(main())
    assert trace == ["work ended", "consumer-gone"]


def test_a_run_for_a_thread_is_driven_by_one_task() -> None:
    """Else a scope of the agent or a layer that is open across events ends in a foreign task."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    trace: list[str] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        token = variable.set("agent")
        try:
            async with asyncio.timeout(0.05):
                yield started(run_input)
                await asyncio.sleep(2)
        except TimeoutError:
            trace.append("timed out")
        finally:
            variable.reset(token)
            trace.append("reset")
        yield finished(run_input)

    with Host([], agent=agent).sync() as host:
        types = [event.type.value for event in host.run("hi")]
    assert types == ["RUN_STARTED", "RUN_FINISHED"]
    assert trace == ["timed out", "reset"]


def test_a_host_whose_exit_is_cancelled_leaves_no_task() -> None:
    class Defers(Middleware):
        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            ctx.defer(asyncio.sleep, 0.5)

    async def main() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                async with Host([Defers], agent=agent_of()) as host:
                    await host.run("hi")
        await asyncio.sleep(0.01)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_host_does_not_leave_a_run_behind_whose_layer_hangs() -> None:
    class Hangs(Middleware):
        @on(TextMessageContentEvent)
        async def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            await asyncio.sleep(60)

    async def main() -> None:
        async def use() -> None:
            await host.run("hi")

        overrides = {"host": {"ending_deadline": 0.05}}
        async with Host([Hangs], agent=agent_of(*say("x")), overrides=overrides) as host:
            task = asyncio.create_task(use())
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        assert task.done()

    asyncio.run(main())


def test_a_lifespan_that_times_out_by_itself_is_not_called_slow() -> None:
    class Connects(Middleware):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[None]:
            raise TimeoutError("the database did not answer")
            yield None

    with pytest.raises(StartupError, match="TimeoutError: the database did not answer"):
        play([Connects])


def test_a_skipped_layer_that_wrapped_the_agents_error_leaves_the_agents_error() -> None:
    class Wraps(Middleware):
        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            try:
                async for event in call_next(run_input):
                    yield event
            except ValueError as error:
                raise RuntimeError("of the layer") from error

    original = ValueError("of the agent")
    assert play([Layer(Wraps, on_failure="skip")], agent_of(original)).result.error is original


def test_cancelling_reaches_a_layer_that_answers_by_itself() -> None:
    @middleware
    async def endless(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for number in range(10_000):
            for event in say("x", message=str(number)):
                await asyncio.sleep(0)
                yield event
        yield finished(run_input)

    async def main() -> None:
        async with Host([endless], agent=agent_of()) as host:
            run = host.run("hi")
            seen = 0
            async for event in run:
                seen += 1
                if event.type is EventType.TEXT_MESSAGE_CONTENT:
                    run.cancel("enough")
            assert seen < 10
            assert (await run).outcome == "cancelled"

    asyncio.run(main())
