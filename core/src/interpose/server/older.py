"""What clients before AG-UI 1.0 refuse of an event, and what they get in its place.

They end a run with an error of their own at an outcome, a content or a source that they do not
know. All else that is new in 1.0 they ignore, so it stays. Each rule was found with the client of
0.0.59, and is tested with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    ToolCallResultEvent,
    ToolMessage,
    UserMessage,
)

from interpose.agui import KNOWN_EVENTS

_UNDERSTOOD: Final = KNOWN_EVENTS - {
    RunFinishedEvent,
    ToolCallResultEvent,
    MessagesSnapshotEvent,
    RunStartedEvent,
}
"""What needs no look: most events of a stream, at the price of one."""


def for_older_client(event: BaseEvent) -> BaseEvent:
    """Return the event as a client before 1.0 understands it; the same object if it does.

    The cancelled outcome becomes what stood for it, a RUN_ERROR. ``pendingToolCallIds`` goes: that
    client takes every call without a result for pending. A tool's result is the text of its parts,
    and parts that refer to a file by a handle go.
    """
    if event.__class__ in _UNDERSTOOD:
        return event
    if isinstance(event, RunFinishedEvent):
        return _finished(event)
    if isinstance(event, ToolCallResultEvent) and not isinstance(event.content, str):
        return event.model_copy(update={"content": _text(event.content)})
    if isinstance(event, MessagesSnapshotEvent):
        messages = _messages(event.messages)
        return event if messages is None else event.model_copy(update={"messages": messages})
    if isinstance(event, RunStartedEvent) and event.input is not None:
        return event.model_copy(update={"input": _input(event.input)})
    return event


def _finished(event: RunFinishedEvent) -> BaseEvent:
    outcome = event.outcome
    if isinstance(outcome, RunFinishedCancelledOutcome):
        return RunErrorEvent(
            code="cancelled",
            message="The run was cancelled.",
            usage=event.usage,
            timestamp=event.timestamp,
            metadata=event.metadata,
        )
    if isinstance(outcome, RunFinishedSuccessOutcome) and outcome.pending_tool_call_ids is not None:
        return event.model_copy(update={"outcome": RunFinishedSuccessOutcome()})
    return event


def _input(run_input: RunAgentInput) -> RunAgentInput:
    """Return an input that an agent echoes; its tools and context were required."""
    messages = _messages(run_input.messages)
    return run_input.model_copy(
        update={
            "messages": run_input.messages if messages is None else messages,
            "tools": run_input.tools or [],
            "context": run_input.context or [],
        }
    )


def _messages(messages: Sequence[Message]) -> list[Message] | None:
    """Return changed messages, or None when there is nothing to change."""
    changed = [_message(message) for message in messages]
    same = all(new is old for new, old in zip(changed, messages, strict=True))
    return None if same else changed


def _message(message: Message) -> Message:
    if isinstance(message, ToolMessage) and not isinstance(message.content, str):
        return message.model_copy(update={"content": _text(message.content)})
    if isinstance(message, UserMessage) and not isinstance(message.content, str):
        known = [part for part in message.content if not _is_file(part)]
        if len(known) < len(message.content):
            return message.model_copy(update={"content": known})
    return message


def _is_file(part: Any) -> bool:
    return getattr(getattr(part, "source", None), "type", None) == "file"


def _text(parts: Sequence[Any]) -> str:
    return "\n".join(part.text for part in parts if part.type == "text")
