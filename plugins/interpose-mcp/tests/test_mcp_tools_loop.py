"""Tools of MCP servers in the built-in loop: shown, guarded and executed as its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag_ui.core import (
    CustomEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    Tool,
    ToolCallResultEvent,
)
from looping import Spy, answering, asking, calls, loop, seen
from mcp_shop import bounded, gate, log, results, until
from playing import Played
from pydantic import BaseModel

from interpose import (
    Ask,
    CallTool,
    Deny,
    Host,
    Layer,
    Middleware,
    RunContext,
    ToolCall,
    ToolResult,
)
from interpose.loop import LoopAgent, tool
from interpose_mcp import McpTools

ADD = ("mcp__shop__add", {"a": 1, "b": 2})


def layer(**server: Any) -> Layer:
    return Layer(McpTools, {"servers": {"shop": {"python": "mcp_shop:server", **server}}})


@pytest.fixture(autouse=True)
def _fresh() -> None:
    log.clear()
    gate("none")


def play(model: Spy, *layers: Any, tools: Any = (), **options: Any) -> Played:
    return loop([*layers, layer()], model, tools, **options)


def test_the_model_is_shown_the_tools_and_calls_them() -> None:
    @tool
    def own(q: str) -> str:
        """Look it up."""
        return q

    model = Spy(calls(ADD, ("own", {"q": "x"})), "done")
    played = play(model, tools=[own])

    assert model.tools[0] == [
        "own",
        "mcp__shop__add",
        "mcp__shop__broken",
        "mcp__shop__steps",
        "mcp__shop__wait",
    ]
    assert [content for _, content in results(played.events)] == ["3", "x"]
    assert model.told() == ["3", "x"]
    assert played.text == "done"
    assert played.types.count("RUN_STARTED") == 1


def test_arguments_are_checked_before_the_server_is_asked() -> None:
    model = Spy(calls(("mcp__shop__add", {"a": "no number"})), "done")
    play(model)

    [told] = model.told()
    assert "Input validation failed for tool mcp__shop__add" in told
    assert log == []


def test_decisions_and_layers_around_tool_calls_hold_for_them() -> None:
    class Guards(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Deny | None:
            return Deny("not twos") if call.args.get("b") == 2 else None

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            result = await call_next(call)
            return ToolResult(f"<{result.content}>", result.error, result.metadata)

    model = Spy(calls(ADD, ("mcp__shop__add", {"a": 1, "b": 3})), "done")
    play(model, Guards)

    assert log == ["add 1 3"]
    assert model.told()[1] == "<4>"
    assert "not twos" in model.told()[0]


def test_people_can_be_asked_before_a_call() -> None:
    class Asks(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Ask:
            return Ask("May it?")

    async def work() -> None:
        model = Spy(calls(ADD), "done")
        async with Host([Asks, layer()], agent=LoopAgent(model), strict=True) as host:
            first = await seen(host.run(asking()))
            end = first.events[-1]
            assert isinstance(end, RunFinishedEvent)
            assert isinstance(end.outcome, RunFinishedInterruptOutcome)
            assert log == []
            second = await seen(host.run(answering(first, {"approved": True})))
        assert log == ["add 1 2"]
        assert [content for _, content in results(second.events)] == ["3"]
        assert second.text == "done"

    bounded(work)


def test_failures_and_progress_are_told_as_those_of_the_loops_own_tools() -> None:
    model = Spy(calls(("mcp__shop__broken", {}), ("mcp__shop__steps", {"number": 1})), "done")
    played = play(model)

    assert model.told() == ["Error executing tool broken", "all steps"]
    [failed, _] = [event for event in played.events if isinstance(event, ToolCallResultEvent)]
    assert failed.metadata == {"ag-ui:tool-result": {"error": "Error executing tool broken"}}
    [told] = [event.value for event in played.events if isinstance(event, CustomEvent)]
    assert told["value"] == {"progress": 1, "total": 1, "message": "step 1"}


def test_a_cancelled_run_cancels_the_call_at_the_server() -> None:
    async def work() -> None:
        model = Spy(calls(("mcp__shop__wait", {"name": "one"})), "done")
        async with Host([layer()], agent=LoopAgent(model), strict=True) as host:
            run = host.run("hi")
            reading = asyncio.ensure_future(seen(run))
            await until(lambda: "wait one" in log)
            run.cancel("enough")
            played = await reading
            await until(lambda: "cancelled one" in log)
        end = played.events[-1]
        assert isinstance(end, RunFinishedEvent)
        assert isinstance(end.outcome, RunFinishedCancelledOutcome)

    bounded(work)


def test_a_name_that_the_client_has_taken_stays_the_clients() -> None:
    theirs = Tool(name="mcp__shop__add", description="", parameters={"type": "object"})
    model = Spy(calls(("mcp__shop__add", {}), ("mcp__shop__add_2", {"a": 1, "b": 1})), "done")
    played = play(model, asked=asking(tools=[theirs]))

    assert log == ["add 1 1"]
    end = played.events[-1]
    assert isinstance(end, RunFinishedEvent)
    assert isinstance(end.outcome, RunFinishedSuccessOutcome)
    assert len(end.outcome.pending_tool_call_ids or []) == 1


class Answer(BaseModel):
    text: str


def test_a_structured_output_is_asked_for_without_them() -> None:
    model = Spy("done", '{"text": "yes"}')
    played = play(model, run={"output": Answer})
    assert played.result.output == Answer(text="yes")
    assert model.tools[-1] == [] or len(model.requests) == 1
