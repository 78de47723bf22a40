"""However a loop ends: what it holds is closed first, and nothing is spent beyond its limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag_ui.core import RunFinishedEvent, RunFinishedSuccessOutcome, Tool, ToolMessage
from looping import Hanging, Spy, answering, asking, calls, loop, results, seen, within
from pydantic import BaseModel

from interpose import (
    Ability,
    CallModel,
    CallStep,
    CallTool,
    EndInfo,
    Layer,
    Middleware,
    ModelConfig,
    ModelRequest,
    OutputError,
    RunContext,
    ToolCall,
    ToolResult,
)
from interpose.loop import (
    Budget,
    LoopAgent,
    ToolContext,
    max_iterations,
    max_tool_calls,
    tool,
    until_finish_reason,
)


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


class Out(BaseModel):
    a: str


def holding(log: list[str]) -> type[Middleware]:
    """Return a layer that says when what it wraps is left."""

    class Holds(Middleware):
        async def around_step(self, ctx: RunContext, call_next: CallStep) -> Any:
            try:
                async for event in call_next():
                    yield event
            finally:
                log.append("step left")

        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            try:
                async for event in call_next(request):
                    yield event
            finally:
                log.append("model left")

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            try:
                return await call_next(call)
            finally:
                log.append("tool left")

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            log.append(end.kind)

    return Holds


@pytest.mark.parametrize("way", ["consumer gone", "cancel"])
@pytest.mark.parametrize("place", ["model", "tool"])
def test_what_layers_hold_is_left_from_the_inside_before_the_end(place: str, way: str) -> None:
    """Model call or tool call open: closed innermost first, and only then on_end is called."""
    log: list[str] = []
    waits = asyncio.Event()
    hanging = Hanging()

    @tool
    async def wait(ctx: ToolContext) -> str:
        """Wait for ever."""
        try:
            await ctx.progress("waiting")
            waits.set()
            await asyncio.Event().wait()
        finally:
            log.append("tool itself")
        return ""

    async def use(host: Any) -> None:
        run = host.run(asking())
        if way == "consumer gone":
            last = "CUSTOM" if place == "tool" else "TEXT_MESSAGE_CONTENT"
            async with run:
                async for event in run:
                    if event.type.value == last:
                        break
            return
        playing = asyncio.create_task(seen(run))
        await (waits if place == "tool" else hanging.waits).wait()
        run.cancel()
        assert (await playing).result.outcome == "cancelled"

    model: Any = Spy(calls("wait")) if place == "tool" else hanging
    within([holding(log)], LoopAgent(model, [wait]), use)

    wanted = ["model left", "tool itself", "tool left"] if place == "tool" else ["model left"]
    assert log == [*wanted, "step left", "abort"]


def test_an_abort_of_one_tool_cancels_the_ones_beside_it() -> None:
    """The run ends as cancelled; every call is closed, and a call that never began says so."""
    log: list[str] = []

    @tool
    async def wait() -> str:
        """Wait for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            log.append("wait ended")
        return ""

    @tool
    async def stop(ctx: ToolContext) -> str:
        """Stop all."""
        ctx.abort("seen enough")

    model = Spy(calls("wait", "stop", "look"), "never")

    played = loop([], model, [wait, stop, look], concurrency=2)

    assert log == ["wait ended"]
    assert played.result.outcome == "cancelled"
    told = results(played)
    assert "may have had its effect" in told["call-1-1"]
    assert set(told) == {"call-1-1", "call-1-2", "call-1-3"}


@pytest.mark.parametrize("when", ["before", "first event", "end"])
def test_a_layer_that_is_skipped_leaves_the_model_call_whole(when: str) -> None:
    """on_failure = "skip": wherever it fails, the answer arrives once, and the model is asked once."""

    class Breaks(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            if when == "before":
                raise RuntimeError(when)
            async for event in call_next(request):
                yield event
                if when == "first event":
                    raise RuntimeError(when)
            raise RuntimeError(when)

    model = Spy("one two three")

    played = loop([Layer(Breaks, on_failure="skip")], model)

    assert played.text == played.result.text == "one two three"
    assert len(model.requests) == 1


def test_a_layer_cannot_show_a_name_that_the_client_has() -> None:
    """The client brings a tool, a layer adds one of that name: the run fails before the model is asked."""
    clients = Tool(name="pick", description="", parameters={"type": "object"})

    class Adds(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            return ModelConfig(tools=(*(config.tools or ()), clients))

    model = Spy("Hello")

    played = loop([Adds], model, asked=asking(tools=[clients]))

    assert not model.requests
    assert "two tools named 'pick'" in str(played.result.error)


# -- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "limit", "requests"),
    [
        ({"until": max_iterations(0)}, "max_iterations(0)", 0),
        ({"until": max_iterations(2)}, "max_iterations(2)", 2),
        ({"until": max_tool_calls(1)}, "max_tool_calls(1)", 1),
        ({"until": until_finish_reason("tool_calls")}, "until_finish_reason(tool_calls)", 1),
        ({"budget": Budget(model_calls=2)}, "budget.model_calls(2)", 2),
        ({}, "max_iterations(10)", 10),
    ],
)
def test_a_loop_that_is_cut_short_names_its_limit(
    options: dict[str, Any], limit: str, requests: int
) -> None:
    """A model that calls tools for ever: the outcome is a success that names what stopped it."""
    model = Spy(*[calls("look")] * 20)

    played = loop([], model, [look], **options)

    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert last.metadata == {"interpose:limit": limit}
    assert len(model.requests) == requests


def test_calls_beyond_a_limit_are_refused_one_by_one_and_in_order() -> None:
    """Three calls, two allowed: the first two run, the third is told why not."""
    ran: list[str] = []

    @tool
    def act(q: str) -> str:
        """Act."""
        ran.append(q)
        return f"did {q}"

    turn = calls(*(("act", {"q": q}) for q in "abc"))

    played = loop([], Spy(turn, "done"), [act], until=max_tool_calls(2))

    assert sorted(ran) == ["a", "b"]
    assert list(results(played).values()) == [
        "did a",
        "did b",
        "The call was not executed: max_tool_calls(2) is used up.",
    ]


@pytest.mark.parametrize("native", [False, True])
def test_no_structured_call_is_made_when_the_budget_is_used_up(native: bool) -> None:  # noqa: FBT001
    """The last model call was spent: neither the call for the output nor its repair is made."""
    abilities = frozenset({Ability.OUTPUT_WITH_TOOLS} if native else ())
    model = Spy("no json", '{"a": "x"}', abilities=abilities)

    played = loop([], model, [look], budget=Budget(model_calls=1), run={"output": Out})

    assert len(model.requests) == 1
    assert isinstance(played.result.error, OutputError)
    assert "budget.model_calls(1)" in str(played.result.error) or native


# -- structured output and pauses -------------------------------------------------------------------


@pytest.mark.parametrize("native", [False, True])
def test_no_output_is_made_while_the_client_has_a_call_to_run(native: bool) -> None:  # noqa: FBT001
    """Pending calls first; the run that has their results gives the output."""
    clients = Tool(name="pick", description="", parameters={"type": "object"})
    abilities = frozenset({Ability.OUTPUT_WITH_TOOLS} if native else ())
    turns = [calls("pick"), '{"a": "x"}'] if native else [calls("pick"), "picked", '{"a": "x"}']
    model = Spy(*turns, abilities=abilities)

    async def use(host: Any) -> None:
        first = await seen(host.run(asking(tools=[clients]), output=Out))
        outcome = getattr(first.events[-1], "outcome", None)
        assert isinstance(outcome, RunFinishedSuccessOutcome)
        assert outcome.pending_tool_call_ids == ["call-1-1"]
        assert first.result.output is None
        assert "CUSTOM" not in first.types
        answer = ToolMessage(id="t1", tool_call_id="call-1-1", content="picked")
        again = asking([*first.result.messages, answer], run_id="run-2", tools=[clients])
        second = await seen(host.run(again, output=Out))
        assert second.result.output == Out(a="x")

    within([], LoopAgent(model), use)

    assert len(model.requests) == len(turns)


@pytest.mark.parametrize("native", [False, True])
def test_the_output_comes_in_the_run_that_goes_on(native: bool) -> None:  # noqa: FBT001
    """A question first: no output; the answering run executes the call and gives the output."""

    @tool(approval=True)
    def act() -> str:
        """Act."""
        return "acted"

    abilities = frozenset({Ability.OUTPUT_WITH_TOOLS} if native else ())
    turns = [calls("act"), '{"a": "x"}'] if native else [calls("act"), "acted", '{"a": "x"}']
    model = Spy(*turns, abilities=abilities)

    async def use(host: Any) -> None:
        first = await seen(host.run(asking(), output=Out))
        assert first.result.outcome == "interrupt"
        assert first.result.output is None
        second = await seen(host.run(answering(first, True), output=Out))
        assert second.result.output == Out(a="x")

    within([], LoopAgent(model, [act]), use)
