"""Objects of a framework inside events: they are JSON before anybody looks into them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest
from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    CustomEvent,
    RawEvent,
    RunAgentInput,
    RunFinishedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    SubagentFinishedEvent,
)
from playing import agent_of, play
from pydantic import BaseModel

from interpose import Middleware, PatternTransform, RunContext
from interpose.agui import Stripper, to_json
from interpose.errors import InvalidStream


class Colour(StrEnum):
    RED = "red"


class Said(BaseModel):
    """As a framework keeps a message in its state."""

    content: str
    colour: Colour = Colour.RED


@dataclass
class Note:
    text: str


OBJECTS = {"messages": [Said(content="SECRET")], "notes": (Note("SECRET"),), "steps": {1: 2}}
JSON = {
    "messages": [{"content": "SECRET", "colour": "red"}],
    "notes": [{"text": "SECRET"}],
    "steps": {"1": 2},
}


def admitted(event: BaseEvent | Mapping[str, Any]) -> Any:
    return Stripper().admit(event)


def test_a_free_form_value_becomes_the_json_of_the_wire() -> None:
    events: list[tuple[BaseEvent, str]] = [
        (StateSnapshotEvent(snapshot=OBJECTS), "snapshot"),
        (ActivitySnapshotEvent(message_id="m", activity_type="a", content=OBJECTS), "content"),
        (CustomEvent(name="n", value=OBJECTS), "value"),
        (RawEvent(event=OBJECTS), "event"),
        (RunFinishedEvent(thread_id="t", run_id="r", result=OBJECTS), "result"),
        (SubagentFinishedEvent(subagent_run_id="s", result=OBJECTS), "result"),
    ]
    for event, name in events:
        before = to_json(event)
        new = admitted(event)
        assert getattr(new, name) == JSON
        assert getattr(event, name) == OBJECTS  # the given event is as it was
        assert to_json(new) == before


def test_so_do_the_values_of_a_patch() -> None:
    patch = [{"op": "add", "path": "/-", "value": OBJECTS}, {"op": "remove", "path": "/x"}]
    for event in (
        StateDeltaEvent.model_validate({"delta": patch}),
        ActivityDeltaEvent.model_validate({"messageId": "m", "activityType": "a", "patch": patch}),
    ):
        new = admitted(event)
        operations: list[Any] = new.delta if isinstance(new, StateDeltaEvent) else new.patch
        assert operations[0].value == JSON
        assert to_json(new) == to_json(event)


def test_so_does_one_in_raw_data_or_beside_unknown_properties() -> None:
    raw = {"type": "STATE_SNAPSHOT", "snapshot": OBJECTS}
    assert admitted(raw).snapshot == JSON
    assert admitted(StateSnapshotEvent.model_validate({**raw, "unknown": 1})).snapshot == JSON


@pytest.mark.parametrize("value", [None, 1, "text", [], {"a": [1, 2.5, True, None, {"b": "c"}]}])
def test_json_stays_the_same_object(value: Any) -> None:
    event = StateSnapshotEvent(snapshot=value)
    assert admitted(event) is event
    patch = StateDeltaEvent.model_validate(
        {"delta": [{"op": "add", "path": "/a", "value": value}, {"op": "remove", "path": "/a"}]}
    )
    assert admitted(patch) is patch


def test_what_cannot_be_json_is_malformed_and_is_not_told() -> None:
    endless: list[Any] = ["SECRET"]
    endless.append(endless)

    class Broken:
        def __repr__(self) -> str:
            return "SECRET"

    for value in (Broken(), {"a": [endless]}, {"a": {Broken(): 1}}):
        with pytest.raises(InvalidStream) as caught:
            admitted(CustomEvent(name="n", value=value))
        assert caught.value.rule == "malformed-value"
        assert caught.value.message == ("CUSTOM is malformed: value: it cannot be written as JSON")


class Mask(PatternTransform):
    @classmethod
    def rules(cls, settings: object, /) -> tuple[tuple[str, str], ...]:
        return (("secret", "SECRET"),)

    def replace(self, name: str, text: str, /) -> str:
        return "***"


def test_a_transform_and_a_state_see_into_them() -> None:
    seen: list[Any] = []

    class Look(Middleware):
        tracks_state = True

        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            seen.append(ctx.state)

    change = StateDeltaEvent.model_validate(
        {"delta": [{"op": "replace", "path": "/messages/0/content", "value": "SECRET again"}]}
    )
    agent = agent_of(StateSnapshotEvent(snapshot=OBJECTS), change)
    for strict in (False, True):
        played = play([Look, Mask], agent, strict=strict)
        assert "SECRET" not in "".join(map(to_json, played.events))
        assert seen[-1]["messages"] == [{"content": "*** again", "colour": "red"}]
        assert played.result.state["notes"] == [{"text": "***"}]


def test_a_transform_sees_into_the_state_that_an_application_gives() -> None:
    given: list[Any] = []

    class Keep(Middleware):
        def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> None:
            given.append(run_input.state)

    asked = RunAgentInput(thread_id="t", run_id="r", messages=[], state=OBJECTS)
    play([Mask, Keep], agent_of(), asked=asked)
    assert given[-1]["messages"] == [{"content": "***", "colour": "red"}]
