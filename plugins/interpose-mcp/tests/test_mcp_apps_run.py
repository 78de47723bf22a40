"""The calls of an agent that runs no tools: executed, shown in frames, and continued in one run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from ag_ui.core import (
    ActivitySnapshotEvent,
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    StateSnapshotEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TokenUsage,
    ToolCallChunkEvent,
    ToolCallResultEvent,
)
from mcp.types import CallToolResult
from mcp_frames import (
    PRIVATE,
    UI,
    Shop,
    activities,
    apps,
    asking,
    here,
    listening,
    play,
    raw,
    says,
    shown,
    tool,
)
from mcp_shop import Calling, Pass, call_events, gate, results
from playing import Played, finished, say, started

from interpose_mcp import MCP_APPS_ACTIVITY_TYPE, server_hash

CART: Pass = [("c1", "cart", '{"n": 2}')]
SHOP_HASH = server_hash("python", "shop")


def cart(**more: Any) -> Shop:
    """Return a server with a tool that has a UI, one that has none, and one for frames."""
    return Shop(shown("cart", "model"), tool("plain"), shown("pay", "app"), **more)


def last(played: Played) -> RunFinishedEvent:
    event = played.events[-1]
    assert isinstance(event, RunFinishedEvent), (event, played.result.error)
    return event


def kinds(played: Played) -> list[str]:
    """Return results and activities, and what ends a run, in order."""
    wanted = {"RUN_STARTED", "TOOL_CALL_RESULT", "ACTIVITY_SNAPSHOT", "RUN_FINISHED"}
    return [kind for kind in played.types if kind in wanted]


def test_a_call_is_answered_shown_and_gone_on_with_in_one_run() -> None:
    shop, agent = cart(), Calling(CART)
    played = play(apps(here(shop=shop)), agent)
    assert shop.called == [("cart", {"n": 2})]
    assert kinds(played) == ["RUN_STARTED", "TOOL_CALL_RESULT", "ACTIVITY_SNAPSHOT", "RUN_FINISHED"]
    assert results(played.events) == [("c1", "cart {'n': 2}")]
    [activity] = activities(played.events)
    assert activity.activity_type == MCP_APPS_ACTIVITY_TYPE == "mcp-apps"
    assert activity.replace is True
    assert activity.content == {
        "result": raw("cart {'n': 2}"),
        "resourceUri": UI,
        "serverHash": SHOP_HASH,
        "serverId": "shop",
        "toolInput": {"n": 2},
    }
    assert played.text == "done"
    assert len(agent.inputs) == 2
    call, result = agent.inputs[1].messages[-2:]
    assert call.role == "assistant"
    assert [each.id for each in call.tool_calls or ()] == ["c1"]
    assert result.role == "tool"
    assert (result.tool_call_id, result.content) == ("c1", "cart {'n': 2}")
    assert agent.inputs[1].run_id == agent.inputs[0].run_id
    assert [each.name for each in agent.inputs[1].tools or ()] == ["cart", "plain"]


def test_the_messages_of_result_and_activity_have_ids_of_their_own() -> None:
    played = play(apps(here(shop=cart())), Calling([*CART, ("c2", "cart", "{}")]))
    found = [
        event.message_id
        for event in played.events
        if isinstance(event, ToolCallResultEvent | ActivitySnapshotEvent)
    ]
    assert len(set(found)) == len(found) == 4


def test_a_tool_without_ui_is_answered_and_not_shown() -> None:
    played = play(apps(here(shop=cart())), Calling([("c1", "plain", "{}")]))
    assert results(played.events) == [("c1", "plain {}")]
    assert activities(played.events) == []
    assert played.text == "done"


def test_the_older_key_shows_a_tool_too() -> None:
    servers = here(tool("cart", meta={"ui/resourceUri": UI}))
    [activity] = activities(play(apps(servers), Calling(CART)).events)
    assert activity.content["resourceUri"] == UI


def test_results_come_in_the_order_of_calls_each_with_its_activity_after_it() -> None:
    ended: list[str] = []

    async def work(name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        me = arguments["me"]
        if me == "slow":
            async with asyncio.timeout(30):
                await gate("fast is done").wait()
        else:
            gate("fast is done").set()
        ended.append(me)
        return says(me)

    calls: Pass = [("c1", "cart", '{"me": "slow"}'), ("c2", "cart", '{"me": "fast"}')]
    played = play(apps(here(shop=cart(call=work))), Calling(calls))
    assert ended == ["fast", "slow"]
    told = [
        getattr(event, "tool_call_id", None) or getattr(event, "content", {})["toolInput"]["me"]
        for event in played.events
        if isinstance(event, ToolCallResultEvent | ActivitySnapshotEvent)
    ]
    assert told == ["c1", "slow", "c2", "fast"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ('{"refuse": 1}', "The MCP server 'shop' answered with an error (-32050)."),
        ("{not json", "The arguments are not JSON."),
        ("[1]", "The arguments are not a JSON object."),
    ],
)
def test_a_call_that_comes_to_nothing_is_marked_and_not_shown(arguments: str, error: str) -> None:
    agent = Calling([("c1", "cart", arguments)])
    with listening() as lines:
        played = play(apps(here(shop=cart())), agent)
    assert results(played.events) == [("c1", f'{{"error":"{error}"}}')]
    [event] = [each for each in played.events if isinstance(each, ToolCallResultEvent)]
    assert event.metadata == {"ag-ui:tool-result": {"error": error}}
    assert activities(played.events) == []
    assert played.text == "done"
    assert agent.inputs[1].messages[-1].metadata == event.metadata
    seen = "".join(each.model_dump_json() for each in played.events)
    assert PRIVATE not in seen
    assert (PRIVATE in "".join(lines)) is ("refuse" in arguments)
    if "refuse" in arguments:
        [line] = [line for line in lines if PRIVATE in line]
        assert line.endswith(str({"server_id": "shop", "server_hash": SHOP_HASH}))


@pytest.mark.parametrize("text", ["not today", ""])
def test_a_result_that_is_an_error_is_a_result_and_marked(text: str) -> None:
    played = play(apps(here(shop=cart())), Calling([("c1", "cart", f'{{"unwell": "{text}"}}')]))
    [event] = [each for each in played.events if isinstance(each, ToolCallResultEvent)]
    assert event.metadata == {"ag-ui:tool-result": {"error": text}}
    assert event.content == (text or '[{"type":"text","text":""}]')
    [activity] = activities(played.events)
    assert activity.content["result"] == {
        "content": [{"type": "text", "text": text}],
        "isError": True,
    }


def test_a_result_without_text_is_told_as_json() -> None:
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    result = CallToolResult.model_validate({"content": [picture]})
    played = play(apps(here(shop=cart(call=lambda *_: result))), Calling(CART))
    told = '[{"type":"image","data":"aGk=","mimeType":"image/png"}]'
    assert results(played.events) == [("c1", told)]


def test_the_raw_result_is_all_that_the_server_said() -> None:
    raw = {
        "_meta": {"trace": "é", "n": 1.5},
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "structuredContent": {"items": [1, None, True], "none": None},
        "isError": False,
    }
    result = CallToolResult.model_validate(raw)
    played = play(apps(here(shop=cart(call=lambda *_: result))), Calling(CART))
    assert results(played.events) == [("c1", "a\nb")]
    assert activities(played.events)[0].content["result"] == raw


def test_a_call_of_the_client_is_waited_for() -> None:
    agent = Calling([("theirs", "front", "{}"), *CART])
    played = play(apps(here(shop=cart())), agent)
    assert len(agent.inputs) == 1
    assert kinds(played) == ["RUN_STARTED", "TOOL_CALL_RESULT", "ACTIVITY_SNAPSHOT", "RUN_FINISHED"]
    assert last(played).outcome == RunFinishedSuccessOutcome(pending_tool_call_ids=["theirs"])


def test_calls_that_the_agent_lists_as_pending_are_listed_anew() -> None:
    def lists(run_input: RunAgentInput) -> RunFinishedEvent:
        outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=["c1", "theirs"])
        return finished(run_input).model_copy(update={"outcome": outcome})

    played = play(
        apps(here(shop=cart())), Calling([*CART, ("theirs", "front", "{}")], finish=lists)
    )
    assert last(played).outcome == RunFinishedSuccessOutcome(pending_tool_call_ids=["theirs"])
    assert results(played.events) == [("c1", "cart {'n': 2}")]


@pytest.mark.parametrize(
    "outcome",
    [
        RunFinishedInterruptOutcome(interrupts=[Interrupt(id="i1", reason="approval")]),
        RunFinishedCancelledOutcome(),
    ],
)
def test_a_run_that_waits_for_people_or_is_cancelled_executes_nothing(outcome: Any) -> None:
    shop = cart()
    agent = Calling(
        CART, finish=lambda asked: finished(asked).model_copy(update={"outcome": outcome})
    )
    played = play(apps(here(shop=shop)), agent)
    assert shop.called == []
    assert results(played.events) == []
    assert last(played).outcome == outcome
    assert len(agent.inputs) == 1


def test_a_call_of_the_clients_history_is_never_executed() -> None:
    call = {"id": "old", "type": "function", "function": {"name": "cart", "arguments": "{}"}}
    asked = asking(
        messages=[
            {"id": "u1", "role": "user", "content": "hi"},
            {"id": "a1", "role": "assistant", "toolCalls": [call]},
            {"id": "u2", "role": "user", "content": "and?"},
        ]
    )
    shop = cart()
    played = play(apps(here(shop=shop)), Calling(), asked)
    assert shop.called == []
    assert results(played.events) == []
    assert played.text == "done"


def test_a_tool_for_frames_is_not_executed_for_the_agent() -> None:
    shop = cart()
    played = play(apps(here(shop=shop)), Calling([("c1", "pay", "{}")]))
    assert shop.called == []
    assert last(played).outcome == RunFinishedSuccessOutcome(pending_tool_call_ids=["c1"])


def test_state_is_carried_on_and_usage_added_up() -> None:
    inputs: list[RunAgentInput] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        inputs.append(run_input)
        number = len(inputs)
        yield started(run_input)
        if number < 3:
            yield StateSnapshotEvent(snapshot={"pass": number})
            for event in call_events([(f"c{number}", "cart", "{}")]):
                yield event
        else:
            for event in say("done"):
                yield event
        usage = [TokenUsage(model="m", input_tokens=10**number)]
        yield finished(run_input).model_copy(update={"usage": usage})

    played = play(apps(here(shop=cart())), agent, asking(state={"pass": 0}))
    assert [each.state for each in inputs] == [{"pass": 0}, {"pass": 1}, {"pass": 2}]
    [usage] = last(played).usage or []
    assert usage.input_tokens == 1110
    assert len(results(played.events)) == len(activities(played.events)) == 2


@pytest.mark.parametrize(("rounds", "ends"), [(10, True), (11, False)])
def test_rounds_are_bounded_and_one_more_fails_the_run(rounds: int, *, ends: bool) -> None:
    shop, agent = cart(), Calling(*([(f"c{n}", "cart", "{}")] for n in range(rounds)))
    played = play(apps(here(shop=shop)), agent)
    assert len(shop.called) == 10
    if ends:
        assert played.text == "done"
    else:
        assert played.error[0] == "middleware-contract"
        assert "more than 10 passes" in str(played.result.error)
        assert len(agent.inputs) == 11


def test_a_call_of_a_subagent_is_answered_and_shown_in_its_lane() -> None:
    inputs: list[RunAgentInput] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        inputs.append(run_input)
        yield started(run_input)
        if len(inputs) == 1:
            yield SubagentStartedEvent(subagent_run_id="sub", name="helper")
            for event in call_events(CART):
                yield event.model_copy(update={"subagent_run_id": "sub"})
            yield SubagentFinishedEvent(subagent_run_id="sub")
        yield finished(run_input)

    played = play(apps(here(shop=cart())), agent)
    [result] = [event for event in played.events if isinstance(event, ToolCallResultEvent)]
    [activity] = activities(played.events)
    assert (result.subagent_run_id, activity.subagent_run_id) == ("sub", "sub")


def test_a_call_in_chunks_is_answered() -> None:
    inputs: list[RunAgentInput] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        inputs.append(run_input)
        yield started(run_input)
        if len(inputs) == 1:
            yield ToolCallChunkEvent(tool_call_id="c1", tool_call_name="cart", delta='{"n"')
            yield ToolCallChunkEvent(delta=": 2}")
        yield finished(run_input)

    shop = cart()
    play(apps(here(shop=shop)), agent)
    assert shop.called == [("cart", {"n": 2})]
