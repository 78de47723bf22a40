"""Cases 28 to 49: chunks become whole events, and whole events keep their order."""

from __future__ import annotations

import pytest
from ag_ui.core import (
    BaseEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from conformance import (
    ERROR,
    FINISH,
    START,
    accepted,
    expand,
    in_a_run,
    outline,
    refusal,
    text_chunk,
    tool_chunk,
    valid,
)

M_START = TextMessageStartEvent(message_id="m")
M_CONTENT = TextMessageContentEvent(message_id="m", delta="x")
M_END = TextMessageEndEvent(message_id="m")
C_START = ToolCallStartEvent(tool_call_id="c", tool_call_name="f")
C_ARGS = ToolCallArgsEvent(tool_call_id="c", delta="{}")
C_END = ToolCallEndEvent(tool_call_id="c")


# -- chunks -------------------------------------------------------------------------------------


def test_case_28_single_text_chunk_and_terminal() -> None:
    assert outline(in_a_run(text_chunk("m", "Hello"))) == [
        "TEXT_MESSAGE_START m assistant",
        "TEXT_MESSAGE_CONTENT m Hello",
        "TEXT_MESSAGE_END m",
        "RUN_FINISHED",
    ]


def test_case_29_chunks_of_one_id_share_one_start_and_one_end() -> None:
    chunks = [text_chunk("m", "a"), text_chunk("m", "b"), text_chunk(None, "c")]
    kinds = [event.type.value for event in in_a_run(*chunks)]
    assert kinds == [
        "TEXT_MESSAGE_START",
        *["TEXT_MESSAGE_CONTENT"] * 3,
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]


def test_case_30_a_switch_from_text_to_a_tool_closes_the_text_first() -> None:
    events = in_a_run(text_chunk("m", "let me see"), tool_chunk("c", "f", "{}"))
    assert outline(events)[2:4] == ["TEXT_MESSAGE_END m", "TOOL_CALL_START c f"]


def test_case_31_another_id_closes_and_opens_again() -> None:
    events = in_a_run(text_chunk("m", "a"), text_chunk("n", "b"))
    assert outline(events)[2:4] == ["TEXT_MESSAGE_END m", "TEXT_MESSAGE_START n assistant"]
    calls = in_a_run(tool_chunk("c", "f", "{}"), tool_chunk("d", "g", "{}"))
    assert outline(calls)[2:4] == ["TOOL_CALL_END c", "TOOL_CALL_START d g"]


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (
            text_chunk(delta="a"),
            "A TEXT_MESSAGE_CHUNK that opens a stream needs messageId; no open stream could be continued.",
        ),
        (
            tool_chunk(name="f"),
            "A TOOL_CALL_CHUNK that opens a stream needs toolCallId; no open stream could be continued.",
        ),
        (
            tool_chunk("c"),
            "A TOOL_CALL_CHUNK that opens a stream needs toolCallName; no open stream could be continued.",
        ),
    ],
)
def test_case_32_a_first_chunk_lacks_what_a_start_needs(chunk: BaseEvent, message: str) -> None:
    error = refusal(START, chunk)
    assert (error.rule, error.message) == ("chunk-first", message)


def test_case_34_a_chunk_without_a_delta_opens_and_no_more() -> None:
    assert outline(in_a_run(text_chunk("m")))[:2] == [
        "TEXT_MESSAGE_START m assistant",
        "TEXT_MESSAGE_END m",
    ]
    assert outline(in_a_run(tool_chunk("c", "f")))[:2] == ["TOOL_CALL_START c f", "TOOL_CALL_END c"]


def test_case_35_the_role_is_kept_and_a_name_is_there_only_if_it_was_given() -> None:
    plain, named = (
        in_a_run(chunk)[0]
        for chunk in (text_chunk("m", "a"), text_chunk("m", "a", role="user", name="Ada"))
    )
    assert isinstance(plain, TextMessageStartEvent)
    assert isinstance(named, TextMessageStartEvent)
    assert (plain.role, plain.name) == ("assistant", None)
    assert (named.role, named.name) == ("user", "Ada")
    assert "name" not in plain.model_dump_json(by_alias=True)


def test_case_36_metadata_is_on_start_and_content_and_not_on_the_end_before_them() -> None:
    events = in_a_run(
        text_chunk("m", "a", metadata={"n": 1}), text_chunk("n", "b", metadata={"n": 2})
    )
    assert [(event.type.value, event.metadata) for event in events[:6]] == [
        ("TEXT_MESSAGE_START", {"n": 1}),
        ("TEXT_MESSAGE_CONTENT", {"n": 1}),
        ("TEXT_MESSAGE_END", None),
        ("TEXT_MESSAGE_START", {"n": 2}),
        ("TEXT_MESSAGE_CONTENT", {"n": 2}),
        ("TEXT_MESSAGE_END", None),
    ]


def test_case_40_two_subagents_interleave_and_the_end_of_one_closes_its_own() -> None:
    events = in_a_run(
        SubagentStartedEvent(subagent_run_id="a", name="A"),
        SubagentStartedEvent(subagent_run_id="b", name="B"),
        text_chunk("m", "1", subagent_run_id="a"),
        text_chunk("n", "2", subagent_run_id="b"),
        text_chunk("m", "3"),
        SubagentFinishedEvent(subagent_run_id="a"),
        text_chunk("n", "4"),
        SubagentFinishedEvent(subagent_run_id="b"),
    )
    assert [
        f"{event.type.value} {getattr(event, 'subagent_run_id', None)}" for event in events[2:-1]
    ] == [
        "TEXT_MESSAGE_START a",
        "TEXT_MESSAGE_CONTENT a",
        "TEXT_MESSAGE_START b",
        "TEXT_MESSAGE_CONTENT b",
        "TEXT_MESSAGE_CONTENT a",
        "TEXT_MESSAGE_END a",
        "SUBAGENT_FINISHED a",
        "TEXT_MESSAGE_CONTENT b",
        "TEXT_MESSAGE_END b",
        "SUBAGENT_FINISHED b",
    ]


# -- order --------------------------------------------------------------------------------------


def test_case_42_a_stream_begins_with_run_started_or_run_error() -> None:
    error = refusal(M_START)
    assert (error.rule, error.index) == ("first-event", 0)
    assert error.message == "The first event is TEXT_MESSAGE_START, not RUN_STARTED."
    accepted(ERROR)


def test_case_43_no_run_starts_inside_a_run_and_runs_follow_each_other() -> None:
    assert refusal(START, START).rule == "run-active"
    runs: list[BaseEvent] = []
    for number in range(3):
        runs += [
            RunStartedEvent(thread_id="t", run_id=f"r{number}"),
            *(M_START, M_CONTENT, M_END, C_START, C_ARGS, C_END),
            RunFinishedEvent(thread_id="t", run_id=f"r{number}"),
        ]
    valid(runs)


@pytest.mark.parametrize("late", [M_START, FINISH, M_CONTENT])
def test_case_44_after_run_finished_comes_nothing_but_a_late_run_error(late: BaseEvent) -> None:
    assert refusal(START, FINISH, late).rule == "run-finished"
    accepted(START, FINISH, ERROR)
    assert refusal(START, FINISH, ERROR, late).rule == "run-errored"
    accepted(START, FINISH, ERROR, START, FINISH)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (M_CONTENT, "TEXT_MESSAGE_CONTENT: no text message 'm' is open."),
        (M_END, "TEXT_MESSAGE_END: no text message 'm' is open."),
        (C_ARGS, "TOOL_CALL_ARGS: no tool call 'c' is open."),
        (C_END, "TOOL_CALL_END: no tool call 'c' is open."),
    ],
)
def test_case_46_a_continuation_of_an_unknown_id_is_refused(event: BaseEvent, message: str) -> None:
    error = refusal(START, event)
    assert (error.rule, error.message) == ("not-open", message)
    opener, end = (M_START, M_END) if event in (M_CONTENT, M_END) else (C_START, C_END)
    assert refusal(START, opener, end, event).rule == "not-open", "also after its end"


@pytest.mark.parametrize("opener", [M_START, C_START])
def test_case_47_an_open_id_is_not_started_again_and_others_overlap(opener: BaseEvent) -> None:
    assert refusal(START, opener, opener).rule == "already-open"
    other = TextMessageStartEvent(message_id="n")
    valid(
        [
            *(START, M_START, C_START, other, C_ARGS, M_CONTENT),
            *(TextMessageEndEvent(message_id="n"), C_END, M_END, FINISH),
        ]
    )


@pytest.mark.parametrize(
    ("opener", "named"),
    [
        (M_START, "text message 'm'"),
        (C_START, "tool call 'c'"),
        (StepStartedEvent(step_name="s"), "step 's'"),
    ],
)
def test_case_48_a_run_finishes_when_all_is_closed_and_fails_at_any_time(
    opener: BaseEvent, named: str
) -> None:
    error = refusal(START, opener, FINISH)
    assert (error.rule, error.message) == (
        "open-at-finish",
        f"RUN_FINISHED came while these were open: {named}.",
    )
    accepted(START, opener, ERROR)
    if named.startswith("step"):
        valid([START, opener, StepFinishedEvent(step_name="s"), FINISH])


def test_case_49_reasoning_is_bracketed_and_span_and_message_may_share_an_id() -> None:
    span = ReasoningStartEvent(message_id="x"), ReasoningEndEvent(message_id="x")
    message = (
        ReasoningMessageStartEvent(message_id="x", role="reasoning"),
        ReasoningMessageContentEvent(message_id="x", delta="hm"),
        ReasoningMessageEndEvent(message_id="x"),
    )
    valid([START, span[0], *message, span[1], FINISH])
    assert refusal(START, span[0], span[0]).rule == "already-open"
    assert refusal(START, message[1]).rule == "not-open"
    assert refusal(START, span[0], *message, FINISH).rule == "open-at-finish"
    assert expand(*message) == list(message), "whole events pass as they are"
