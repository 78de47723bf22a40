"""The conversation as a model may be given it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from ag_ui.core import AssistantMessage, Message, ToolMessage

NOT_EXECUTED: Final = "This call was not executed."
"""What the model is told of a call in the history that nobody answered."""

EDITED: Final = "interpose:edited-arguments"
"""Metadata of the result of a call that a person let run with other arguments."""


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
                _told(answers.get(call.id)) or _unanswered(call.id)
                for call in message.tool_calls or ()
            )
    return tuple(whole)


def _told(answer: ToolMessage | None) -> ToolMessage | None:
    """Return a result; with the arguments that it is for, when they are not the model's own.

    The model would call again otherwise, to get what it had asked for.
    """
    edited = None if answer is None else (answer.metadata or {}).get(EDITED)
    if answer is None or edited is None or not isinstance(answer.content, str):
        return answer
    notice = f"A person changed the arguments of this call to {json.dumps(edited)}."
    return answer.model_copy(update={"content": f"{notice}\n{answer.content}"})


def _unanswered(call_id: str) -> ToolMessage:
    return ToolMessage(
        id=f"{call_id}-unanswered",
        content=NOT_EXECUTED,
        tool_call_id=call_id,
        error=NOT_EXECUTED,
    )
