"""Verification. Numbers in brackets are this suite's conformance cases for AG-UI streams."""

from typing import Any

import pytest
from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    FunctionCall,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.agui import Verifier, violations
from interpose.errors import InvalidStream, TruncatedStream

START = RunStartedEvent(thread_id="t", run_id="r")
FINISH = RunFinishedEvent(thread_id="t", run_id="r")
ERROR = RunErrorEvent(message="x")


def t_start(id_: str = "m", owner: str | None = None) -> BaseEvent:
    return TextMessageStartEvent(message_id=id_, subagent_run_id=owner)


def t_content(id_: str = "m", owner: str | None = None) -> BaseEvent:
    return TextMessageContentEvent(message_id=id_, delta="x", subagent_run_id=owner)


def t_end(id_: str = "m", owner: str | None = None) -> BaseEvent:
    return TextMessageEndEvent(message_id=id_, subagent_run_id=owner)


def c_start(id_: str = "c", owner: str | None = None, parent: str | None = None) -> BaseEvent:
    return ToolCallStartEvent(
        tool_call_id=id_, tool_call_name="f", subagent_run_id=owner, parent_message_id=parent
    )


def c_args(id_: str = "c", owner: str | None = None) -> BaseEvent:
    return ToolCallArgsEvent(tool_call_id=id_, delta="{}", subagent_run_id=owner)


def c_end(id_: str = "c", owner: str | None = None) -> BaseEvent:
    return ToolCallEndEvent(tool_call_id=id_, subagent_run_id=owner)


def s_start(name: str = "s", owner: str | None = None) -> BaseEvent:
    return StepStartedEvent(step_name=name, subagent_run_id=owner)


def s_end(name: str = "s", owner: str | None = None) -> BaseEvent:
    return StepFinishedEvent(step_name=name, subagent_run_id=owner)


def sub_start(id_: str = "a", parent: str | None = None) -> BaseEvent:
    return SubagentStartedEvent(subagent_run_id=id_, name="n", parent_subagent_run_id=parent)


def sub_end(id_: str = "a") -> BaseEvent:
    return SubagentFinishedEvent(subagent_run_id=id_)


def accept(*events: BaseEvent, **ids: Any) -> Verifier:
    verifier = Verifier(**ids)
    for event in events:
        verifier.check(event)
    return verifier


def refuse(rule: str, *events: BaseEvent, **ids: Any) -> str:
    verifier = accept(*events[:-1], **ids)
    with pytest.raises(InvalidStream) as caught:
        verifier.check(events[-1])
    assert caught.value.rule == rule
    assert caught.value.index == len(events) - 1
    return caught.value.message


# -- the run ------------------------------------------------------------------------------------


def test_42_a_stream_begins_with_run_started_or_run_error() -> None:
    assert refuse("first-event", t_start()) == (
        "The first event is TEXT_MESSAGE_START, not RUN_STARTED."
    )
    refuse("first-event", FINISH)
    accept(ERROR).finish()


def test_43_a_run_does_not_start_inside_a_run() -> None:
    refuse("run-active", START, START)


def test_43_runs_follow_each_other_and_may_reuse_ids() -> None:
    one = [START, t_start(), t_end(), c_start(), c_end(), sub_start(), sub_end(), FINISH]
    accept(*one, *one, START, ERROR, *one).finish()


def test_44_nothing_follows_run_finished_but_a_late_run_error() -> None:
    refuse("run-finished", START, FINISH, CustomEvent(name="n", value=1))
    refuse("run-finished", START, FINISH, FINISH)
    accept(START, FINISH, ERROR).finish()


def test_44_nothing_follows_run_error() -> None:
    refuse("run-errored", START, ERROR, t_start())
    refuse("run-errored", START, ERROR, ERROR)
    refuse("run-errored", START, ERROR, FINISH)


def test_a_stream_without_an_ending_is_truncated_and_says_what_is_open() -> None:
    with pytest.raises(TruncatedStream) as caught:
        accept(START, t_start()).finish()
    assert caught.value.message == (
        "The stream ended without RUN_FINISHED or RUN_ERROR. Still open: text message 'm'."
    )
    with pytest.raises(TruncatedStream, match="empty"):
        accept().finish()
    accept(START, FINISH).finish()


def test_the_ids_of_the_input_are_the_ids_of_the_run() -> None:
    ids = {"thread_id": "t", "run_id": "r"}
    accept(START, FINISH, **ids)
    other = RunStartedEvent(thread_id="T", run_id="r")
    assert refuse("identity", other, **ids) == (
        "RUN_STARTED has thread id 'T', not this run's 't'."
    )
    refuse("identity", RunStartedEvent(thread_id="t", run_id="R"), **ids)


def test_a_run_ends_under_the_ids_it_started_with() -> None:
    refuse("identity", START, RunFinishedEvent(thread_id="T", run_id="r"))
    refuse("identity", START, RunFinishedEvent(thread_id="t", run_id="R"))


def test_a_second_run_has_its_own_run_id_on_the_same_thread() -> None:
    ids = {"thread_id": "t", "run_id": "r"}
    accept(START, FINISH, RunStartedEvent(thread_id="t", run_id="r2"), **ids)
    refuse("identity", START, FINISH, RunStartedEvent(thread_id="T", run_id="r2"), **ids)


# -- text and tool calls ------------------------------------------------------------------------


@pytest.mark.parametrize("event", [t_content(), t_end(), c_args(), c_end()])
def test_46_a_continuation_needs_something_open(event: BaseEvent) -> None:
    assert "is open." in refuse("not-open", START, event)
    opened = t_start("other") if "MESSAGE" in event.type.value else c_start("other")
    refuse("not-open", START, opened, event)


def test_46_content_after_the_end_is_refused() -> None:
    refuse("not-open", START, t_start(), t_end(), t_content())
    refuse("not-open", START, c_start(), c_end(), c_args())


def test_47_a_second_start_of_what_is_open_is_refused() -> None:
    assert refuse("already-open", START, t_start(), t_start()) == (
        "TEXT_MESSAGE_START: text message 'm' is already open."
    )
    refuse("already-open", START, c_start(), c_start())


def test_47_distinct_ids_overlap_and_text_and_tools_interleave() -> None:
    accept(
        START, t_start("m"), t_start("n"), c_start("m"), c_args("m"), t_content("n"),
        t_content("m"), c_end("m"), t_end("m"), t_end("n"), FINISH,
    )  # fmt: skip


def test_47_a_closed_message_may_be_opened_again() -> None:
    accept(START, t_start(), t_end(), t_start(), t_content(), t_end(), FINISH)


def test_results_state_and_custom_events_are_free() -> None:
    result = ToolCallResultEvent(message_id="x", tool_call_id="unknown", content="")
    accept(START, result, StateSnapshotEvent(snapshot=None), CustomEvent(name="n", value=1), FINISH)


@pytest.mark.parametrize(
    ("opened", "named"),
    [
        (t_start(), "text message 'm'"),
        (c_start(), "tool call 'c'"),
        (s_start(), "step 's'"),
        (ReasoningStartEvent(message_id="r"), "reasoning span 'r'"),
        (ReasoningMessageStartEvent(message_id="r", role="reasoning"), "reasoning message 'r'"),
        (sub_start(), "subagent 'a'"),
    ],
)
def test_48_run_finished_needs_everything_closed_and_run_error_nothing(
    opened: BaseEvent, named: str
) -> None:
    assert refuse("open-at-finish", START, opened, FINISH) == (
        f"RUN_FINISHED came while these were open: {named}."
    )
    accept(START, opened, ERROR).finish()


# -- steps and reasoning ------------------------------------------------------------------------


def test_a_step_is_known_by_owner_and_name() -> None:
    accept(START, s_start("s"), s_start("s", "a"), s_end("s"), s_end("s", "a"), FINISH)
    refuse("already-open", START, s_start(), s_start())
    refuse("not-open", START, s_end())


def test_a_step_is_finished_by_who_started_it() -> None:
    assert refuse("owner", START, s_start(), s_end(owner="a")) == (
        "STEP_FINISHED of subagent 'a': step 's' belongs to the run itself."
    )
    refuse("owner", START, s_start(owner="a"), s_end())
    refuse("owner", START, s_start(owner=""), s_end())


def test_49_reasoning_is_bracketed_and_span_and_message_may_share_an_id() -> None:
    accept(
        START,
        ReasoningStartEvent(message_id="r"),
        ReasoningMessageStartEvent(message_id="r", role="reasoning"),
        ReasoningMessageContentEvent(message_id="r", delta="x"),
        ReasoningMessageEndEvent(message_id="r"),
        ReasoningEndEvent(message_id="r"),
        FINISH,
    )


@pytest.mark.parametrize(
    "event",
    [
        ReasoningMessageContentEvent(message_id="r", delta="x"),
        ReasoningMessageEndEvent(message_id="r"),
        ReasoningEndEvent(message_id="r"),
    ],
)
def test_49_reasoning_needs_its_opener(event: BaseEvent) -> None:
    refuse("not-open", START, event)


def test_49_reasoning_is_not_opened_twice() -> None:
    span = ReasoningStartEvent(message_id="r")
    message = ReasoningMessageStartEvent(message_id="r", role="reasoning")
    refuse("already-open", START, span, span)
    refuse("already-open", START, message, message)


# -- ownership ----------------------------------------------------------------------------------


def test_an_untagged_continuation_is_always_right_and_another_tag_never() -> None:
    accept(START, t_start(owner="a"), t_content(), t_content(owner="a"), t_end(), FINISH)
    refuse("owner", START, t_start(owner="a"), t_content(owner="b"))
    refuse("owner", START, t_start(), t_content(owner="a"))
    refuse("owner", START, c_start(owner="a"), c_args(owner="b"))
    refuse("owner", START, c_start(owner="a"), c_end(owner="b"))


def test_an_owner_outlives_the_close() -> None:
    refuse("owner", START, t_start(owner="a"), t_end(), t_start(owner="b"))
    refuse("owner", START, t_start(owner="a"), t_end(), t_start(), t_content(owner="b"))
    value = ReasoningEncryptedValueEvent(
        subtype="tool-call", entity_id="c", encrypted_value="v", subagent_run_id="b"
    )
    refuse("owner", START, c_start(owner="a"), c_end(), value)


def test_a_tool_call_belongs_to_the_message_that_carries_it() -> None:
    message = [START, t_start(owner="a"), t_end()]
    accept(*message, c_start(owner="a", parent="m"), c_end())
    refuse("owner", *message, c_start(owner="b", parent="m"))
    accept(*message, c_start(parent="m"), c_args(owner="a"))
    refuse("owner", *message, c_start(owner="b"), c_end(), c_start(parent="m"))


def test_a_snapshot_settles_who_owns_what() -> None:
    call = ToolCall(id="c", function=FunctionCall(name="f", arguments=""))
    snapshot = MessagesSnapshotEvent(
        messages=[AssistantMessage(id="m", subagent_run_id="b", tool_calls=[call])]
    )
    accept(START, t_start(owner="a"), t_end(), snapshot, t_start(owner="b"))
    refuse("owner", START, t_start(owner="a"), t_end(), snapshot, t_start(owner="a"))
    refuse("owner", START, snapshot, c_start(owner="a"))


def test_the_echoed_input_tells_who_owns_its_messages() -> None:
    echoed = RunAgentInput(
        thread_id="t", run_id="r", messages=[UserMessage(id="m", content="", subagent_run_id="a")]
    )
    start = RunStartedEvent(thread_id="t", run_id="r", input=echoed)
    refuse("owner", start, t_start(owner="b"))


def test_an_activity_is_patched_by_its_owner_only() -> None:
    def snapshot(owner: str, *, replace: bool) -> BaseEvent:
        return ActivitySnapshotEvent(
            message_id="m", activity_type="x", content={}, subagent_run_id=owner, replace=replace
        )

    def delta(owner: str) -> BaseEvent:
        return ActivityDeltaEvent(
            message_id="m", activity_type="x", patch=[], subagent_run_id=owner
        )

    refuse("owner", START, snapshot("a", replace=True), delta("b"))
    accept(START, snapshot("a", replace=True), snapshot("b", replace=True), delta("b"))
    refuse("owner", START, snapshot("a", replace=True), snapshot("b", replace=False), delta("b"))


# -- subagents ----------------------------------------------------------------------------------


def test_subagents_start_once_and_end_once() -> None:
    accept(START, sub_start("a"), sub_start("b", "a"), sub_end("b"), sub_end("a"), FINISH)
    accept(START, sub_start("a"), sub_end("a"), sub_start("b", "a"), sub_end("b"), FINISH)
    refuse("already-open", START, sub_start(), sub_start())
    refuse("subagent", START, sub_start(), sub_end(), sub_start())
    refuse("subagent", START, sub_start("b", "a"))
    refuse("not-open", START, sub_end())
    refuse("not-open", START, SubagentErrorEvent(subagent_run_id="a", message="x"))


def test_attribution_needs_no_subagent_events() -> None:
    accept(START, t_start(owner="a"), t_end(owner="a"), FINISH)


# -- misuse -------------------------------------------------------------------------------------


def test_a_chunk_and_an_unknown_class_are_refused() -> None:
    class Odd(TextMessageStartEvent):
        pass

    refuse("chunk", START, TextMessageChunkEvent(message_id="m"))
    refuse("unknown-event", START, Odd(message_id="m"))


def test_a_long_id_is_cut_in_a_message() -> None:
    assert len(refuse("not-open", START, t_end("x" * 5000))) < 200


# -- open_events --------------------------------------------------------------------------------


def test_open_events_close_in_reverse_order_under_their_owners() -> None:
    verifier = accept(
        START, s_start(), sub_start("a"), t_start("m", "a"), c_start("c", parent="m"),
        ReasoningStartEvent(message_id="r"),
        ReasoningMessageStartEvent(message_id="r", role="reasoning"),
    )  # fmt: skip
    assert verifier.open_events() == [
        ReasoningMessageEndEvent(message_id="r"),
        ReasoningEndEvent(message_id="r"),
        ToolCallEndEvent(tool_call_id="c", subagent_run_id="a"),
        TextMessageEndEvent(message_id="m", subagent_run_id="a"),
        SubagentErrorEvent(
            subagent_run_id="a", message="The run ended before this subagent did.", code="run-ended"
        ),
        StepFinishedEvent(step_name="s"),
    ]


def test_there_is_nothing_to_close_outside_a_run() -> None:
    assert accept().open_events() == []
    assert accept(START, t_start(), ERROR).open_events() == []


def test_a_refused_event_changes_nothing() -> None:
    verifier = accept(START, t_start())
    with pytest.raises(InvalidStream):
        verifier.check(FINISH)
    for event in (*verifier.open_events(), FINISH):
        verifier.check(event)
    verifier.finish()


OWNER = st.sampled_from([None, "", "a", "b"])
ID = st.sampled_from(["", "m", "n"])
ANY = st.one_of(
    st.builds(t_start, ID, OWNER),
    st.builds(t_content, ID, OWNER),
    st.builds(t_end, ID, OWNER),
    st.builds(c_start, ID, OWNER, st.none() | ID),
    st.builds(c_args, ID, OWNER),
    st.builds(c_end, ID, OWNER),
    st.builds(s_start, ID, OWNER),
    st.builds(s_end, ID, OWNER),
    st.builds(sub_start, ID, st.none() | ID),
    st.builds(sub_end, ID),
    st.builds(ReasoningStartEvent, message_id=ID, subagent_run_id=OWNER),
    st.builds(ReasoningEndEvent, message_id=ID, subagent_run_id=OWNER),
    st.builds(ReasoningMessageStartEvent, message_id=ID, role=st.just("reasoning")),
    st.builds(ReasoningMessageEndEvent, message_id=ID),
    st.builds(
        MessagesSnapshotEvent,
        messages=st.lists(
            st.builds(UserMessage, id=ID, content=st.just(""), subagent_run_id=OWNER), max_size=2
        ),
    ),
    st.builds(ToolCallResultEvent, message_id=ID, tool_call_id=ID, content=st.just("")),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ANY, max_size=25))
def test_after_any_valid_prefix_the_open_events_make_run_finished_valid(
    events: list[BaseEvent],
) -> None:
    verifier = accept(START)
    valid: list[BaseEvent] = [START]
    for event in events:
        try:
            verifier.check(event)
        except InvalidStream:
            continue
        valid.append(event)
    closing = [*verifier.open_events(), FINISH]
    for event in closing:
        verifier.check(event)
    verifier.finish()
    assert list(violations([*valid, *closing])) == []


# -- violations ---------------------------------------------------------------------------------


def rules(*events: BaseEvent, **ids: Any) -> list[tuple[str, int | None]]:
    found = violations(events, **ids)
    return [
        (error.rule, error.index) if isinstance(error, InvalidStream) else ("truncated", None)
        for error in found
    ]


def test_a_valid_recording_has_no_violations_chunks_included() -> None:
    assert rules(START, TextMessageChunkEvent(message_id="m", delta="x"), FINISH) == []


def test_every_violation_is_found_with_the_index_of_its_event() -> None:
    assert rules(START, t_content(), t_start(), t_start(), FINISH, t_end(), FINISH) == [
        ("not-open", 1),
        ("already-open", 3),
        ("open-at-finish", 4),
        ("run-finished", 5),
        ("run-finished", 6),
    ]


def test_a_missing_start_and_a_nested_run_are_reported_once() -> None:
    assert rules(t_start(), t_end(), FINISH) == [("first-event", 0)]
    assert rules(t_end(), ERROR) == [("first-event", 0), ("not-open", 0)]
    assert rules(START, START, t_start(), t_end(), FINISH) == [("run-active", 1)]


def test_a_wrong_id_and_a_truncation_are_reported() -> None:
    assert rules(START, FINISH, thread_id="T") == [("identity", 0)]
    assert rules(START) == [("truncated", None)]
    assert rules() == [("truncated", None)]


def test_a_chunk_that_cannot_be_expanded_is_a_violation_at_its_own_index() -> None:
    text = TextMessageChunkEvent(message_id="m", delta="x")
    assert rules(START, text, TextMessageChunkEvent(role="user"), FINISH) == [("chunk-conflict", 2)]
