"""Numbered cases of around hooks: steps, model calls and tool calls inside layers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import BaseEvent, RunFinishedEvent, TextMessageContentEvent, Tool, UserMessage
from looping import Spy, asking, calls, loop, results, seen, within
from playing import say

from interpose import (
    CallModel,
    CallStep,
    CallTool,
    Layer,
    Middleware,
    ModelConfig,
    ModelRequest,
    ModelUnavailable,
    ResolvedTool,
    RunContext,
    StartupError,
    ToolCall,
    ToolCallInfo,
    ToolError,
    ToolResult,
    Transient,
    UsageError,
)
from interpose.loop import Budget, LoopAgent, ToolContext, tool


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


# -- dynamic tools ------------------------------------------------------------------------------


def shown(*names: str) -> tuple[Tool, ...]:
    return tuple(Tool(name=name, description="", parameters={"type": "object"}) for name in names)


class Catalogue(Middleware):
    """Shows and resolves the tool ``extra``."""

    def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
        names = [each.name for each in config.tools or ()]
        return ModelConfig(tools=(*(config.tools or ()), *shown(*{"extra"} - {*names})))

    def resolve_tool(self, ctx: RunContext, name: str) -> ResolvedTool | None:
        return ResolvedTool(shown("extra")[0], lambda: "extra ran") if name == "extra" else None


def test_around_10_a_resolved_tool_runs_without_being_registered() -> None:
    """The layer shows a tool and knows how to run it; the agent has none of its own."""
    played = loop([Catalogue], Spy(calls("extra"), "done"))

    assert list(results(played).values()) == ["extra ran"]


def test_around_12_two_layers_that_resolve_one_name_are_both_named() -> None:
    """The run fails, and the error names both layers."""

    class Second(Catalogue):
        pass

    played = loop([Catalogue, Second], Spy(calls("extra"), "done"))

    assert played.result.outcome == "error"
    assert "'catalogue' and 'second'" in str(played.result.error)


def test_around_13_an_agent_cannot_have_two_tools_of_one_name() -> None:
    """Said where the agent is made, with both places."""
    with pytest.raises(UsageError, match="two tools are named 'look'"):
        LoopAgent("scripted", [look, tool(lambda: "x", name="look")])


def test_around_16_a_tool_that_no_request_showed_does_not_run() -> None:
    """A layer could resolve it, but hid it: unknown until it is shown."""
    ran: list[str] = []

    class Hides(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
            return ModelConfig(tools=shown("extra")) if ctx.iteration == 1 else None

        def resolve_tool(self, ctx: RunContext, name: str) -> ResolvedTool:
            def run() -> str:
                ran.append(name)
                return "ran"

            return ResolvedTool(shown(name)[0], run)

    played = loop([Hides], Spy(calls("extra"), calls("extra"), "done"), [look])

    assert ran == ["extra"]
    first, second = results(played).values()
    assert first == "Unknown tool: extra. The tools are: look."
    assert second == "ran"


def test_around_17_a_layer_that_searches_replaces_what_it_found_before() -> None:
    """Two searches: the later result is shown, the agent's own tool stays; no request is changed."""

    class Searches(Middleware):
        found: tuple[Tool, ...] = ()

        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            return ModelConfig(tools=(*(config.tools or ()), *self.found))

        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            self.found = shown(info.result.content)

    @tool
    def search(q: str) -> str:
        """Find a tool."""
        return f"tool-{q}"

    turns = [calls(("search", {"q": q})) for q in ("a", "b")]
    model = Spy(*turns, "done")

    loop([Searches], model, [search])

    assert model.tools == [["search"], ["search", "tool-a"], ["search", "tool-b"]]


# -- retry and budget ---------------------------------------------------------------------------


def retrying(most: int, log: list[str]) -> type[Middleware]:
    class Retries(Middleware):
        may_repeat = True

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            for left in reversed(range(most + 1)):
                try:
                    return await call_next(call)
                except Transient:
                    log.append("retry")
                    if not left:
                        raise
            raise AssertionError

    return Retries


class Busy(Transient):
    code = "busy"


@pytest.mark.parametrize(("failures", "outcome"), [(1, "fine"), (3, "failed")])
def test_around_38_39_a_retried_tool_call_asks_the_model_no_more_often(
    failures: int, outcome: str
) -> None:
    """A transient failure is repeated by a layer: one result, two model calls; after its limit an error result."""
    ran: list[str] = []
    keys: set[str] = set()
    log: list[str] = []

    @tool
    def flaky(ctx: ToolContext) -> str:
        """Fail at first."""
        ran.append("flaky")
        keys.add(ctx.idempotency_key)
        if len(ran) <= failures:
            raise Busy("busy")
        return "fine"

    model = Spy(calls("flaky"), "done")

    played = loop([retrying(2, log)], model, [flaky], budget=Budget(tool_calls=1))

    assert len(model.requests) == 2
    assert len(ran) == min(failures + 1, 3)
    assert len(keys) == 1
    assert outcome in next(iter(results(played).values()))
    assert played.result.text == "done"


def test_around_40_a_budget_that_is_used_up_stops_before_the_tool_runs() -> None:
    """The model call spends the last tokens: its tool calls are refused, and the outcome says why."""
    ran: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return "acted"

    turn = {**calls("act"), "usage": {"input_tokens": 60, "output_tokens": 60}}

    played = loop([], Spy(turn, "done"), [act], budget=Budget(tokens=100))

    assert not ran
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert last.metadata == {"interpose:limit": "budget.tokens(100)"}
    assert list(results(played)) == ["call-1-1"]


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
