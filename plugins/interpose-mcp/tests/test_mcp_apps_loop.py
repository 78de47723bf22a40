"""``mcp.apps`` with the built-in loop: its tools are the loop's own, and their results are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from ag_ui.core import (
    ActivitySnapshotEvent,
    RunFinishedEvent,
    SubagentStartedEvent,
    Tool,
    ToolCallResultEvent,
)
from looping import Spy, asking, calls, loop, results
from mcp.types import CallToolResult
from mcp_frames import PRIVATE, UI, Shop, activities, apps, here, listening, raw, says, shown, tool
from mcp_shop import gate
from playing import Played

from interpose import CallTool, Deny, Middleware, RunContext, Skip, ToolCall, ToolResult
from interpose.loop import LoopAgent, ToolContext, agent_tool
from interpose.loop import tool as loop_tool
from interpose.payloads import ToolDecision
from interpose_mcp import server_hash

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}


def cart(**more: Any) -> Shop:
    """Return a server with a tool that has a UI, and one that has none."""
    return Shop(shown("cart", "model", inputSchema=NUMBER), tool("plain"), **more)


def told(played: Played) -> list[str]:
    """Return what was answered and shown, in order."""
    return [
        f"result {event.tool_call_id}"
        if isinstance(event, ToolCallResultEvent)
        else f"activity {event.content['toolInput']}"
        for event in played.events
        if isinstance(event, ToolCallResultEvent | ActivitySnapshotEvent)
    ]


def test_the_loop_executes_a_call_and_the_activity_follows_its_result() -> None:
    shop, model = cart(), Spy(calls(("cart", {"n": 2}), "plain"), "done")
    played = loop([apps(here(shop=shop))], model)
    assert shop.called == [("cart", {"n": 2}), ("plain", {})]
    assert told(played) == ["result call-1-1", "activity {'n': 2}", "result call-1-2"]
    assert activities(played.events)[0].content == {
        "result": raw("cart {'n': 2}"),
        "resourceUri": UI,
        "serverHash": server_hash("python", "shop"),
        "serverId": "shop",
        "toolInput": {"n": 2},
    }
    assert model.told() == ["cart {'n': 2}", "plain {}"]
    assert [message.role for message in model.requests[1].messages] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    assert played.result.text == "done"


def test_an_activity_follows_its_own_result_when_calls_are_concurrent() -> None:
    async def work(name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        if arguments["n"] == 1:
            async with asyncio.timeout(30):
                await gate("2 is done").wait()
        else:
            gate("2 is done").set()
        return says("ok")

    model = Spy(calls(*(("cart", {"n": n}) for n in (1, 2, 3))), "done")
    played = loop([apps(here(shop=cart(call=work)))], model)
    gate("2 is done").clear()
    expected = [
        f"{what}" for n in (1, 2, 3) for what in (f"result call-1-{n}", f"activity {{'n': {n}}}")
    ]
    assert told(played) == expected


def test_a_call_that_comes_to_nothing_is_marked_and_not_shown() -> None:
    shop = Shop(shown("cart", "model"))
    model = Spy(calls(("cart", {"refuse": 1})), "done")
    with listening() as lines:
        played = loop([apps(here(shop=shop))], model)
    error = "The MCP server 'shop' answered with an error (-32050)."
    assert results(played) == {"call-1-1": f'{{"error":"{error}"}}'}
    [event] = [each for each in played.events if isinstance(each, ToolCallResultEvent)]
    assert event.metadata == {"ag-ui:tool-result": {"error": error}}
    assert activities(played.events) == []
    assert any(PRIVATE in line for line in lines)


def test_arguments_that_do_not_fit_are_not_sent() -> None:
    shop = cart()
    played = loop([apps(here(shop=shop))], Spy(calls(("cart", {"n": "two"})), "done"))
    assert shop.called == []
    assert activities(played.events) == []
    assert list(results(played)) == ["call-1-1"]


@pytest.mark.parametrize("text", ["not today", ""])
def test_a_result_that_is_an_error_is_a_result_and_marked(text: str) -> None:
    shop = Shop(shown("cart", "model"))
    played = loop([apps(here(shop=shop))], Spy(calls(("cart", {"unwell": text})), "done"))
    [event] = [each for each in played.events if isinstance(each, ToolCallResultEvent)]
    assert event.metadata == {"ag-ui:tool-result": {"error": text}}
    assert activities(played.events)[0].content["result"]["isError"] is True


@pytest.mark.parametrize("decision", [Deny("no"), Skip(ToolResult("kept"))])
def test_a_call_that_a_layer_decides_is_not_executed_and_not_shown(decision: ToolDecision) -> None:
    class Decides(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> ToolDecision:
            return decision

    shop = cart()
    played = loop([Decides, apps(here(shop=shop))], Spy(calls(("cart", {"n": 1})), "done"))
    assert shop.called == []
    assert activities(played.events) == []
    assert list(results(played)) == ["call-1-1"]


def test_layers_around_tool_calls_hold_for_the_tools() -> None:
    class Changes(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            result = await call_next(call)
            return ToolResult(f"{call.name}: {len(result.content)} letters")

    model = Spy(calls(("cart", {"n": 1})), "done")
    played = loop([Changes, apps(here(shop=cart()))], model)
    assert model.told() == ["cart: 13 letters"]
    assert told(played) == ["result call-1-1", "activity {'n': 1}"]


def test_a_call_of_the_client_is_waited_for_beside_ours() -> None:
    shop = cart()
    front = Tool(name="front", description="", parameters={})
    model = Spy(calls(("cart", {"n": 1}), "front"), "done")
    played = loop([apps(here(shop=shop))], model, asked=asking(tools=[front]))
    assert told(played) == ["result call-1-1", "activity {'n': 1}"]
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert last.outcome is not None
    assert last.outcome.model_dump(by_alias=True, exclude_none=True) == {
        "type": "success",
        "pendingToolCallIds": ["call-1-2"],
    }
    assert len(model.requests) == 1


def test_a_tool_for_frames_is_none_of_the_loops() -> None:
    shop = Shop(shown("pay", "app"))
    played = loop([apps(here(shop=shop))], Spy(calls("pay"), "done"))
    assert shop.called == []
    assert played.result.text == "done"


def test_a_subagents_call_is_answered_and_shown_in_its_lane() -> None:
    inner = Spy(calls(("cart", {"n": 1})), "asked")
    ask = agent_tool(LoopAgent(inner, ()), "ask_helper", "Ask.")
    played = loop(
        [apps(here(shop=cart()))], Spy(calls(("ask_helper", {"task": "it"})), "done"), [ask]
    )
    [begun] = [event for event in played.events if isinstance(event, SubagentStartedEvent)]
    lanes = [
        (event.type.value, event.subagent_run_id)
        for event in played.events
        if isinstance(event, ActivitySnapshotEvent)
        or (isinstance(event, ToolCallResultEvent) and str(event.content).startswith("cart"))
    ]
    assert lanes == [
        ("TOOL_CALL_RESULT", begun.subagent_run_id),
        ("ACTIVITY_SNAPSHOT", begun.subagent_run_id),
    ]


def test_a_call_that_a_layer_repeats_is_shown_once() -> None:
    class Again(Middleware):
        may_repeat = True

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            await call_next(call)
            return await call_next(call)

    shop = cart()
    model = Spy(calls(("cart", {"n": 1})), "done")
    played = loop([Again, apps(here(shop=shop))], model)
    assert len(shop.called) == 2
    assert told(played) == ["result call-1-1", "activity {'n': 1}"]


def test_an_activity_of_somebody_else_is_left_alone() -> None:
    @loop_tool
    def draws(ctx: ToolContext) -> str:
        """Show something."""
        ctx.emit(ActivitySnapshotEvent(message_id="x", activity_type="chart", content={}))
        return "drawn"

    played = loop([apps(here(shop=cart()))], Spy(calls("draws"), "done"), [draws])
    assert [activity.message_id for activity in activities(played.events)] == ["x"]


def test_a_tool_of_the_loop_itself_is_not_shown() -> None:
    @loop_tool
    def own() -> str:
        """Be the loop's own."""
        return "own"

    played = loop([apps(here(shop=cart()))], Spy(calls("own"), "done"), [own])
    assert results(played) == {"call-1-1": "own"}
    assert activities(played.events) == []
