"""Chunk expansion. Numbers in brackets are this suite's conformance cases for AG-UI streams."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningMessageChunkEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.agui import CHUNKS, Expander
from interpose.errors import InvalidStream

FINISHED = RunFinishedEvent(thread_id="t", run_id="r")


def expand(*events: BaseEvent) -> list[BaseEvent]:
    expander = Expander()
    return [whole for event in events for whole in expander.push(event)]


def text(message_id: str | None = None, delta: str | None = None, **more: Any) -> BaseEvent:
    return TextMessageChunkEvent(message_id=message_id, delta=delta, **more)


def tool(tool_call_id: str | None = None, delta: str | None = None, **more: Any) -> BaseEvent:
    return ToolCallChunkEvent(tool_call_id=tool_call_id, delta=delta, **more)


def names(events: Iterable[BaseEvent]) -> list[str]:
    return [event.type.value for event in events]


def refused(rule: str, *events: BaseEvent) -> str:
    with pytest.raises(InvalidStream) as caught:
        expand(*events)
    assert caught.value.rule == rule
    return caught.value.message


def test_28_one_chunk_and_a_terminal_become_start_content_end() -> None:
    assert expand(text("m", "hi"), FINISHED) == [
        TextMessageStartEvent(message_id="m", role="assistant"),
        TextMessageContentEvent(message_id="m", delta="hi"),
        TextMessageEndEvent(message_id="m"),
        FINISHED,
    ]


def test_29_chunks_of_one_id_share_one_start_and_end() -> None:
    events = expand(text("m", "a"), text("m", "b"), text(None, "c"), FINISHED)
    assert names(events) == [
        "TEXT_MESSAGE_START",
        *["TEXT_MESSAGE_CONTENT"] * 3,
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]


def test_30_a_tool_call_closes_the_text_before_it_starts() -> None:
    assert expand(text("m", "a"), tool("c", "{", tool_call_name="f"), FINISHED) == [
        TextMessageStartEvent(message_id="m", role="assistant"),
        TextMessageContentEvent(message_id="m", delta="a"),
        TextMessageEndEvent(message_id="m"),
        ToolCallStartEvent(tool_call_id="c", tool_call_name="f"),
        ToolCallArgsEvent(tool_call_id="c", delta="{"),
        ToolCallEndEvent(tool_call_id="c"),
        FINISHED,
    ]


def test_31_another_id_closes_and_opens() -> None:
    events = expand(text("m", "a"), text("n", "b"), text("m", "c"))
    assert [(event.type.value, event.message_id) for event in events] == [  # type: ignore[attr-defined]
        ("TEXT_MESSAGE_START", "m"),
        ("TEXT_MESSAGE_CONTENT", "m"),
        ("TEXT_MESSAGE_END", "m"),
        ("TEXT_MESSAGE_START", "n"),
        ("TEXT_MESSAGE_CONTENT", "n"),
        ("TEXT_MESSAGE_END", "n"),
        ("TEXT_MESSAGE_START", "m"),
        ("TEXT_MESSAGE_CONTENT", "m"),
    ]


def test_31_an_empty_id_is_an_id() -> None:
    events = expand(text("m", "a"), text("", "b"))
    assert names(events)[2:4] == ["TEXT_MESSAGE_END", "TEXT_MESSAGE_START"]


@pytest.mark.parametrize(
    ("chunk", "field"),
    [
        (text(None, "a"), "messageId"),
        (tool(None, "a", tool_call_name="f"), "toolCallId"),
        (tool("c", "a"), "toolCallName"),
        (ReasoningMessageChunkEvent(delta="a"), "messageId"),
    ],
)
def test_32_a_first_chunk_without_what_it_needs_is_refused(chunk: BaseEvent, field: str) -> None:
    message = refused("chunk-first", chunk)
    assert f"needs {field}" in message
    assert chunk.type.value in message


def test_34_a_chunk_without_delta_opens_only() -> None:
    assert names(expand(text("m"), text("m"))) == ["TEXT_MESSAGE_START"]
    assert names(expand(tool("c", tool_call_name="f"))) == ["TOOL_CALL_START"]


def test_34_an_empty_delta_is_a_delta() -> None:
    assert names(expand(text("m", ""))) == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]


def test_35_role_and_name_are_kept_and_the_default_is_assistant() -> None:
    assert expand(text("m", role="user", name="Ada")) == [
        TextMessageStartEvent(message_id="m", role="user", name="Ada")
    ]
    (start,) = expand(text("m"))
    assert start.model_dump(by_alias=True, mode="json") == {
        "type": "TEXT_MESSAGE_START",
        "messageId": "m",
        "role": "assistant",
    }


def test_36_metadata_is_on_start_and_content_and_never_on_the_end_it_causes() -> None:
    events = expand(text("m", "a", metadata={"n": 1}), text("n", "b", metadata={"n": 2}))
    assert [event.metadata for event in events] == [
        {"n": 1},
        {"n": 1},
        None,
        {"n": 2},
        {"n": 2},
    ]


def test_a_continuation_with_metadata_alone_is_not_lost() -> None:
    events = expand(text("m", "a"), text(metadata={"usage": 3}))
    assert events[-1] == TextMessageContentEvent(message_id="m", delta="", metadata={"usage": 3})


def test_a_raw_event_and_the_timestamp_ride_on_the_content() -> None:
    start, content = expand(text("m", raw_event={"p": 1}, timestamp=5))
    assert start == TextMessageStartEvent(message_id="m", role="assistant")
    assert content == TextMessageContentEvent(
        message_id="m", delta="", raw_event={"p": 1}, timestamp=5
    )


def test_unknown_properties_of_a_chunk_ride_on_what_it_becomes() -> None:
    raw = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "future": 1}
    (start,) = expand(TextMessageChunkEvent.model_validate(raw))
    assert start.model_extra == {"future": 1}
    start, content = expand(TextMessageChunkEvent.model_validate({**raw, "delta": "a"}))
    assert not start.model_extra
    assert content.model_extra == {"future": 1}


def test_a_repeat_of_what_the_opener_said_is_accepted() -> None:
    chunk = {"tool_call_name": "f", "parent_message_id": "p"}
    assert names(expand(tool("c", "1", **chunk), tool("c", "2", **chunk))) == [
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_ARGS",
    ]
    assert len(expand(text("m", "a"), text("m", "b", role="assistant"))) == 3


@pytest.mark.parametrize(
    ("first", "second", "field"),
    [
        (text("m"), text("m", role="user"), "role"),
        (text("m"), text("m", name="Ada"), "name"),
        (tool("c", tool_call_name="f"), tool("c", tool_call_name="g"), "tool_call_name"),
        (tool("c", tool_call_name="f"), tool(parent_message_id="p"), "parent_message_id"),
    ],
)
def test_a_conflict_with_the_opener_is_refused(
    first: BaseEvent, second: BaseEvent, field: str
) -> None:
    assert f"another {field} " in refused("chunk-conflict", first, second)


def test_reasoning_chunks_become_a_reasoning_message() -> None:
    assert expand(
        ReasoningMessageChunkEvent(message_id="m", delta="a"),
        ReasoningMessageChunkEvent(delta="b"),
        FINISHED,
    ) == [
        ReasoningMessageStartEvent(message_id="m", role="reasoning"),
        ReasoningMessageContentEvent(message_id="m", delta="a"),
        ReasoningMessageContentEvent(message_id="m", delta="b"),
        ReasoningMessageEndEvent(message_id="m"),
        FINISHED,
    ]


# -- lanes --------------------------------------------------------------------------------------


def test_40_lanes_interleave_and_a_subagent_terminal_closes_its_own() -> None:
    done = SubagentFinishedEvent(subagent_run_id="a")
    events = expand(
        text("m", "1", subagent_run_id="a"),
        text("n", "1", subagent_run_id="b"),
        text(None, "2", subagent_run_id="a"),
        text(None, "2", subagent_run_id="b"),
        done,
        text(None, "3", subagent_run_id="b"),
    )
    assert names(events) == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "SUBAGENT_FINISHED",
        "TEXT_MESSAGE_CONTENT",
    ]
    assert events[6] == TextMessageEndEvent(message_id="m", subagent_run_id="a")


def test_40_an_untagged_chunk_continues_the_only_lane_there_is() -> None:
    events = expand(text("m", "1", subagent_run_id="a"), text(None, "2"))
    assert events[-1] == TextMessageContentEvent(message_id="m", delta="2", subagent_run_id="a")


def test_40_an_untagged_chunk_prefers_the_runs_own_lane() -> None:
    events = expand(text("m", "1", subagent_run_id="a"), text("n", "1"), text(None, "2"))
    assert events[-1] == TextMessageContentEvent(message_id="n", delta="2")


def test_40_an_untagged_chunk_that_fits_two_lanes_is_refused() -> None:
    message = refused(
        "chunk-ambiguous",
        text("m", "1", subagent_run_id="a"),
        text("n", "1", subagent_run_id="b"),
        text(None, "2"),
    )
    assert "2 subagents have a text message open" in message


def test_40_a_named_id_of_another_subagent_is_refused() -> None:
    message = refused("chunk-owner", text("m", "1"), text("m", "2", subagent_run_id="a"))
    assert "which the run itself opened" in message


# -- what closes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        CustomEvent(name="n", value=1),
        StepStartedEvent(step_name="s"),
        TextMessageStartEvent(message_id="other"),
        ToolCallResultEvent(message_id="x", tool_call_id="y", content=""),
    ],
)
def test_a_whole_event_closes_its_own_lane_only(event: BaseEvent) -> None:
    events = expand(text("m", "a"), text("n", "b", subagent_run_id="s"), event)
    assert names(events)[4:] == ["TEXT_MESSAGE_END", event.type.value]
    assert events[4] == TextMessageEndEvent(message_id="m")


@pytest.mark.parametrize(
    "event",
    [
        FINISHED,
        RunErrorEvent(message="x"),
        MessagesSnapshotEvent(messages=[]),
        RunStartedEvent(thread_id="t", run_id="r"),
    ],
)
def test_an_event_of_the_run_closes_every_lane_in_order(event: BaseEvent) -> None:
    events = expand(text("m", "a"), text("n", "b", subagent_run_id="s"), event)
    assert events[4:] == [
        TextMessageEndEvent(message_id="m"),
        TextMessageEndEvent(message_id="n", subagent_run_id="s"),
        event,
    ]


@pytest.mark.parametrize(
    "event", [RawEvent(event={}), SubagentStartedEvent(subagent_run_id="s", name="n")]
)
def test_raw_and_subagent_starts_close_nothing(event: BaseEvent) -> None:
    events = expand(text("m", "a"), event, text(None, "b"))
    assert names(events) == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        event.type.value,
        "TEXT_MESSAGE_CONTENT",
    ]


def test_the_expander_is_idle_exactly_while_nothing_is_open() -> None:
    expander = Expander()
    assert expander.idle
    expander.push(text("m", "a"))
    assert not expander.idle
    expander.push(CustomEvent(name="n", value=1))
    assert expander.idle
    expander.push(text("m", "a"))
    expander.push(FINISHED)
    assert expander.idle


def test_while_idle_a_whole_event_passes_as_the_same_object() -> None:
    event = CustomEvent(name="n", value=1)
    (passed,) = Expander().push(event)
    assert passed is event
    assert event.__class__ not in CHUNKS


# -- for all streams ----------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.text(), st.lists(st.integers(0, 50), max_size=6))
def test_any_split_of_a_text_into_chunks_gives_the_same_text(whole: str, cuts: list[int]) -> None:
    edges = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    parts = [whole[start:end] for start, end in pairwise(edges)] or [""]
    events = expand(text("m", parts[0]), *(text(None, part) for part in parts[1:]), FINISHED)
    deltas = [event.delta for event in events if isinstance(event, TextMessageContentEvent)]
    assert "".join(deltas) == whole


OWNERS = st.sampled_from([None, "a", "b"])
IDS = st.sampled_from(["", "m", "n"])
CHUNK = st.one_of(
    st.builds(text, IDS | st.none(), st.sampled_from([None, "", "x"]), subagent_run_id=OWNERS),
    st.builds(
        tool,
        IDS | st.none(),
        st.sampled_from([None, "x"]),
        tool_call_name=st.sampled_from([None, "f"]),
        subagent_run_id=OWNERS,
        metadata=st.sampled_from([None, {"k": 1}]),
    ),
    st.builds(ReasoningMessageChunkEvent, message_id=IDS | st.none(), delta=st.just("x")),
)
WHOLE = st.one_of(
    st.just(FINISHED),
    st.builds(CustomEvent, name=st.just("n"), value=st.none(), subagent_run_id=OWNERS),
    st.builds(TextMessageStartEvent, message_id=IDS, subagent_run_id=OWNERS),
    st.builds(SubagentFinishedEvent, subagent_run_id=st.sampled_from(["a", "b"])),
    st.just(RawEvent(event=1)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(CHUNK | WHOLE, max_size=12))
def test_expansion_is_idempotent(events: list[BaseEvent]) -> None:
    expander, once = Expander(), list[BaseEvent]()
    for event in events:
        try:
            once += expander.push(event)
        except InvalidStream:
            continue
    assert not {event.__class__ for event in once} & CHUNKS
    assert expand(*once) == once
