"""Numbered cases of around hooks: steps, model calls and tool calls inside layers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import BaseEvent, TextMessageContentEvent, UserMessage
from looping import Spy, asking, calls, loop, results, seen, within
from playing import say

from interpose import (
    CallModel,
    CallStep,
    CallTool,
    Layer,
    Middleware,
    ModelRequest,
    ModelUnavailable,
    RunContext,
    StartupError,
    ToolCall,
    ToolCallInfo,
    ToolError,
    ToolResult,
)
from interpose.loop import LoopAgent, tool


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


def onion(name: str, log: list[str]) -> type[Middleware]:
    class Onion(Middleware):
        async def around_step(self, ctx: RunContext, call_next: CallStep) -> Any:
            log.append(f"{name} step in")
            async for event in call_next():
                yield event
            log.append(f"{name} step out")

        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            log.append(f"{name} model in")
            async for event in call_next(request):
                yield event
            log.append(f"{name} model out")

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            log.append(f"{name} tool in")
            result = await call_next(call)
            log.append(f"{name} tool out")
            return result

    Onion.__name__ = name
    return Onion


def test_around_1_layers_wrap_steps_model_calls_and_tool_calls_in_one_order() -> None:
    """The outer layer is entered first and left last, at each of the three points."""
    log: list[str] = []

    loop([onion("A", log), onion("B", log)], Spy(calls("look"), "done"), [look])

    def pair(point: str) -> list[str]:
        return [f"A {point} in", f"B {point} in", f"B {point} out", f"A {point} out"]

    step, model, tools = pair("step"), pair("model"), pair("tool")
    assert log == [*step[:2], *model, *tools, *step[2:], *step[:2], *model, *step[2:]]


def test_around_2_a_layer_gives_one_model_call_another_request() -> None:
    """around_model_call replaces the messages: the model sees them, the history does not."""

    class Rewrites(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            other = UserMessage(id="u9", content="rewritten")
            async for event in call_next(request.replace(messages=(other,))):
                yield event

    model = Spy("Hello")

    played = loop([Rewrites], model)

    assert [message.content for message in model.requests[0].messages] == ["rewritten"]
    assert [message.content for message in played.result.messages] == ["hi", "Hello"]


def test_around_3_what_a_layer_makes_of_an_answer_is_the_answer() -> None:
    """Replaced after the model spoke: stream, history and result have the replacement."""

    class Replaces(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            async for event in call_next(request):
                if isinstance(event, TextMessageContentEvent):
                    yield event.model_copy(update={"delta": "Good day"})
                else:
                    yield event

    played = loop([Replaces], Spy("Hello"))

    assert played.text == played.result.text == "Good day"
    assert played.result.messages[-1].content == "Good day"


class Answers(Middleware):
    """Answers in the model's place."""

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        for event in say("cached"):
            yield event


def test_around_4_a_layer_that_answers_itself_asks_no_model() -> None:
    """No call_next: no model call, its text is the answer, streamed as any other, and costs nothing."""
    model = Spy("Hello")

    played = loop([Answers], model)

    assert not model.requests
    assert played.text == played.result.text == "cached"
    assert played.result.outcome == "success"
    assert played.result.usage == ()


@pytest.mark.parametrize("way", ["instead", "after"])
def test_around_5_6_the_result_that_a_layer_returns_is_the_tools(way: str) -> None:
    """around_tool_call answers instead of the tool, or makes something of its result."""
    ran: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return "raw"

    class Wraps(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            assert (call.name, call.id) == ("act", "call-1-1")
            if way == "instead":
                return ToolResult("cached")
            return ToolResult(f"wrapped-{(await call_next(call)).content}")

    infos: list[ToolCallInfo] = []

    class Watches(Middleware):
        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            infos.append(info)

    model = Spy(calls("act"), "done")
    played = loop([Watches, Wraps], model, [act])

    wanted = "cached" if way == "instead" else "wrapped-raw"
    assert list(results(played).values()) == model.told() == [wanted]
    assert ran == ([] if way == "instead" else ["act"])
    assert infos[0].source == ("skipped" if way == "instead" else "executed")


@pytest.mark.parametrize("way", ["ToolError", "RuntimeError"])
def test_around_8_a_layer_may_tell_the_model_why_a_call_failed(way: str) -> None:
    """A ToolError of a layer is the call's result; any other exception of it fails the run."""

    class Guards(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            if way == "ToolError":
                raise ToolError("Not on Sundays.")
            raise RuntimeError("policy backend down")

    model = Spy(calls("look"), "sorry")

    played = loop([Guards], model, [look])

    if way == "ToolError":
        assert model.told() == ["Not on Sundays."]
        assert played.result.text == "sorry"
    else:
        assert isinstance(played.result.error, RuntimeError)
        assert len(model.requests) == 1
        assert "backend" not in played.error[1]


def test_around_9_a_layer_is_called_once_for_each_tool_call() -> None:
    """Three calls: three times around_tool_call, whatever the tools give."""
    seen_calls: list[str] = []

    @tool
    def broken() -> str:
        """Fail."""
        raise ToolError("no")

    class Counts(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            seen_calls.append(call.id)
            return await call_next(call)

    loop([Counts], Spy(calls("look", "broken", "look"), "done"), [look, broken])

    assert sorted(seen_calls) == ["call-1-1", "call-1-2", "call-1-3"]


# -- cancel, events, listeners ------------------------------------------------------------------


def test_around_45_a_cancelled_tool_ends_the_run_and_the_next_turn_is_valid() -> None:
    """No further model call; the open calls are closed, so that the thread goes on."""
    waits = asyncio.Event()
    closed: list[str] = []

    @tool
    async def wait() -> str:
        """Wait for ever."""
        waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            closed.append("wait")
        return "never"

    model = Spy(calls("wait", "wait"), "again")

    async def use(host: Any) -> None:
        run = host.run(asking())
        playing = asyncio.create_task(seen(run))
        await waits.wait()
        run.cancel("enough")
        first = await playing
        assert first.result.outcome == "cancelled"
        assert closed == ["wait", "wait"]
        assert len(model.requests) == 1
        assert list(results(first)) == ["call-1-1", "call-1-2"]
        more = UserMessage(id="u2", content="and now?")
        second = await seen(host.run(asking([*first.result.messages, more], run_id="run-2")))
        assert second.result.text == "again"

    within([], LoopAgent(model, [wait]), use)

    assert [each.role for each in model.requests[1].messages] == [
        *("user", "assistant", "tool", "tool", "user"),
    ]


def test_around_46_the_events_of_a_plain_answer_are_nested() -> None:
    """The run holds the step, the step holds the message; the terminal follows the step's end."""
    assert loop([], Spy("Hello")).types == [
        "RUN_STARTED",
        "STEP_STARTED",
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]


def test_around_47_an_observer_that_fails_is_isolated() -> None:
    """A layer that only observes raises in every hook: the run is as without it."""

    class Breaks(Middleware):
        def on_iteration(self, ctx: RunContext, info: Any) -> None:
            raise RuntimeError("iteration")

        def on_usage(self, ctx: RunContext, usage: Any) -> None:
            raise RuntimeError("usage")

        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            raise RuntimeError("after")

        def on_message(self, ctx: RunContext, message: Any) -> None:
            raise RuntimeError("message")

    played = loop([Breaks], Spy(calls("look"), "done"), [look])

    assert played.types == loop([], Spy(calls("look"), "done"), [look]).types


def test_around_47_a_model_that_breaks_off_keeps_what_it_said_and_gives_one_terminal() -> None:
    """After a delta the model fails: the delta stays, the run fails once."""
    model = Spy({"text": "one two three", "error": "unavailable", "error_after": 1})

    played = loop([], model)

    assert played.text == "one "
    assert played.error[0] == "model-unavailable"
    assert played.types[-3:] == ["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_ERROR"]
    assert isinstance(played.result.error, ModelUnavailable)
    assert played.result.messages[-1].content == "one "


def test_around_48_layers_stand_in_their_order_and_each_is_called_once_per_request() -> None:
    """before and after say where a layer stands, whatever the list; it sees what outer ones changed."""
    log: list[str] = []

    def prompting(name: str) -> type[Middleware]:
        class Prompts(Middleware):
            async def around_model_call(
                self, ctx: RunContext, request: ModelRequest, call_next: CallModel
            ) -> Any:
                log.append(f"{name} {request.system_prompts}")
                prompts = (*request.system_prompts, name)
                async for event in call_next(request.replace(system_prompts=prompts)):
                    yield event

        Prompts.__name__ = name
        return Prompts

    layers = [Layer(prompting("b"), id="b"), Layer(prompting("a"), id="a", before=["b"])]

    loop(layers, Spy("Hello"))

    assert log == ["a ()", "b ('a',)"]


def test_a_layer_that_cannot_be_loaded_is_said_at_startup() -> None:
    """A layer whose hook has the wrong kind is refused before any run."""

    class Wrong(Middleware):
        async def around_model_call(  # type: ignore[override]
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> None:
            return None

    with pytest.raises(StartupError, match="around_model_call"):
        loop([Wrong], Spy("Hello"))
