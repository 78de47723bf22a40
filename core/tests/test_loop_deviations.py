"""Fourteen ways in which a chat loop is known to go wrong, and what ours does in place of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
)
from looping import (
    Hanging,
    Spy,
    answering,
    asking,
    calls,
    loop,
    results,
    seen,
    within,
)
from pydantic import BaseModel

from interpose import (
    Ability,
    AbortInfo,
    EndInfo,
    ErrorInfo,
    FinishInfo,
    InterruptDefinition,
    Layer,
    Middleware,
    RunContext,
    ToolCallInfo,
)
from interpose.loop import LoopAgent, ToolContext, tool

SURE = InterruptDefinition("sure", response=bool)


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


@tool
async def report(ctx: ToolContext) -> str:
    """Report progress."""
    await ctx.progress(1)
    return "reported"


class Out(BaseModel):
    a: int


# D1 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tools", "native output", "approval"])
def test_d1_results_and_progress_stand_inside_one_run(kind: str) -> None:
    """One RUN_STARTED, one terminal last: also with several iterations, output, or after an answer."""

    @tool(approval=True)
    def act() -> str:
        """Act."""
        return "acted"

    async def use(host: Any) -> list[Any]:
        wanted = {"output": Out} if kind == "native output" else {}
        first = await seen(host.run(asking(), **wanted))
        if kind != "approval":
            return [first]
        return [first, await seen(host.run(answering(first, True)))]

    turn = calls("report", "act" if kind == "approval" else "look")
    model = Spy(turn, '{"a": 1}', abilities=frozenset({Ability.OUTPUT_WITH_TOOLS}))
    tools = [report, look, act]

    played = within([], LoopAgent(model, tools), use)

    # What a valid stream is, looping.seen has checked; here: nothing stands outside.
    for each in played:
        assert each.types[0] == "RUN_STARTED"
        assert each.types[-1] == "RUN_FINISHED"
        assert each.types.count("RUN_FINISHED") == 1
    assert "TOOL_CALL_RESULT" in played[-1].types
    assert "CUSTOM" in played[-1].types


# D2 --------------------------------------------------------------------------------------------

HOOKS = ["setup", "on_input", "on_start", "on_config", "on_iteration", "on_before_tool_call"]
HOOKS += ["on_after_tool_call", "on_tool_phase_complete", "on_usage", "on_should_continue"]


@pytest.mark.parametrize("hook", HOOKS)
def test_d2_an_aborted_run_ends_with_one_terminal_event(hook: str) -> None:
    """Whatever hook aborts, sequential or isolated: a valid stream whose terminal says cancelled."""

    def aborts(self: Any, ctx: RunContext, *rest: Any) -> None:
        ctx.abort(hook)

    ends: list[AbortInfo] = []

    class Ends(Middleware):
        def on_abort(self, ctx: RunContext, info: AbortInfo) -> None:
            ends.append(info)

    layers = [Ends, type("Aborts", (Middleware,), {hook: aborts})]

    played = loop(layers, Spy(calls("look"), "done"), [look])

    assert played.result.outcome == "cancelled"
    assert played.types[-1] == "RUN_FINISHED"
    assert [(info.reason, info.cause) for info in ends] == [(hook, "abort")]


# D3 --------------------------------------------------------------------------------------------

WAYS = {
    "finish": "finish",
    "interrupt": "finish",
    "abort": "abort",
    "error": "error",
    "hook error": "error",
    "cancel": "abort",
    "consumer gone": "abort",
}


def ending_layers(way: str, log: list[str]) -> list[type[Middleware]]:
    def logs(name: str) -> type[Middleware]:
        class Logs(Middleware):
            def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
                log.append(f"{name} finish")

            def on_abort(self, ctx: RunContext, info: AbortInfo) -> None:
                log.append(f"{name} abort")

            def on_error(self, ctx: RunContext, info: ErrorInfo) -> None:
                log.append(f"{name} error")

            def on_end(self, ctx: RunContext, end: EndInfo) -> None:
                log.append(f"{name} end")

        Logs.__name__ = name
        return Logs

    class Ends(Middleware):
        def on_interrupt_boundary(self, ctx: RunContext) -> None:
            if way == "interrupt":
                ctx.interrupt(SURE.interrupt("1", "Sure?"))
            if way == "abort":
                ctx.abort("enough")
            if way == "hook error":
                raise RuntimeError("boundary")

    return [logs("outer"), Ends, logs("inner")]


@pytest.mark.parametrize("way", WAYS)
def test_d3_every_exit_calls_one_terminal_hook_of_each_layer_in_reverse_order(way: str) -> None:
    """Success, interrupt, abort, failure, cancellation, a consumer that leaves: one hook, then on_end."""
    log: list[str] = []
    hanging = Hanging()
    model: Any = Spy({"error": "quota"}) if way == "error" else Spy("Hello")

    async def use(host: Any) -> None:
        run = host.run(asking())
        if way == "consumer gone":
            async with run:
                async for event in run:
                    if event.type.value == "TEXT_MESSAGE_CONTENT":
                        break
        elif way == "cancel":
            playing = asyncio.create_task(seen(run))
            await hanging.waits.wait()
            run.cancel()
            await playing
        else:
            await seen(run)

    waits = way in ("cancel", "consumer gone")
    within(ending_layers(way, log), LoopAgent(hanging if waits else model), use)

    kind = WAYS[way]
    assert log == [f"inner {kind}", "inner end", f"outer {kind}", "outer end"]
    assert hanging.closed == (1 if waits else 0)


# D4 --------------------------------------------------------------------------------------------

OBSERVERS = ["on_usage", "on_after_tool_call", "on_iteration", "on_tool_phase_complete"]


@pytest.mark.parametrize("policy", ["isolated", "fail"])
@pytest.mark.parametrize("hook", OBSERVERS)
def test_d4_a_failing_observer_follows_its_policy_and_repeats_nothing(
    hook: str, policy: str
) -> None:
    """Isolated by default; with on_failure = "fail" it ends the run. No result comes twice."""
    heard: list[str] = []
    ran: list[str] = []

    def fails(self: Any, ctx: RunContext, *rest: Any) -> None:
        heard.append(hook)
        raise RuntimeError(hook)

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return "acted"

    class Later(Middleware):
        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            heard.append("later")

    fails_layer = type("Fails", (Middleware,), {hook: fails})
    layer = Layer(fails_layer, on_failure="fail") if policy == "fail" else fails_layer

    played = loop([layer, Later], Spy(calls("act"), "done"), [act])

    assert (
        heard.count(hook) == (2 if hook in ("on_usage", "on_iteration") else 1) or policy == "fail"
    )
    if policy == "fail":
        assert isinstance(played.result.error, RuntimeError)
    else:
        assert played.result.outcome == "success"
        assert ran == ["act"]
        assert len(results(played)) == 1
        assert "later" in heard


# D5 --------------------------------------------------------------------------------------------


def test_d5_an_abort_cancels_a_model_call_that_hangs() -> None:
    """The model never answers: an abort from another task takes effect without any of its events."""
    model = Hanging()
    contexts: list[RunContext] = []

    class Knows(Middleware):
        def on_start(self, ctx: RunContext) -> None:
            contexts.append(ctx)

    async def use(host: Any) -> None:
        playing = asyncio.create_task(seen(host.run(asking())))
        await model.waits.wait()

        async def abort() -> None:
            contexts[0].abort("took too long")

        with pytest.raises(BaseException):  # noqa: B017, PT011 - control flow of the host
            await abort()
        played = await playing
        assert played.result.outcome == "cancelled"
        assert played.text == "Well"
        assert played.result.messages[-1].content == "Well"

    within([Knows], LoopAgent(model), use)

    assert model.closed == 1


def test_d5_a_cancellation_ends_running_tools_and_what_they_hold() -> None:
    """Async tool, async generator and a tool that waits its turn: all ended when the run has."""
    log: list[str] = []
    both = asyncio.Barrier(3)

    @tool
    async def wait() -> str:
        """Wait."""
        try:
            await both.wait()
            await asyncio.Event().wait()
        finally:
            log.append("wait ended")
        return ""

    @tool
    async def stream() -> AsyncIterator[int]:
        """Stream."""
        try:
            yield 1
            await both.wait()
            await asyncio.Event().wait()
        finally:
            log.append("stream ended")

    @tool
    def third() -> str:
        """Have no turn."""
        log.append("third ran")
        return ""

    class Ends(Middleware):
        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            log.append(f"end {end.kind}")

    async def use(host: Any) -> None:
        run = host.run(asking())
        playing = asyncio.create_task(seen(run))
        await both.wait()
        run.cancel("enough")
        played = await playing
        assert played.result.outcome == "cancelled"
        assert set(results(played)) == {"call-1-1", "call-1-2", "call-1-3"}

    agent = LoopAgent(Spy(calls("wait", "stream", "third")), [wait, stream, third], concurrency=2)
    within([Ends], agent, use)

    assert sorted(log[:2]) == ["stream ended", "wait ended"]
    assert log[2:] == ["end abort"]


def test_the_events_of_a_cancelled_run_are_closed_in_order() -> None:
    """A text and a step that are open when the run is cancelled are ended before its terminal."""
    model = Hanging()

    async def use(host: Any) -> list[BaseEvent]:
        run = host.run(asking())
        playing = asyncio.create_task(seen(run))
        await model.waits.wait()
        run.cancel()
        return (await playing).events

    events = within([], LoopAgent(model), use)

    assert [event.type.value for event in events[-3:]] == [
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]
