"""Cases 52 to 57: unknown content goes, and a stream builds messages and state."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import (
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    MessagesSnapshotEvent,
    ReasoningMessage,
    RunFinishedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    ToolCallStartEvent,
    UserMessage,
)
from conformance import FINISH, agent, transcript, valid
from playing import play

from interpose.agui import strip
from interpose.errors import InvalidStream

CONTENT = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x"}


# -- enforcement --------------------------------------------------------------------------------


def test_case_52_an_unknown_event_is_dropped_with_a_warning() -> None:
    assert strip({"type": "SMELL", "strength": 3}) == (
        None,
        ("dropped an event of unknown type: SMELL",),
    )


def test_case_52_an_unknown_property_is_stripped_and_its_path_named() -> None:
    message = {"id": "1", "role": "user", "content": [{"type": "text", "text": "hi", "mood": ":)"}]}
    event, warnings = strip({"type": "MESSAGES_SNAPSHOT", "messages": [message]})
    assert event == MessagesSnapshotEvent.model_validate(
        {"messages": [{"id": "1", "role": "user", "content": [{"type": "text", "text": "hi"}]}]}
    )
    assert warnings == (
        "MESSAGES_SNAPSHOT: removed messages[0].content[0].mood, which AG-UI does not describe",
    )


def test_case_52_an_unknown_outcome_is_stripped() -> None:
    raw = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "bored"}}
    event, warnings = strip(raw)
    assert event == RunFinishedEvent(thread_id="t", run_id="r")
    assert warnings == ("RUN_FINISHED: removed outcome, which AG-UI does not describe",)


def test_case_52_an_unknown_part_leaves_its_list() -> None:
    parts = [{"type": "smell"}, {"type": "text", "text": "hi"}]
    event, warnings = strip(
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": parts}
    )
    assert event is not None
    assert event.model_dump(by_alias=True)["content"] == [{"type": "text", "text": "hi"}]
    assert warnings == ("TOOL_CALL_RESULT: removed content[0], which AG-UI does not describe",)


@pytest.mark.parametrize("broken", [{"delta": 5}, {"messageId": None}, {"timestamp": "12"}])
def test_case_52_a_malformed_known_field_is_fatal(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidStream) as caught:
        strip({**CONTENT, **broken})
    assert caught.value.rule == "malformed-value"


def test_case_52_the_same_holds_for_an_agent_in_a_run() -> None:
    unknown = [{"type": "SMELL"}, {"type": "CUSTOM", "name": "n", "value": 1, "mood": ":)"}]
    played = play([], agent(*unknown))
    assert played.types == ["RUN_STARTED", "CUSTOM", "RUN_FINISHED"]
    assert not played.events[1].model_extra
    valid(played.events)
    assert play([], agent({**CONTENT, "delta": 5})).error[0] == "invalid-stream"


# -- state --------------------------------------------------------------------------------------


def test_case_53_members_that_a_patch_operation_does_not_define_are_kept_and_ignored() -> None:
    operation = {"op": "add", "path": "/n", "value": 1, "why": "because"}
    event, warnings = strip({"type": "STATE_DELTA", "delta": [operation]})
    assert warnings == ()
    assert event is not None
    assert event.model_dump(by_alias=True)["delta"] == [operation]
    assert transcript(event).state == {"n": 1}


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "remove", "path": "/gone"}],
        [{"op": "add", "path": "/n", "value": 2}, {"op": "test", "path": "/n", "value": 3}],
    ],
)
def test_case_53_a_patch_that_does_not_fit_warns_and_the_run_goes_on(
    operations: list[dict[str, Any]],
) -> None:
    patch = StateDeltaEvent.model_validate({"delta": operations})
    built = transcript(StateSnapshotEvent(snapshot={"n": 1}), patch)
    assert built.state == {"n": 1}
    assert len(built.warnings) == 1
    result = play([], agent(StateSnapshotEvent(snapshot={"n": 1}), patch)).result
    assert (result.outcome, result.state) == ("success", {"n": 1})


# -- messages -----------------------------------------------------------------------------------


def test_case_56_a_parent_that_is_no_assistant_message_gets_no_call() -> None:
    built = transcript(
        ToolCallStartEvent(tool_call_id="c", tool_call_name="f", parent_message_id="u"),
        messages=[UserMessage(id="u", content="hi")],
    )
    user, carrier = built.messages
    assert user == UserMessage(id="u", content="hi")
    assert isinstance(carrier, AssistantMessage)
    assert carrier.id == "c"
    assert [call.id for call in carrier.tool_calls or ()] == ["c"]
    assert len(built.warnings) == 1


def snapshot(*messages: Any) -> MessagesSnapshotEvent:
    return MessagesSnapshotEvent(messages=list(messages))


ONE = UserMessage(id="1", content="one")
TWO = UserMessage(id="2", content="two")
PLAN = ActivityMessage(id="p", activity_type="plan", content={})
THOUGHT = ReasoningMessage(id="q", content="hm")


def test_case_57_a_snapshot_replaces_in_place_drops_what_it_omits_and_appends_the_rest() -> None:
    new = UserMessage(id="1", content="new")
    three = UserMessage(id="3", content="three")
    built = transcript(snapshot(three, new), messages=[ONE, TWO])
    assert built.messages == (new, three)


def test_case_57_activities_and_reasoning_stay_until_a_snapshot_carries_their_role() -> None:
    held = [ONE, PLAN, THOUGHT]
    assert transcript(snapshot(ONE), messages=held).messages == (ONE, PLAN, THOUGHT)
    other_plan = PLAN.model_copy(update={"id": "p2"})
    assert transcript(snapshot(ONE, other_plan), messages=held).messages == (
        ONE,
        THOUGHT,
        other_plan,
    )
    other_thought = THOUGHT.model_copy(update={"id": "q2"})
    assert transcript(snapshot(ONE, other_thought), messages=held).messages == (
        ONE,
        PLAN,
        other_thought,
    )


def test_case_57_an_activity_of_the_stream_stays_too() -> None:
    activity = ActivitySnapshotEvent(message_id="p", activity_type="plan", content={"n": 1})
    built = transcript(activity, snapshot(ONE), FINISH)
    assert [message.id for message in built.messages] == ["p", "1"]
