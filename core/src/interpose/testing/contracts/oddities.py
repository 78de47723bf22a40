"""Streams that are valid and rare: what a middleware meets once it is in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    FunctionCall,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessage,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentStartedEvent,
    TextMessageStartEvent,
    TextPart,
    ToolCall,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from interpose.testing.contracts.material import Case, names, sentences
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import reasoning, text, tool_call

HUGE: Final = 100_000
"""Characters of the huge piece."""
_CONTROL: Final = "\x1b[31mred\x1b[0m \x00\x07\r\n\t \u202eright to left\u202c \u2028 \ufeff \uffff"


def odd_cases(subject: Subject) -> Sequence[Case]:
    """Return the streams; each is whole and valid."""
    said = sentences(subject)
    name, *_ = names(subject)
    return (
        Case("nothing at all", ()),
        Case("odd texts", tuple(_texts(said))),
        Case("odd tool calls", tuple(_calls(name, said))),
        Case("odd values", tuple(_values(name, said))),
        Case("a huge piece", tuple(text((said * (HUGE // len(said) + 1))[:HUGE]))),
    )


def _texts(said: str) -> Sequence[BaseEvent]:
    roles: Any = ("user", "system", "developer")
    return (
        *text(message_id="no-piece"),
        *text("", message_id="empty-piece"),
        *text("", said[:9], "", "", said[9:40], "", message_id="empty-pieces"),
        *text(" ", "\n", message_id="white"),
        *text(*_CONTROL, message_id="control"),
        *text("cafe", "\u0301 ", "\ud83d", "\ude00", "\u200d", "x", message_id="marks"),
        *text("A text whose id is empty.", message_id=""),
        *text(said[:20], message_id="again"),
        *text(said[20:40], message_id="again"),
        *reasoning(message_id="no-thought"),
        *reasoning("", said[:20], message_id="thought"),
        *(
            event.model_copy(update={"role": role, "name": "ada"})
            if isinstance(event, TextMessageStartEvent)
            else event
            for role in roles
            for event in text(said[:20], message_id=role)
        ),
    )


def _calls(name: str, said: str) -> Sequence[BaseEvent]:
    written = (
        "[1, 2]",
        '"text"',
        "3",
        "null",
        "no JSON",
        '{"a": 1, "a": 2}',
        '{"cut": "o',
        "[" * 50,
    )
    odd: list[BaseEvent] = []
    for number, args in enumerate(written):
        odd += tool_call(name, args, result="", tool_call_id=f"odd-{number}")
    part = TextPart(text=said)
    return (
        *tool_call(name, (), result=said, tool_call_id="no-arguments"),
        *odd,
        *tool_call(
            name, ('{"q": "\\', "u00e", "9 \\ud83d\\", 'ude00 \\"', '"}'), tool_call_id="cut"
        ),
        ToolCallStartEvent(tool_call_id="early", tool_call_name=name, parent_message_id="nobody"),
        ToolCallResultEvent(message_id="early-result", tool_call_id="early", content=said),
        ToolCallEndEvent(tool_call_id="early"),
        ToolCallResultEvent(message_id="parts", tool_call_id="early", content=[part]),
        ToolCallResultEvent(message_id="stray", tool_call_id="of-nobody", content="stray"),
        ReasoningEncryptedValueEvent(
            subtype="tool-call", entity_id="of-nobody", encrypted_value="c2VjcmV0"
        ),
    )


def _values(name: str, said: str) -> Sequence[BaseEvent]:
    function = FunctionCall(name=name, arguments="no JSON")
    messages = MessagesSnapshotEvent(
        messages=[
            UserMessage(id="parts", content=[TextPart(text=said)]),
            AssistantMessage(id="silent", tool_calls=[ToolCall(id="old", function=function)]),
            ToolMessage(id="result", tool_call_id="old", content=""),
            ReasoningMessage(id="thought", content=said),
        ]
    )
    activity: Any = {"message_id": "activity", "activity_type": "a-kind-of-its-own"}
    return (
        StateSnapshotEvent(snapshot=None),
        StateSnapshotEvent(snapshot=[1, "two", None]),
        StateDeltaEvent(delta=[]),
        MessagesSnapshotEvent(messages=[]),
        messages,
        ActivitySnapshotEvent(**activity, content={}),
        ActivityDeltaEvent(**activity, patch=[]),
        CustomEvent(name="", value=None),
        CustomEvent(name="a-name-of-its-own", value=said),
        RawEvent(event=None),
        StepStartedEvent(step_name=""),
        StepFinishedEvent(step_name=""),
        SubagentStartedEvent(subagent_run_id="eve", name="eve"),
        SubagentErrorEvent(subagent_run_id="eve", message=said),
        *text("Nobody began this subagent.", message_id="of-zoe", subagent_run_id="zoe"),
    )
