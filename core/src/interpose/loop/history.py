"""The conversation as a model may be given it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ag_ui.core import AssistantMessage, Message, ToolMessage

NOT_EXECUTED: Final = "This call was not executed."
"""What the model is told of a call in the history that nobody answered."""


def requestable(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages of a request: every tool call answered.

    Activities, and what subagents said, are left out.

    A call without a result is not executed later: a client could have made it up. The model is
    told so. Results that answer no call are dropped: providers refuse them.
    """
    answers: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            answers.setdefault(message.tool_call_id, message)
    whole: list[Message] = []
    for message in messages:
        if message.role in ("activity", "tool"):
            continue
        if getattr(message, "subagent_run_id", None) is not None:
            continue
        whole.append(message)
        if isinstance(message, AssistantMessage):
            whole += (
                answers.get(call.id) or _unanswered(call.id) for call in message.tool_calls or ()
            )
    return tuple(whole)


def _unanswered(call_id: str) -> ToolMessage:
    return ToolMessage(
        id=f"{call_id}-unanswered",
        content=NOT_EXECUTED,
        tool_call_id=call_id,
        error=NOT_EXECUTED,
    )
