"""A server whose agent is another server: two chains, one stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driving import Server
from gateways import Stream, await_end, open_gate, runs_of, valid

NEW = {"protocolVersion": "1.0"}
TEXT = {"TEXT_MESSAGE_CONTENT"}
SECRET = "hunter2"
"""What the agent and the guard say behind closed doors."""


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in events if each["type"] == kind]


def said(events: list[dict[str, Any]]) -> str:
    return "".join(each["delta"] for each in of(events, "TEXT_MESSAGE_CONTENT"))


def test_both_chains_take_effect_and_what_no_layer_is_for_passes(
    inner: Server, outer: Server
) -> None:
    behind = valid(inner.post("order", **NEW))
    events = valid(outer.post("order", **NEW))
    assert said(behind) == "Write to [email], who paid with 4111 1111 1111 1111."
    assert said(events) == "Write to [email], who paid with [card]."
    assert [each["toolCallName"] for each in of(behind, "TOOL_CALL_START")] == [
        "lookup",
        "delete_everything",
    ]
    assert [each["toolCallName"] for each in of(events, "TOOL_CALL_START")] == ["lookup"]
    assert [each["toolCallId"] for each in of(events, "TOOL_CALL_RESULT")] == ["c1"]
    assert of(events, "STATE_SNAPSHOT")[0]["snapshot"] == {"paid_with": "[card]", "open": 0}
    hidden = {"TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"}
    others = [each["type"] for each in events if each["type"] not in {*hidden, *TEXT}]
    assert others == [each["type"] for each in behind if each["type"] not in {*hidden, *TEXT}]


def test_ids_usage_and_result_pass(outer: Server) -> None:
    events = valid(outer.post("order", thread="thread-7", runId="run-7", **NEW))
    ids = {"threadId": "thread-7", "runId": "run-7"}
    assert events[0] == {"type": "RUN_STARTED", "protocolVersion": "1.0", **ids}
    last = events[-1]
    assert {name: last[name] for name in ids} == ids
    assert last["usage"] == [{"provider": "p", "model": "m", "inputTokens": 7, "outputTokens": 9}]
    assert last["result"] == {"sum": 0}


def test_the_whole_input_reaches_the_agent_behind_as_the_chain_in_front_left_it(
    outer: Server,
) -> None:
    fields: dict[str, Any] = {
        "state": {"kept": [None, 0, ""]},
        "tools": [{"name": "confirm", "description": "d", "parameters": {"type": "object"}}],
        "context": [{"description": "page", "value": "7"}],
        "forwardedProps": {"odd": False},
        "parentRunId": "run-0",
    }
    asked = "tell of 4111 1111 1111 1111"
    events = valid(outer.post(asked, thread="t", runId="r", **fields, **NEW))
    [told] = [each["value"] for each in of(events, "CUSTOM")]
    for name, value in {**fields, **NEW, "threadId": "t", "runId": "r"}.items():
        assert told[name] == value, name
    assert [each["content"] for each in told["messages"]] == ["tell of [card]"]


def test_what_nobody_knows_is_stripped(outer: Server) -> None:
    answer = outer.post("unknown", **NEW)
    assert [each["type"] for each in valid(answer)] == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert b"odd" not in answer.body


def test_the_cancelled_outcome_passes(outer: Server) -> None:
    assert valid(outer.post("cancelled", **NEW))[-1]["outcome"] == {"type": "cancelled"}


def test_a_client_before_1_0_gets_what_it_understands_from_behind(outer: Server) -> None:
    events = valid(outer.post("cancelled"))
    assert events[-1].get("outcome", {}).get("type") != "cancelled"
    assert said(events) == "So far."


def test_an_interrupt_is_redacted_in_front_and_its_answer_reaches_the_agent_behind(
    outer: Server,
) -> None:
    [interrupt] = valid(outer.post("ask", thread="asked", **NEW))[-1]["outcome"]["interrupts"]
    assert interrupt["message"] == "May I charge [card]?"
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": "yes"}]
    events = valid(outer.post("ask", thread="asked", resume=resume, **NEW))
    assert said(events) == "i1: resolved, yes"


def test_events_come_through_both_servers_one_by_one(outer: Server) -> None:
    run = Stream(outer, "gate").until("TEXT_MESSAGE_CONTENT")
    assert run.text == "before "  # the agent has not said more than this yet
    open_gate(outer, run.thread)
    assert run.rest().text == f"before after {run.thread}"
    assert run.types[-1] == "RUN_FINISHED"


def test_many_runs_at_once_do_not_mix(outer: Server, folder: Path) -> None:
    runs = [Stream(outer, "gate").until("TEXT_MESSAGE_CONTENT") for _ in range(20)]
    for run in reversed(runs):
        open_gate(outer, run.thread)
    for run in runs:
        assert run.rest().text == f"before after {run.thread}"
        assert {each["runId"] for each in run.events if "runId" in each} == {run.run}
        for name in ("inner", "outer"):
            assert await_end(runs_of(name, folder), run.run)["outcome"] == "success"


def test_the_gateway_keeps_its_client_awake_while_the_agent_behind_is_silent(
    outer: Server,
) -> None:
    run = Stream(outer, "gate").until("TEXT_MESSAGE_CONTENT")
    while len(run.comments) < 3:
        assert run.frame().startswith(":")
    open_gate(outer, run.thread)
    assert set(run.rest().comments) == {": heartbeat\n\n"}


def test_heartbeats_from_behind_say_that_silence_is_no_loss(outer: Server) -> None:
    run = Stream(outer, "pause").rest()  # is silent for longer than the gateway's idle_timeout
    assert run.types[-1] == "RUN_FINISHED"


def test_a_failure_of_the_agent_behind_is_one_run_error_without_its_text(
    outer: Server, folder: Path
) -> None:
    answer = outer.post("raises", runId="run-raises", **NEW)
    events = valid(answer)
    assert [each["type"] for each in events][-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]
    assert SECRET not in answer.body.decode()
    for name in ("inner", "outer"):
        assert await_end(runs_of(name, folder), "run-raises")["outcome"] == "error"


def test_a_refusal_from_behind_is_a_failure_that_tells_its_status_and_nothing_else(
    outer: Server,
) -> None:
    answer = outer.post("too much for the inner one", **NEW)
    last = valid(answer)[-1]
    assert (last["type"], last["code"], last["message"]) == (
        "RUN_ERROR",
        "remote-unavailable",
        "The remote agent answered with HTTP 429 (Too Many Requests).",
    )
    assert SECRET not in answer.body.decode()
    assert "No more today" in outer.log.read_text()  # the operator may know


def test_a_refusal_in_front_is_an_http_answer_and_never_reaches_the_agent_behind(
    outer: Server, folder: Path
) -> None:
    answer = outer.post("too much for the outer one", runId="run-refused", **NEW)
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert "run-refused" not in runs_of("inner", folder).read_text()
