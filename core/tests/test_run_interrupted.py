"""Cancellation in all its forms, hooks that end badly, and runs that are dropped or stale."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    EventType,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    TextMessageContentEvent,
    TokenUsage,
)
from playing import agent_of, finished, play, say, started

from interpose import (
    PRINCIPAL,
    CallRun,
    Host,
    Layer,
    LifespanContext,
    Middleware,
    Reject,
    RunContext,
    StartupError,
    UsageError,
    middleware,
    on,
)

ONE = {"host": {"max_concurrent": 1}}


async def sleeps(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    yield started(run_input)
    await asyncio.sleep(30)
    yield finished(run_input)


async def consume(run: Any) -> None:
    async for _ in run:
        pass


def test_a_second_cancellation_while_hooks_run_leaves_nothing_open() -> None:
    trace: list[str] = []

    class Slow(Middleware):
        def setup(self, ctx: RunContext) -> None:
            ctx.defer(trace.append, "deferred")

        async def on_abort(self, ctx: RunContext, info: Any) -> None:
            await asyncio.sleep(0.05)
            trace.append("aborted")

    async def main() -> None:
        async with Host([Slow], agent=sleeps, overrides=ONE) as host:
            task = asyncio.create_task(consume(host.run("x")))
            await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            await asyncio.sleep(0.1)
            run = host.run("again")
            asyncio.get_running_loop().call_later(0.02, run.cancel)
            assert (await run).outcome == "cancelled"

    asyncio.run(main())
    assert trace[:2] == ["aborted", "deferred"]


@pytest.mark.parametrize("how", ["finish", "interrupt", "abort"])
def test_nothing_ends_a_run_that_has_ended(how: str) -> None:
    trace: list[str] = []

    class Late(Middleware):
        def on_finish(self, ctx: RunContext, info: Any) -> None:
            getattr(ctx, how)(*(["late"] if how == "abort" else []))

        def on_end(self, ctx: RunContext, end: Any) -> None:
            trace.append(f"late {end.kind}")
            ctx.defer(ctx.finish)
            ctx.defer(trace.append, "deferred")

    class Outer(Middleware):
        def on_end(self, ctx: RunContext, end: Any) -> None:
            trace.append(f"outer {end.kind}")

    assert play([Outer, Late]).result.outcome == "success"
    assert trace == ["late finish", "outer finish", "deferred"]


def test_a_terminal_hook_may_clean_up_a_task_that_it_cancels() -> None:
    trace: list[str] = []

    class Cleans(Middleware):
        def setup(self, ctx: RunContext) -> None:
            self.task = asyncio.ensure_future(asyncio.sleep(30))

        async def on_end(self, ctx: RunContext, end: Any) -> None:
            self.task.cancel()
            await self.task

    class Outer(Middleware):
        def on_end(self, ctx: RunContext, end: Any) -> None:
            trace.append(end.kind)

    assert play([Outer, Cleans]).result.outcome == "success"
    assert trace == ["finish"]


@pytest.mark.parametrize("first", ["task", "run"])
def test_a_cancelled_task_stays_cancelled_when_its_run_is_cancelled_as_well(first: str) -> None:
    async def main() -> None:
        async with Host([], agent=sleeps) as host:
            run = host.run("x")
            task = asyncio.create_task(consume(run))
            await asyncio.sleep(0.02)
            cancels = [task.cancel, run.cancel]
            for cancel in cancels if first == "task" else cancels[::-1]:
                cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    asyncio.run(main())


async def awaits_a_cancelled_task() -> None:
    task = asyncio.ensure_future(asyncio.sleep(30))
    task.cancel()
    await task


def test_a_cancellation_of_the_agents_own_making_is_its_failure() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        await awaits_a_cancelled_task()

    played = play([], agent)
    assert played.error[0] == "agent-failed"
    assert isinstance(played.result.error, asyncio.CancelledError)


def test_a_cancellation_of_a_hooks_own_making_is_its_failure() -> None:
    class Hasty(Middleware):
        async def setup(self, ctx: RunContext) -> None:
            await awaits_a_cancelled_task()

    assert play([Hasty]).error[0] == "middleware-failed"


def test_the_agents_own_code_may_cancel_the_run() -> None:
    runs: list[Any] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        runs[0].cancel("budget")
        for event in say("never seen"):
            yield event
        await asyncio.sleep(30)

    async def main() -> None:
        async with Host([], agent=agent) as host:
            runs.append(host.run("x"))
            types = [event.type.value async for event in runs[0]]
            assert types == ["RUN_STARTED", "RUN_FINISHED"]
            assert (await runs[0]).outcome == "cancelled"
            await asyncio.sleep(0)  # no cancellation is left to strike later

    asyncio.run(main())


def test_an_agent_that_swallows_the_cancellation_does_not_keep_the_run() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(30)
        yield finished(run_input)

    async def main() -> None:
        async with Host([], agent=agent) as host:
            run = host.run("x")
            asyncio.get_running_loop().call_later(0.02, run.cancel)
            assert (await run).outcome == "cancelled"
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0

    asyncio.run(main())


def test_a_cancel_while_a_hook_holds_the_terminal_still_counts() -> None:
    runs: list[Any] = []

    class Holds(Middleware):
        async def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            if event.type is EventType.RUN_FINISHED:
                runs[0].cancel()
                await asyncio.sleep(0)

    async def main() -> None:
        async with Host([Holds], agent=agent_of()) as host:
            runs.append(host.run("x"))
            assert (await runs[0]).outcome == "cancelled"

    asyncio.run(main())


def test_an_agent_that_closes_slowly_is_interrupted_again() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(30)

    async def main() -> float:
        loop = asyncio.get_running_loop()
        overrides = {"host": {"ending_deadline": 0.05}}
        async with Host([], agent=agent, overrides=overrides) as host:
            run = host.run("x")
            loop.call_later(0.02, run.cancel)
            since = loop.time()
            assert (await run).outcome == "cancelled"
            return loop.time() - since

    assert asyncio.run(main()) < 10


def test_emitted_events_pass_layers_that_have_only_around_run() -> None:
    seen: list[str] = []

    @middleware
    async def outer(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            seen.append(event.type.value)
            yield event

    class Emits(Middleware):
        def on_message(self, ctx: RunContext, message: Any) -> None:
            ctx.emit(CustomEvent(name="note", value=1))

    for strict in (False, True):
        seen.clear()
        types = play([outer, Emits], strict=strict).types
        assert types == seen
        assert types[3:5] == ["CUSTOM", "TEXT_MESSAGE_END"]


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_emitted_before_the_run_has_started_waits_for_it(strict: bool) -> None:  # noqa: FBT001
    class Early(Middleware):
        def setup(self, ctx: RunContext) -> None:
            ctx.emit(CustomEvent(name="setup", value=1))

        def on_start(self, ctx: RunContext) -> None:
            ctx.emit(CustomEvent(name="start", value=1))

    class Watch(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            """Look on."""

    for layers in ([Early], [Watch, Early], [Watch, Layer(Watch, id="second"), Early]):
        types = play(layers, strict=strict).types
        assert types[:3] == ["RUN_STARTED", "CUSTOM", "CUSTOM"]
        assert types[-1] == "RUN_FINISHED"


def test_emitting_something_else_is_the_emitting_layers_failure() -> None:
    class Wrong(Middleware):
        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            ctx.emit("text")  # type: ignore[arg-type]

    assert "layer 'wrong' called ctx.emit with a str" in str(play([Wrong]).result.error)


def test_the_deadline_of_around_run_holds_beside_async_event_hooks() -> None:
    class Both(Middleware):
        async def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            await asyncio.sleep(0)

        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(run_input):
                if event.type is EventType.TEXT_MESSAGE_CONTENT:
                    await asyncio.sleep(5)
                yield event

    assert play([Layer(Both, deadline=0.05)]).error[0] == "deadline-exceeded"


def test_a_dropped_run_is_closed_without_the_collector() -> None:
    log: list[str] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        try:
            yield started(run_input)
            await asyncio.sleep(30)
        finally:
            log.append("closed")

    async def main() -> None:
        async with Host([], agent=agent, overrides=ONE) as host:
            async for _ in host.run("x"):
                break
            for _ in range(5):
                await asyncio.sleep(0)
            assert log == ["closed"]

    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


def test_closed_and_stale_runs_do_not_start() -> None:
    async def main() -> None:
        async with Host([], agent=agent_of()) as host:
            async with host.run("x") as run:
                pass
            with pytest.raises(UsageError, match="can be used once"):
                aiter(run)
            stale = host.run("x")
        with pytest.raises(UsageError, match="the host of this run has been left"):
            await stale

    asyncio.run(main())


def test_closing_a_run_that_another_task_drives_cancels_and_waits() -> None:
    async def main() -> None:
        async with Host([], agent=sleeps) as host:
            run = host.run("x")
            task = asyncio.create_task(consume(run))
            await asyncio.sleep(0.02)
            await run.aclose()
            await task
            assert (await run).outcome == "cancelled"

    asyncio.run(main())


@pytest.mark.parametrize("wrong", ["finish", "reject"])
def test_wrong_arguments_of_an_ending_fail_the_run_by_name(wrong: str) -> None:
    class Wrong(Middleware):
        def setup(self, ctx: RunContext) -> None:
            if wrong == "finish":
                ctx.finish(42)  # type: ignore[arg-type]
            raise Reject(429, "quota")  # type: ignore[arg-type]

    played = play([Wrong])
    assert played.types == ["RUN_STARTED", "RUN_ERROR"]
    assert played.result.outcome == "error"


def test_usage_and_result_of_every_terminal_are_in_the_result() -> None:
    usage = [TokenUsage(input_tokens=3)]

    async def fails(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield RunErrorEvent(message="no", usage=usage)

    async def cancels(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        update = {"usage": usage, "outcome": RunFinishedCancelledOutcome()}
        yield finished(run_input).model_copy(update=update)

    assert play([], fails).result.usage[0].input_tokens == 3
    assert play([], cancels).result.usage[0].input_tokens == 3


def test_a_wrong_first_event_is_one_error_after_one_start() -> None:
    played = play([], agent_of(finish=False))
    assert played.types == ["RUN_STARTED", "RUN_ERROR"]

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield say("no start")[0]

    assert play([], agent).types == ["RUN_STARTED", "RUN_ERROR"]


def test_wrap_provides_what_was_promised() -> None:
    class Needs(Middleware):
        requires = (PRINCIPAL,)

    class User:
        subject, tenant, roles, claims = "ada", None, frozenset[str](), {}  # type: ignore[var-annotated]

    async def main() -> None:
        host = Host([Needs], provides=[PRINCIPAL])
        wrapped: Any = host.wrap(agent_of(), provide={PRINCIPAL: User()})
        async with host:
            run_input = RunAgentInput(thread_id="t", run_id="r", messages=[])
            events = [event.type.value async for event in wrapped.run(run_input)]
            assert events == ["RUN_STARTED", "RUN_FINISHED"]

    asyncio.run(main())


def test_a_layer_that_cannot_be_made_is_skipped_if_it_may_be() -> None:
    class Broken(Middleware):
        def __init__(self) -> None:
            raise RuntimeError("no")

    assert play([Layer(Broken, on_failure="skip")]).result.outcome == "success"
    assert play([Broken]).error[0] == "middleware-failed"


def test_a_lifespan_with_a_cancellation_of_its_own_making_fails_to_start() -> None:
    class Warms(Middleware):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[None]:
            await awaits_a_cancelled_task()
            yield None

    with pytest.raises(StartupError, match=r"layer warms .* could not start: CancelledError"):
        play([Warms])


class Odd(BaseException):
    """What no ``except Exception`` catches."""


@pytest.mark.parametrize("odd", [Odd("secret"), SystemExit(3)])
def test_an_agent_that_raises_past_exception_fails_its_run_alone(odd: BaseException) -> None:
    seen: list[BaseException] = []

    class Watch(Middleware):
        def on_error(self, ctx: RunContext, info: Any) -> None:
            seen.append(info.error)

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        raise odd

    played = play([Watch], agent)
    assert played.error == ("agent-failed", "The agent failed.")
    assert seen == [odd]


def test_the_sync_host_refuses_its_own_thread_and_closes_what_is_left() -> None:
    found: list[str] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        try:
            host.run("inner").result()
        except UsageError as error:
            found.append(error.message)
        yield finished(run_input)

    with Host([], agent=agent).sync() as host:
        assert host.run("outer").result().outcome == "success"
        assert "from its own thread" in found[0]
        for event in host.run("left in the middle"):
            assert event.type is EventType.RUN_STARTED
            break
        assert threading.active_count() == 2


def test_a_run_shows_its_ids_so_that_they_cannot_forge_a_line() -> None:
    async def main() -> str:
        async with Host([], agent=agent_of()) as host:
            run = host.run({"threadId": "t", "runId": "r\nforged", "messages": []})
            return repr(run)

    assert "\n" not in asyncio.run(main())
