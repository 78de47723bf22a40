"""Enforcement. Numbers in brackets are this suite's conformance cases for AG-UI streams."""

import sys
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    EventType,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunFinishedEvent,
    StateDeltaEvent,
    TextMessageContentEvent,
    ToolCallResultEvent,
    UserMessage,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.agui import EVENT_CLASSES, Stripper, check_input, strip
from interpose.errors import InputError, InvalidStream

CONTENT = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "hi"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


def refused(raw: dict[str, Any]) -> str:
    with pytest.raises(InvalidStream) as caught:
        strip(raw)
    assert caught.value.rule == "malformed-value"
    return caught.value.message


def test_knows_every_event_type_of_the_installed_protocol() -> None:
    assert set(EVENT_CLASSES) == {kind.value for kind in EventType}


def test_a_known_event_becomes_its_model_without_warnings() -> None:
    event, warnings = strip(CONTENT)
    assert event == TextMessageContentEvent(message_id="m", delta="hi")
    assert warnings == ()


def test_snake_case_is_read_like_camel_case() -> None:
    raw = {"type": "TEXT_MESSAGE_CONTENT", "message_id": "m", "delta": "hi"}
    assert strip(raw) == strip(CONTENT)


def test_the_second_spelling_of_a_field_is_an_unknown_property() -> None:
    event, warnings = strip({**CONTENT, "message_id": "other"})
    assert event == TextMessageContentEvent(message_id="m", delta="hi")
    assert warnings == ("TEXT_MESSAGE_CONTENT: removed message_id, which AG-UI does not describe",)


def test_52_an_unknown_event_is_dropped_with_a_warning() -> None:
    assert strip({"type": "HOLOGRAM", "x": 1}) == (
        None,
        ("dropped an event of unknown type: HOLOGRAM",),
    )


def test_52_an_unknown_property_is_removed_with_its_path() -> None:
    message = {
        "id": "1",
        "role": "assistant",
        "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "", "x": 1}}
        ],
    }
    event, warnings = strip({"type": "MESSAGES_SNAPSHOT", "messages": [message], "future": True})
    assert isinstance(event, MessagesSnapshotEvent)
    assert not event.model_extra
    (kept,) = event.messages
    assert isinstance(kept, AssistantMessage)
    assert kept.tool_calls
    assert not kept.tool_calls[0].function.model_extra
    assert warnings == (
        "MESSAGES_SNAPSHOT: removed messages[0].toolCalls[0].function.x, which AG-UI does not describe",
        "MESSAGES_SNAPSHOT: removed future, which AG-UI does not describe",
    )


def test_52_an_unknown_outcome_is_removed_because_its_place_is_optional() -> None:
    event, warnings = strip({**FINISHED, "outcome": {"type": "ascended", "how": "far"}})
    assert event == RunFinishedEvent(thread_id="t", run_id="r")
    assert warnings == ("RUN_FINISHED: removed outcome, which AG-UI does not describe",)


def test_52_an_array_in_the_place_of_an_outcome_is_malformed() -> None:
    assert refused({**FINISHED, "outcome": ["success"]}).startswith(
        "RUN_FINISHED is malformed: outcome: "
    )


def test_52_unknown_parts_and_roles_leave_their_lists() -> None:
    raw = {
        "type": "MESSAGES_SNAPSHOT",
        "messages": [
            {"id": "1", "role": "oracle", "content": "?"},
            {
                "id": "2",
                "role": "user",
                "content": [{"type": "smell", "x": 1}, {"type": "text", "text": "hi"}],
            },
        ],
    }
    event, warnings = strip(raw)
    assert isinstance(event, MessagesSnapshotEvent)
    (message,) = event.messages
    assert message == UserMessage.model_validate(
        {"id": "2", "content": [{"type": "text", "text": "hi"}]}
    )
    assert warnings == (
        "MESSAGES_SNAPSHOT: removed messages[0], which AG-UI does not describe",
        "MESSAGES_SNAPSHOT: removed messages[1].content[0], which AG-UI does not describe",
    )


def test_52_an_unknown_part_in_a_required_place_takes_its_container_along() -> None:
    future = {"odd": 1, "type": "image", "source": {"type": "telepathy"}}
    text = {"type": "text", "text": "hi"}
    event, warnings = strip(
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": "m",
            "toolCallId": "c",
            "content": [future, text],
        }
    )
    assert isinstance(event, ToolCallResultEvent)
    assert len(event.content) == 1
    assert warnings == ("TOOL_CALL_RESULT: removed content[0], which AG-UI does not describe",)


def test_52_a_malformed_known_value_is_fatal_and_its_value_is_not_shown() -> None:
    message = refused({**CONTENT, "delta": {"secret": "hunter2"}})
    assert message == ("TEXT_MESSAGE_CONTENT is malformed: delta: Input should be a valid string")


@pytest.mark.parametrize("timestamp", ["12", 1.5, True])
def test_52_a_value_of_another_type_is_not_repaired(timestamp: object) -> None:
    assert "timestamp: " in refused({**CONTENT, "timestamp": timestamp})


def test_52_an_unknown_value_of_an_enumeration_is_malformed() -> None:
    raw = {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "wizard"}
    assert refused(raw).startswith("TEXT_MESSAGE_START is malformed: role: ")


def test_52_a_missing_required_field_is_named_in_wire_spelling() -> None:
    raw = {"type": "TEXT_MESSAGE_CONTENT", "delta": "x"}
    assert refused(raw) == "TEXT_MESSAGE_CONTENT is malformed: messageId: Field required"


def test_52_the_place_of_a_fault_in_a_list_is_named_without_union_members() -> None:
    raw = {
        "type": "TOOL_CALL_RESULT",
        "messageId": "m",
        "toolCallId": "c",
        "content": [{"type": "text"}],
    }
    assert refused(raw) == "TOOL_CALL_RESULT is malformed: content[0].text: Field required"


def test_an_event_without_a_type_is_malformed() -> None:
    assert refused({"messageId": "m"}) == ("An event is malformed: type: Field required, a string")


def test_53_extras_of_a_patch_operation_are_kept() -> None:
    operation = {"op": "remove", "path": "/a", "value": "left over"}
    event, warnings = strip({"type": "STATE_DELTA", "delta": [operation]})
    assert isinstance(event, StateDeltaEvent)
    assert event.delta[0].model_extra == {"value": "left over"}
    assert warnings == ()


def test_53_an_unknown_patch_operation_leaves_the_list() -> None:
    event, warnings = strip({"type": "STATE_DELTA", "delta": [{"op": "swap", "path": "/a"}]})
    assert event == StateDeltaEvent(delta=[])
    assert warnings == ("STATE_DELTA: removed delta[0], which AG-UI does not describe",)


OPAQUE = {"anything": {"at": [None, {"all": 1}]}, "message_id": None}


@pytest.mark.parametrize(
    "raw",
    [
        {**CONTENT, "metadata": OPAQUE},
        {**CONTENT, "rawEvent": OPAQUE},
        {"type": "STATE_SNAPSHOT", "snapshot": OPAQUE},
        {"type": "CUSTOM", "name": "n", "value": OPAQUE},
        {"type": "RAW", "event": OPAQUE},
        {**FINISHED, "result": OPAQUE},
        {
            "type": "ACTIVITY_SNAPSHOT",
            "messageId": "m",
            "activityType": "a",
            "content": OPAQUE,
        },
    ],
)
def test_opaque_values_are_not_touched(raw: dict[str, Any]) -> None:
    event, warnings = strip(raw)
    assert event is not None
    assert event.model_dump(by_alias=True, mode="json") == raw
    assert warnings == ()


def test_a_null_on_an_optional_field_reads_as_absent_with_a_warning() -> None:
    event, warnings = strip({**CONTENT, "metadata": None, "timestamp": None})
    assert event == TextMessageContentEvent(message_id="m", delta="hi")
    assert warnings == (
        "TEXT_MESSAGE_CONTENT: read null as absent at metadata",
        "TEXT_MESSAGE_CONTENT: read null as absent at timestamp",
    )


def test_a_null_in_an_opaque_place_is_no_deviation() -> None:
    assert strip({**CONTENT, "rawEvent": None}) == strip(CONTENT)


def test_a_null_that_carries_meaning_stays() -> None:
    assert strip({"type": "CUSTOM", "name": "n", "value": None}) == (
        CustomEvent(name="n", value=None),
        (),
    )


def test_a_null_owner_is_fatal_at_any_depth() -> None:
    assert refused({**CONTENT, "subagentRunId": None}) == (
        "TEXT_MESSAGE_CONTENT is malformed: subagentRunId: null; leave the key out"
    )
    message = {"id": "1", "role": "user", "content": "", "subagentRunId": None}
    assert "messages[0].subagentRunId" in refused(
        {"type": "MESSAGES_SNAPSHOT", "messages": [message]}
    )


def test_a_hostile_key_is_quoted_and_cut_in_the_warning() -> None:
    _, (warning,) = strip({**CONTENT, "a\nb" + "x" * 500: 1})
    assert "\n" not in warning
    assert len(warning) < 160


def test_the_raw_data_is_not_changed() -> None:
    raw = {
        "type": "MESSAGES_SNAPSHOT",
        "messages": [{"id": "1", "role": "user", "content": "c", "x": 1}],
    }
    strip(raw)
    assert raw["messages"] == [{"id": "1", "role": "user", "content": "c", "x": 1}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    sorted(
        {
            info.alias or name
            for cls in EVENT_CLASSES.values()
            for name, info in cls.model_fields.items()
        }
    )
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(EVENT_CLASSES)), st.dictionaries(KEYS | st.text(max_size=5), JSON))
def test_any_json_object_is_accepted_dropped_or_refused_as_invalid(
    kind: str, fields: dict[str, Any]
) -> None:
    try:
        event, _ = strip({**fields, "type": kind})
    except InvalidStream:
        return
    assert event is None or not event.model_extra


# -- Stripper -----------------------------------------------------------------------------------


def test_a_typed_event_of_a_known_class_passes_as_the_same_object() -> None:
    stripper = Stripper()
    event = TextMessageContentEvent(message_id="m", delta="x", metadata={"a": None})
    assert stripper.admit(event) is event
    assert stripper.warnings == []


def test_a_typed_event_with_extras_loses_them() -> None:
    stripper = Stripper()
    event = TextMessageContentEvent.model_validate({**CONTENT, "future": 1})
    admitted = stripper.admit(event)
    assert admitted == TextMessageContentEvent(message_id="m", delta="hi")
    assert event.model_extra == {"future": 1}
    assert stripper.warnings == [
        "TEXT_MESSAGE_CONTENT: removed future, which AG-UI does not describe"
    ]


def test_a_subclass_of_an_event_becomes_the_event() -> None:
    class Fancy(TextMessageContentEvent):
        colour: str = "red"

    stripper = Stripper()
    admitted = stripper.admit(Fancy(message_id="m", delta="x", raw_event=OPAQUE))
    assert admitted.__class__ is TextMessageContentEvent
    assert admitted == TextMessageContentEvent(message_id="m", delta="x", raw_event=OPAQUE)
    assert len(stripper.warnings) == 1


def test_a_base_event_is_validated_by_its_type() -> None:
    stripper = Stripper()
    event = BaseEvent.model_validate(CONTENT)
    assert stripper.admit(event) == TextMessageContentEvent(message_id="m", delta="hi")
    with pytest.raises(InvalidStream):
        stripper.admit(BaseEvent(type=EventType.TEXT_MESSAGE_END))


def test_a_thing_that_is_no_event_is_refused_by_its_type() -> None:
    with pytest.raises(InvalidStream, match="A stream holds events, not str"):
        Stripper().admit("data: {}")  # type: ignore[arg-type]


def test_the_same_deviation_is_reported_once_a_stream() -> None:
    stripper = Stripper()
    for _ in range(5):
        stripper.admit({**CONTENT, "future": 1})
    assert len(stripper.warnings) == 1


def test_warnings_are_bounded_however_many_keys_a_stranger_invents() -> None:
    stripper = Stripper()
    for number in range(500):
        stripper.admit({**CONTENT, f"k{number}": 1})
    assert len(stripper.warnings) == 100


# -- check_input --------------------------------------------------------------------------------

INPUT = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "c"}]}


def test_an_input_is_stripped_with_warnings() -> None:
    raw = {**INPUT, "state": {"x": None}, "future": 1, "tools": None}
    checked, warnings = check_input(raw)
    assert checked == RunAgentInput(
        thread_id="t",
        run_id="r",
        messages=[UserMessage(id="1", content="c")],
        state={"x": None},
    )
    assert warnings == (
        "the input: removed future, which AG-UI does not describe",
        "the input: read null as absent at tools",
    )


def test_a_typed_input_is_taken_as_it_is() -> None:
    typed = RunAgentInput(thread_id="t", run_id="r", messages=[])
    assert check_input(typed).input is typed


def test_a_typed_input_with_extras_loses_them_and_keeps_its_messages() -> None:
    message = UserMessage(id="1", content="c")
    typed = RunAgentInput.model_validate(
        {"thread_id": "t", "run_id": "r", "messages": [message], "future": 1}
    )
    checked, warnings = check_input(typed)
    assert checked.messages == [message]
    assert not checked.model_extra
    assert warnings == ("the input: removed future, which AG-UI does not describe",)


def test_a_malformed_input_lists_every_field_and_no_value() -> None:
    raw = {"threadId": 7, "messages": [{"id": "1", "role": "user", "content": {"pw": "hunter2"}}]}
    with pytest.raises(InputError) as caught:
        check_input(raw)
    assert str(caught.value) == (
        "error[invalid-input]: The input of a run is malformed.\n"
        "  threadId: Input should be a valid string\n"
        "  runId: Field required\n"
        "  messages[0].content: Input should be a valid string; Input should be a valid list\n"
        "  fix: threadId, runId and messages are required; see RunAgentInput of AG-UI."
    )


def test_an_input_that_is_no_object_is_refused() -> None:
    with pytest.raises(InputError, match="must be a JSON object, not list"):
        check_input([])  # type: ignore[arg-type]


def test_a_list_where_a_string_is_due_is_named() -> None:
    with pytest.raises(
        InvalidStream, match=r"malformed: messageId: Input should be a valid string$"
    ):
        strip({"type": "TEXT_MESSAGE_START", "messageId": ["m"]})


def test_paths_count_the_elements_that_were_left_out() -> None:
    messages = [
        {"id": "1", "role": "robot", "content": "x"},
        {"id": "2", "role": "user", "content": "x"},
        {"id": "3", "role": "robot", "content": "x"},
        {"id": "4", "role": "user"},
    ]
    with pytest.raises(InputError, match=r"messages\[3\]\.content: Field required"):
        check_input({"threadId": "t", "runId": "r", "messages": messages})


def test_paths_within_elements_count_what_was_left_out_at_every_level() -> None:
    robot = {"id": "1", "role": "robot", "content": "x"}
    parts = [{"type": "smell"}, {"type": "text", "text": "x"}, {"type": "smell"}, {"type": "text"}]
    messages = [robot, robot, {"id": "2", "role": "user", "content": parts}]
    event = {"type": "MESSAGES_SNAPSHOT", "messages": messages}
    with pytest.raises(InvalidStream, match=r"messages\[2\]\.content\[3\]\.text: Field required"):
        strip(event)


def test_what_is_wrong_with_a_large_input_is_found_in_linear_time() -> None:
    def calls(times: int) -> int:
        """Return how many calls a check makes: the same on every machine."""
        messages = [{"role": "robot"}, {"role": "user", "content": [{"type": "text"}]}] * times
        count = 0

        def counted(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in {"call", "c_call"}

        sys.setprofile(counted)
        try:
            with pytest.raises(
                InputError, match=rf"messages\[{2 * times - 1}\]\.id: Field required"
            ):
                check_input({"threadId": "t", "runId": "r", "messages": messages})
        finally:
            sys.setprofile(None)
        return count

    assert calls(1_000) < 11 * calls(100)
