import json
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    RunStartedEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    UserMessage,
)
from ag_ui.encoder import EventEncoder
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.agui import encode, to_json
from interpose.errors import InvalidStream

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.one_of(
    st.builds(TextMessageContentEvent, message_id=st.text(), delta=st.text()),
    st.builds(CustomEvent, name=st.text(), value=JSON, raw_event=JSON),
    st.builds(StateSnapshotEvent, snapshot=JSON, timestamp=st.integers(0, 2**50)),
    st.builds(RunStartedEvent, thread_id=st.text(), run_id=st.text(), parent_run_id=st.text()),
    st.builds(
        MessagesSnapshotEvent,
        messages=st.lists(st.builds(UserMessage, id=st.text(), content=st.text()), max_size=2),
    ),
)


@settings(max_examples=200, deadline=None)
@given(EVENTS)
def test_a_frame_equals_the_protocols_own_encoder_byte_for_byte(event: BaseEvent) -> None:
    assert encode(event).encode() == EventEncoder().encode(event).encode()


@settings(max_examples=100, deadline=None)
@given(EVENTS)
def test_a_frame_is_one_line_of_json_between_data_and_a_blank_line(event: BaseEvent) -> None:
    line = to_json(event)
    assert "\n" not in line
    assert "\r" not in line
    assert encode(event) == f"data: {line}\n\n"
    assert json.loads(line)["type"] == event.type.value


def test_wire_form_is_camel_case_without_absent_optionals_and_with_meant_nulls() -> None:
    assert to_json(TextMessageContentEvent(message_id="m", delta="")) == (
        '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":""}'
    )
    assert to_json(CustomEvent(name="n", value=None)) == (
        '{"type":"CUSTOM","name":"n","value":null}'
    )


def test_a_value_that_is_no_json_is_named_by_its_event_and_not_shown() -> None:
    secret: Any = object()
    with pytest.raises(InvalidStream) as caught:
        encode(CustomEvent(name="n", value=secret))
    assert caught.value.rule == "not-json"
    assert caught.value.message == "CustomEvent holds a value that cannot be written as JSON."
