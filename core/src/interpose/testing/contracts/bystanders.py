"""A stream that concerns nobody: events, fields and names that no middleware can know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    Context,
    CustomEvent,
    Interrupt,
    RawEvent,
    ReasoningEncryptedValueEvent,
    RunAgentInput,
    RunFinishedInterruptOutcome,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageStartEvent,
    Tool,
    UserMessage,
)

from interpose.testing.contracts.material import names
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import finished, reasoning, text, tool_call, usage, user_input

OWN: Final = "x-of-its-own"
"""A name, a kind and a key that nobody can know."""
PIECE: Final = "x-of-a-piece"
"""The key in the metadata of pieces of text."""
_MOMENT: Final = 1_700_000_000_000
"""Milliseconds since the epoch."""


def bystanders() -> Sequence[BaseEvent]:
    """Return events of all kinds, each with metadata and a time; the values are numbers."""
    eve = "subagent-eve"
    activity: Any = {"message_id": "activity", "activity_type": OWN}
    delta: Any = [{"op": "add", "path": f"/{OWN}", "value": 2}]
    events: list[BaseEvent] = [
        StepStartedEvent(step_name=OWN),
        StateSnapshotEvent(snapshot={"known": 1}),
        StateDeltaEvent(delta=delta),
        ActivitySnapshotEvent(**activity, content={"known": 1}, replace=False),
        ActivityDeltaEvent(**activity, patch=delta),
        CustomEvent(name=OWN, value={"number": 1, "list": [1, None, True]}),
        RawEvent(event={"number": 1}, source=OWN),
        *reasoning("Well."),
        ReasoningEncryptedValueEvent(
            subtype="message", entity_id="thought", encrypted_value="c2VjcmV0"
        ),
        SubagentStartedEvent(subagent_run_id=eve, name="eve", description="1"),
        *text("So.", message_id="of-eve", subagent_run_id=eve),
        *tool_call(OWN, {"n": 1}, result="1", tool_call_id="of-eve-1", subagent_run_id=eve),
        SubagentFinishedEvent(subagent_run_id=eve, result={"number": 1}),
        *text("Well.", " Done."),
        *tool_call(OWN, {"n": 1}, result="1"),
        StepFinishedEvent(step_name=OWN),
    ]
    return [_marked(event, number) for number, event in enumerate(events)]


def endings() -> Sequence[BaseEvent]:
    """Return how the run ends: well, with a result and its usage; and with a question."""
    question = Interrupt(
        id="question", reason=OWN, message="1", response_schema={OWN: 1}, metadata={OWN: 1}
    )
    asked = RunFinishedInterruptOutcome(type="interrupt", interrupts=[question])
    marked: Any = {"usage": [usage(3, 4, model=OWN)], "metadata": {OWN: 1}}
    return (finished(result={"number": 1}, **marked), finished(outcome=asked, **marked))


def full_input(subject: Subject) -> RunAgentInput:
    """Return an input with everything; its tools are those of the settings and an unknown one."""
    tools = [
        Tool(name=name, description="1", parameters={"type": "object"})
        for name in dict.fromkeys((*names(subject), OWN))
    ]
    message = UserMessage(id="user", content="1", name="ada", metadata={OWN: 1})
    return user_input(
        [message],
        state={OWN: 1},
        tools=tools,
        context=[Context(description=OWN, value="1")],
        forwarded_props={OWN: 1},
        parent_run_id="parent",
    )


def _marked(event: BaseEvent, number: int) -> BaseEvent:
    fields: dict[str, Any] = {"metadata": {OWN: number}, "timestamp": _MOMENT + number}
    if isinstance(event, TextMessageStartEvent):
        fields["name"] = "ada"
    if hasattr(event, "delta"):
        fields["metadata"] = {PIECE: number}
    return event.model_copy(update=fields)
