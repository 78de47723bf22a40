"""What is written without the model's serializer has the same bytes, whatever an event holds."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    EventType,
    ReasoningMessageContentEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateSnapshotEvent,
    StepStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TextPart,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from ag_ui.encoder import EventEncoder
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError

from interpose.agui import EVENT_CLASSES, encode, to_json
from interpose.agui.plain import WRITERS
from interpose.errors import InvalidStream


class Word(str):
    """A string of a class of its own."""

    __slots__ = ()


class Count(int):
    """An integer of a class of its own."""


class Colour(enum.StrEnum):
    RED = "red"


class Grown(TextMessageContentEvent):
    """What a framework made of an event."""

    more: str | None = None


# -- events -------------------------------------------------------------------------------------

TEXT = st.one_of(
    st.text(max_size=8),
    st.text('"\\/\b\f\n\r\t\x00\x1f\x7f\x80\u2028\u2029é\U0001f600\ufeff<&{}', max_size=6),
    st.sampled_from(["message-1", "assistant", "tool", "", "\ud800", "a\udfffb"]),
)
NUMBERS = st.one_of(
    st.integers(), st.sampled_from([2**53, 2**63, -(2**63) - 1, 10**40, 10**4000]), st.floats()
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ODD: list[Any] = [
    *(Word("word"), Word("\ud800"), Count(7), True, Colour.RED, b"bytes", b"\xff", object()),
    *({1: "a", "1": "b"}, {None: 1, 2.5: 2}, {"a": {1}}, (1, 2), {"a": object()}, float("nan")),
    *(TextPart(text="part"), [TokenUsage(input_tokens=1)], RunFinishedSuccessOutcome()),
    *(TextMessageStartEvent(message_id="inner"), [AssistantMessage(id="a", content="é")]),
    *EventType,
]
CLASSES: list[type[BaseEvent]] = [*EVENT_CLASSES.values(), Grown]


def fitting(field: FieldInfo) -> st.SearchStrategy[Any]:
    """Return what a field holds, as far as it is plain; else anything."""
    union = get_args(field.annotation) if NoneType in get_args(field.annotation) else ()
    for kind in union or (field.annotation,):
        if kind is int:
            return st.integers(0, 2**53 - 1)
        if get_origin(kind) is Literal:
            return st.sampled_from(get_args(kind))
        if kind is str or str in get_args(kind):
            return TEXT
    return JSON


@st.composite
def events(draw: st.DrawFn) -> BaseEvent:
    """Any event: mostly one that is plain or nearly so; by validation where it is valid."""
    event_class = draw(st.sampled_from(CLASSES))
    fields: dict[str, Any] = {}
    for name, field in event_class.model_fields.items():
        is_odd = draw(st.integers(0, 19)) == 0
        is_wanted = field.is_required() or draw(st.integers(0, 3)) == 0
        if is_odd:
            fields[name] = draw(st.one_of(JSON, st.sampled_from(ODD), st.none()))
        elif is_wanted and name != "type":
            fields[name] = draw(fitting(field))
    if draw(st.integers(0, 9)) == 0:
        fields |= draw(st.dictionaries(st.sampled_from(["extra", "x-y", "\ud800"]), JSON))
    try:
        event = event_class.model_validate(fields)
    except ValidationError:
        event = event_class.model_construct(**fields)
    for name in draw(st.lists(st.sampled_from([*event_class.model_fields]), max_size=2)):
        if draw(st.integers(0, 9)) == 0 and name in event.__dict__:  # the last one from now on
            value = event.__dict__.pop(name)
            if draw(st.booleans()):
                event.__dict__[name] = value
    return event


# -- the same as the models ---------------------------------------------------------------------


def outcome(write: Callable[[BaseEvent], str | bytes], event: BaseEvent) -> Any:
    """Return what is written, or the kind of error; and the warnings, either way."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            text = write(event)
            found: Any = text if isinstance(text, bytes) else text.encode()
        except (InvalidStream, PydanticSerializationError):
            found = "not JSON"
        except Exception as error:  # noqa: BLE001 - whatever it is
            found = (type(error), str(error))
    return found, [str(each.message) for each in warned]


def frame_plain(event: BaseEvent) -> str | None:
    write = WRITERS.get(type(event))
    return None if write is None else write(event)


def by_model(event: BaseEvent) -> str:
    return event.model_dump_json(by_alias=True)


@settings(max_examples=400, deadline=None)
@given(events())
def test_what_is_written_is_what_the_model_writes_byte_for_byte(event: BaseEvent) -> None:
    line = outcome(by_model, event)
    frame = outcome(EventEncoder().encode, event)
    assert outcome(to_json, event) == line
    assert outcome(encode, event) == frame


@pytest.mark.parametrize("event_class", EVENT_CLASSES.values(), ids=lambda each: each.__name__)
def test_an_event_that_was_never_initialised_is_an_error_as_before(
    event_class: type[BaseEvent],
) -> None:
    empty, filled = event_class.__new__(event_class), event_class.__new__(event_class)
    object.__setattr__(filled, "__dict__", dict.fromkeys(event_class.model_fields, "x"))
    for event in (empty, filled):
        assert outcome(to_json, event) == outcome(by_model, event)


# -- what is plain ------------------------------------------------------------------------------

IDS: dict[str, Any] = {"message_id": "m", "timestamp": 1_700_000_000_000, "subagent_run_id": "s"}
CALL: dict[str, Any] = {"tool_call_id": "c"}
RUN: dict[str, Any] = {"thread_id": "t", "run_id": "r"}
PLAIN = [
    TextMessageStartEvent(**IDS, role="assistant"),
    TextMessageContentEvent(**IDS, delta="é\U0001f600\u2028\n\x00"),
    TextMessageEndEvent(**IDS),
    TextMessageChunkEvent(delta="x"),
    ReasoningMessageContentEvent(message_id="m", delta="x"),
    ToolCallStartEvent(**CALL, tool_call_name="f", parent_message_id="m"),
    ToolCallArgsEvent(**CALL, delta='{"a":'),
    ToolCallEndEvent(**CALL),
    ToolCallResultEvent(**CALL, message_id="m", content="ok", role="tool"),
    StepStartedEvent(step_name="s"),
    RunStartedEvent(**RUN, protocol_version="1.0"),
    RunFinishedEvent(**RUN),
    RunErrorEvent(message="no", code="c"),
]
OTHERS = [
    TextMessageContentEvent(message_id="m", delta="x", metadata={}),
    TextMessageContentEvent(message_id="m", delta="x", raw_event=1),
    TextMessageContentEvent.model_validate({"messageId": "m", "delta": "x", "extra": None}),
    TextMessageContentEvent.model_construct(message_id=Word("m"), delta="x"),
    TextMessageContentEvent.model_construct(message_id="m", delta=None),
    TextMessageContentEvent.model_construct(delta="x"),
    TextMessageContentEvent.model_construct(message_id="m", delta="x", timestamp=True),
    TextMessageContentEvent.model_construct(message_id="m", delta="x", timestamp=2**63),
    TextMessageContentEvent.model_construct(message_id="m", delta="x", timestamp=10**5000),
    TextMessageStartEvent.model_construct(message_id="m", role="oracle"),
    ToolCallResultEvent(**CALL, message_id="m", content=[TextPart(text="ok")]),
    RunFinishedEvent(**RUN, outcome=RunFinishedSuccessOutcome()),
    RunErrorEvent(message="no", usage=[]),
    StateSnapshotEvent(snapshot="text"),
    CustomEvent(name="n", value=None),
    Grown(message_id="m", delta="x"),
]


@pytest.mark.parametrize("event", PLAIN, ids=lambda each: type(each).__name__)
def test_the_events_that_streams_consist_of_need_no_serializer(event: BaseEvent) -> None:
    assert frame_plain(event) == EventEncoder().encode(event)


@pytest.mark.parametrize("event", OTHERS, ids=range(len(OTHERS)))
def test_whatever_is_not_plain_is_left_to_the_model(event: BaseEvent) -> None:
    assert frame_plain(event) is None
    assert outcome(to_json, event) == outcome(by_model, event)


def test_fields_in_an_order_of_their_own_keep_it() -> None:
    event = TextMessageContentEvent(message_id="m", delta="x")
    event.__dict__["message_id"] = event.__dict__.pop("message_id")
    assert frame_plain(event) is None
    assert to_json(event) == '{"type":"TEXT_MESSAGE_CONTENT","delta":"x","messageId":"m"}'
