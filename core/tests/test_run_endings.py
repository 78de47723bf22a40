"""However a run ends: one terminal, one terminal hook per layer, safe texts, nothing left open."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    EventType,
    Interrupt,
    RunAgentInput,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    TextMessageContentEvent,
    TokenUsage,
    ToolCallStartEvent,
)
from playing import agent_of, finished, play, say, started

from interpose import (
    CallRun,
    EndInfo,
    Host,
    Layer,
    Middleware,
    Reject,
    Run,
    RunContext,
    UsageError,
    middleware,
    on,
)

HOOKS = ("setup", "on_input", "around_run", "event")


class Recorder(Middleware):
    """Writes down every terminal hook; made anew for each test by ``recorders``."""

    trace: Any = ()

    def on_finish(self, ctx: RunContext, info: Any) -> None:
        self.trace.append((ctx.layer, "finish", info.outcome))

    def on_abort(self, ctx: RunContext, info: Any) -> None:
        self.trace.append((ctx.layer, "abort", info.cause))

    def on_error(self, ctx: RunContext, info: Any) -> None:
        self.trace.append((ctx.layer, "error", info.code))

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        self.trace.append((ctx.layer, "end", end.kind))


class Trace:
    """A list that is no list: class attributes that runs could share are refused."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def append(self, item: Any) -> None:
        self.items.append(item)


def recorders(*ids: str) -> tuple[list[Layer], list[Any]]:
    trace = Trace()
    cls = type("Recorder", (Recorder,), {"trace": trace, "__module__": __name__})
    return [Layer(cls, id=name) for name in ids], trace.items


def test_each_layer_gets_one_terminal_hook_and_on_end_in_reverse_order() -> None:
    layers, trace = recorders("a", "b")
    play(layers)
    assert trace == [
        ("b", "finish", "success"),
        ("b", "end", "finish"),
        ("a", "finish", "success"),
        ("a", "end", "finish"),
    ]


def test_an_interrupt_of_the_agent_is_a_finish() -> None:
    layers, trace = recorders("a")

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        outcome = RunFinishedInterruptOutcome(interrupts=[Interrupt(id="i", reason="ask")])
        yield finished(run_input).model_copy(update={"outcome": outcome})

    played = play(layers, agent)
    assert trace[0] == ("a", "finish", "interrupt")
    assert played.result.outcome == "interrupt"
    assert played.result.interrupts[0].id == "i"


def test_usage_and_result_of_the_run_reach_hooks_and_caller() -> None:
    seen: list[Any] = []

    class Watch(Middleware):
        def on_usage(self, ctx: RunContext, usage: TokenUsage) -> None:
            seen.append(usage.input_tokens)

        def on_finish(self, ctx: RunContext, info: Any) -> None:
            seen.append(info.result)

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        update = {"result": {"x": 1}, "usage": [TokenUsage(input_tokens=3)]}
        yield finished(run_input).model_copy(update=update)

    played = play([Watch], agent)
    assert seen == [3, {"x": 1}]
    assert played.result.usage[0].input_tokens == 3


def failing(where: str, error: BaseException) -> type[Middleware]:  # noqa: C901 - one hook each
    """Return a middleware that raises ``error`` in one hook."""

    class Failing(Middleware):
        if where == "setup":

            def setup(self, ctx: RunContext) -> None:
                raise error

        if where == "on_input":

            async def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> None:
                raise error

        if where == "around_run":

            async def around_run(
                self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
            ) -> AsyncIterator[BaseEvent]:
                async for event in call_next(run_input):
                    if event.type is EventType.TEXT_MESSAGE_CONTENT:
                        raise error
                    yield event

        if where == "event":

            @on(TextMessageContentEvent)
            def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
                raise error

    return Failing


@pytest.mark.parametrize("where", HOOKS)
def test_a_failing_hook_fails_the_run_with_a_safe_text(where: str) -> None:
    layers, trace = recorders("outer", "inner")
    boom = RuntimeError("password=hunter2")
    played = play([layers[0], failing(where, boom), layers[1]])
    assert played.types[0] == "RUN_STARTED"
    assert played.types.count("RUN_STARTED") == 1
    assert played.error == ("middleware-failed", "The run could not be completed.")
    assert played.result.error is boom
    assert "hunter2" not in repr(played.events)
    assert ("outer", "error", "middleware-failed") in trace
    # A layer that was not set up is owed nothing; inside a failing setup that is the inner one.
    assert (("inner", "error", "middleware-failed") in trace) == (where != "setup")


@pytest.mark.parametrize("where", HOOKS)
def test_reject_from_any_hook_is_shown_as_it_is(where: str) -> None:
    played = play([failing(where, Reject("no-entry", "Not today.", status=401))])
    assert played.error == ("no-entry", "Not today.")
    assert played.result.error.status == 401
    assert played.types[0] == "RUN_STARTED"


def test_the_layer_whose_setup_failed_gets_no_terminal_hook() -> None:
    ended: list[str] = []

    class Guard(Middleware):
        def setup(self, ctx: RunContext) -> None:
            raise Reject("no-entry", "No.")

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            ended.append("guard")

    play([Guard])
    assert ended == []


def controlling(where: str, how: str) -> type[Middleware]:  # noqa: C901 - one hook each
    """Return a middleware that ends the run in one hook, and swallows what that raises."""

    def decide(ctx: RunContext) -> None:
        if how == "finish":
            ctx.finish("that is all")
        if how == "interrupt":
            ctx.interrupt(Interrupt(id="i1", reason="approval"))
        ctx.abort("enough")

    class Controlling(Middleware):
        if where == "setup":

            def setup(self, ctx: RunContext) -> None:
                decide(ctx)

        if where == "on_input":

            def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> None:
                decide(ctx)

        if where == "around_run":

            async def around_run(
                self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
            ) -> AsyncIterator[BaseEvent]:
                async for event in call_next(run_input):
                    if event.type is EventType.TEXT_MESSAGE_CONTENT:
                        decide(ctx)
                    yield event

        if where == "event":

            @on(TextMessageContentEvent)
            def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
                decide(ctx)

    return Controlling


@pytest.mark.parametrize("where", HOOKS)
def test_finish_ends_the_run_with_a_valid_message(where: str) -> None:
    layers, trace = recorders("outer")
    played = play([*layers, controlling(where, "finish")])
    assert played.types[-1] == "RUN_FINISHED"
    assert played.text == "that is all"
    assert played.result.outcome == "success"
    assert trace == [("outer", "finish", "success"), ("outer", "end", "finish")]


@pytest.mark.parametrize("where", HOOKS)
def test_interrupt_ends_the_run_with_the_interrupt_outcome(where: str) -> None:
    played = play([controlling(where, "interrupt")])
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert isinstance(last.outcome, RunFinishedInterruptOutcome)
    assert last.outcome.interrupts[0].id == "i1"
    assert played.result.outcome == "interrupt"


@pytest.mark.parametrize("where", HOOKS)
def test_abort_ends_the_run_with_the_cancelled_outcome(where: str) -> None:
    layers, trace = recorders("outer")
    played = play([*layers, controlling(where, "abort")])
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert isinstance(last.outcome, RunFinishedCancelledOutcome)
    assert trace[0] == ("outer", "abort", "abort")
    assert played.result.outcome == "cancelled"


def test_swallowing_the_control_flow_does_not_help() -> None:
    class Stubborn(Middleware):
        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            with contextlib.suppress(BaseException):
                ctx.abort("enough")

    played = play([Stubborn], agent_of(*say("a", "b", "c")))
    assert played.result.outcome == "cancelled"
    assert played.text == "a"


def test_what_is_open_is_closed_before_an_ending_of_the_hosts_own() -> None:
    start = ToolCallStartEvent(tool_call_id="c", tool_call_name="t")
    played = play([controlling("event", "abort")], agent_of(start, *say("a")))
    assert played.types == [
        "RUN_STARTED",
        "TOOL_CALL_START",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_END",
        "RUN_FINISHED",
    ]


def test_an_agent_that_leaves_a_message_open_is_not_repaired() -> None:
    played = play([], agent_of(*say("a")[:2]))
    assert played.error[0] == "invalid-stream"
    assert "TEXT_MESSAGE_END" in played.types


@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_agent_that_raises_is_one_error_whenever_it_does(position: int) -> None:
    layers, trace = recorders("a")
    boom = KeyError("token=abc")

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        for index, event in enumerate([started(run_input), *say("a")]):
            if index == position:
                raise boom
            yield event

    played = play(layers, agent)
    assert played.types[0] == "RUN_STARTED"
    assert played.error == ("agent-failed", "The agent failed.")
    assert played.result.error is boom
    assert trace == [("a", "error", "agent-failed"), ("a", "end", "error")]


def test_a_failing_terminal_hook_fails_nothing_and_no_other_hook() -> None:
    layers, trace = recorders("outer")

    class Broken(Middleware):
        def on_finish(self, ctx: RunContext, info: Any) -> None:
            raise RuntimeError("late")

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            trace.append("broken end")

    played = play([*layers, Layer(Broken, on_failure="fail")])
    assert played.result.outcome == "success"
    assert trace[0] == "broken end"
    assert ("outer", "finish", "success") in trace


def test_an_isolated_hook_fails_the_run_only_when_the_operator_says_so() -> None:
    class Broken(Middleware):
        def on_start(self, ctx: RunContext) -> None:
            raise RuntimeError("early")

    assert play([Broken]).result.outcome == "success"
    assert play([Layer(Broken, on_failure="fail")]).error[0] == "middleware-failed"


def test_code_after_call_next_runs_although_the_run_ends_at_the_terminal() -> None:
    trace: list[str] = []

    @middleware
    async def after(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            yield event
        await asyncio.sleep(0)
        trace.append("after")
        yield say("too late")[0]

    layers, ends = recorders("outer")
    played = play([*layers, after])
    assert trace == ["after"]
    assert played.types[-1] == "RUN_FINISHED"
    assert played.types.count("TEXT_MESSAGE_START") == 1
    assert ends[0] == ("outer", "finish", "success")


def waiting_agent(log: list[str]) -> Any:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        try:
            yield started(run_input)
            for event in say("half")[:2]:
                yield event
            await asyncio.sleep(30)
        finally:
            log.append("agent closed")

    return agent


async def text_of(run: Run, then: Any) -> list[str]:
    types = []
    async for event in run:
        types.append(event.type.value)
        if event.type is EventType.TEXT_MESSAGE_CONTENT:
            then()
    return types


def test_cancel_takes_effect_while_the_agent_waits() -> None:
    log: list[str] = []
    layers, trace = recorders("a")

    async def main() -> None:
        async with Host(layers, agent=waiting_agent(log)) as host:
            run = host.run("hi")
            loop = asyncio.get_running_loop()
            types = await text_of(run, lambda: loop.call_later(0.01, run.cancel, "user"))
            assert types[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
            result = await run
            assert result.outcome == "cancelled"
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0

    asyncio.run(main())
    assert log == ["agent closed"]
    assert trace == [("a", "abort", "cancelled"), ("a", "end", "abort")]


def test_cancel_between_events_takes_effect_at_the_next_step() -> None:
    async def main() -> None:
        async with Host([], agent=agent_of(*say("a", "b"))) as host:
            run = host.run("hi")
            types = await text_of(run, lambda: run.cancel("user"))
            assert types.count("TEXT_MESSAGE_CONTENT") == 1
            assert types[-1] == "RUN_FINISHED"
            run.cancel("again")
            assert (await run).outcome == "cancelled"

    asyncio.run(main())


def test_a_cancelled_task_ends_its_run_and_stays_cancelled() -> None:
    log: list[str] = []
    layers, trace = recorders("a")

    async def main() -> None:
        async with Host(layers, agent=waiting_agent(log)) as host:
            task = asyncio.create_task(text_of(host.run("hi"), lambda: None))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert log == ["agent closed"]
    assert trace == [("a", "abort", "cancelled"), ("a", "end", "abort")]


def test_a_consumer_that_leaves_aborts_the_run() -> None:
    log: list[str] = []
    layers, trace = recorders("a")

    async def main() -> None:
        async with Host(layers, agent=waiting_agent(log)) as host:
            async with host.run("hi") as run:
                async for event in run:
                    if event.type is EventType.TEXT_MESSAGE_CONTENT:
                        break
            assert log == ["agent closed"]
            assert trace[0] == ("a", "abort", "consumer-gone")

    asyncio.run(main())


def test_leaving_after_the_terminal_is_no_abort() -> None:
    layers, trace = recorders("a")

    async def main() -> None:
        async with Host(layers, agent=agent_of()) as host, host.run("hi") as run:
            async for event in run:
                if event.type is EventType.RUN_FINISHED:
                    break

    asyncio.run(main())
    assert trace[0] == ("a", "finish", "success")


def test_host_exit_cancels_open_runs() -> None:
    log: list[str] = []
    layers, trace = recorders("a")

    async def main() -> list[str]:
        async with Host(layers, agent=waiting_agent(log)) as host:
            task = asyncio.create_task(text_of(host.run("hi"), lambda: None))
            await asyncio.sleep(0.02)
        return await task

    assert asyncio.run(main())[-1] == "RUN_FINISHED"
    assert trace[0] == ("a", "abort", "cancelled")


def test_host_exit_closes_a_run_that_its_own_task_left_open() -> None:
    log: list[str] = []
    layers, trace = recorders("a")

    async def main() -> float:
        loop = asyncio.get_running_loop()
        async with Host(layers, agent=waiting_agent(log)) as host:
            run = host.run("hi")
            async for _ in run:
                break
            left = loop.time()
        assert run.run_id
        return loop.time() - left

    assert asyncio.run(main()) < 5  # the ending deadline is 10 s
    assert log == ["agent closed"]
    assert trace[-1] == ("a", "end", "abort")


def test_a_dropped_run_is_closed_by_its_finaliser() -> None:
    log: list[str] = []
    layers, trace = recorders("a")

    async def main() -> None:
        async with Host(layers, agent=waiting_agent(log)) as host:
            async for _ in host.run("hi"):
                break
            gc.collect()
            for _ in range(5):
                await asyncio.sleep(0.01)
            assert log == ["agent closed"]

    asyncio.run(main())
    assert trace[0] == ("a", "abort", "consumer-gone")


def test_a_run_is_good_for_one_use() -> None:
    async def main() -> None:
        async with Host([], agent=agent_of()) as host:
            run = host.run("hi")
            await run
            assert (await run).outcome == "success"
            with pytest.raises(UsageError, match="can be used once"):
                aiter(run)

    asyncio.run(main())


def test_deferred_work_runs_after_all_terminal_hooks() -> None:
    trace: list[str] = []

    async def later(text: str) -> None:
        await asyncio.sleep(0)
        trace.append(text)

    class Defers(Middleware):
        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            trace.append(f"end {ctx.layer}")
            ctx.defer(later, f"later {ctx.layer}")
            ctx.defer(trace.append, f"sync {ctx.layer}")

    play([Defers, Layer(Defers, id="inner")])
    assert trace == [
        "end inner",
        "end defers",
        "later inner",
        "sync inner",
        "later defers",
        "sync defers",
    ]


def test_emitted_events_enter_just_outside_their_layer() -> None:
    seen: list[str] = []

    class Outer(Middleware):
        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            seen.append(event.delta)

    class Emits(Middleware):
        def on_start(self, ctx: RunContext) -> None:
            self.left = 1

        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(run_input):
                if event.type is EventType.TEXT_MESSAGE_CONTENT:
                    ctx.emit(TextMessageContentEvent(message_id="m", delta="emitted "))
                yield event

    played = play([Outer, Emits])
    assert seen == ["emitted ", "hello"]
    assert played.text == "emitted hello"


def test_a_deadline_ends_a_layer_that_is_suspended_too_long() -> None:
    class Slow(Middleware):
        @on(TextMessageContentEvent)
        async def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            await asyncio.sleep(5)

    assert play([Layer(Slow, deadline=0.01)]).error[0] == "deadline-exceeded"


def test_the_deadline_of_around_run_stands_while_others_work() -> None:
    @middleware
    async def patient(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            yield event

    @middleware
    async def slow(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            if event.type is EventType.TEXT_MESSAGE_CONTENT:
                await asyncio.sleep(5)
            yield event

    async def sleepy(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        await asyncio.sleep(0.1)
        for event in say("hello"):
            yield event
        yield finished(run_input)

    assert play([Layer(patient, deadline=0.03)], sleepy).result.outcome == "success"
    assert play([Layer(slow, deadline=0.03)], sleepy).error[0] == "deadline-exceeded"
