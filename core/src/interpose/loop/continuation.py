"""What a paused run needs to go on, what people are asked, and what they answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from ag_ui.core import Interrupt

from interpose.errors import UsageError
from interpose.interrupts import Resolutions
from interpose.payloads import ToolCall, ToolResult

TOOL_CALL: Final = "tool_call"
"""The reason of an approval, as AG-UI names it (AG-UI, interrupts, reason taxonomy)."""

TOOL: Final = "interpose:tool"
"""Where ``Interrupt.metadata`` of an approval has the tool's name and the arguments."""

_DENIABLE: Final[Mapping[str, Any]] = {
    "approved": {"type": "boolean"},
    "reason": {"type": "string", "description": "Why not. The model reads it."},
}
_EDITS: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "Replaces all arguments; nothing is merged.",
}

PLAIN_APPROVAL_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": dict(_DENIABLE),
    "required": ["approved"],
    "additionalProperties": False,
}
"""The answer to an approval that takes no edited arguments."""

APPROVAL_SCHEMA: Final[Mapping[str, Any]] = {
    **PLAIN_APPROVAL_SCHEMA,
    "properties": {**_DENIABLE, "editedArgs": _EDITS},
}
"""The answer to an approval. ``editedArgs`` tells clients that they may offer to edit (AG-UI)."""


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that people are asked. ``interrupt`` has its own id, unsealed.

    ``call_id``: the tool call that it is about; every approval has one.
    """

    interrupt: Interrupt
    kind: Literal["approval", "generic"]
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a paused run needs to go on.

    ``run_id`` is the paused run, ``origin`` the first one where a continuation pauses again:
    idempotency keys count from it. ``calls``: the calls of the last assistant message that the
    server runs and that have no result yet, approved ones too, in call order, with the arguments
    as the model wrote them (parsed; a default that validation adds would pass for a masked
    argument). ``shown``: (id, name, argument text) of the same calls as the consumer saw them.
    ``clients``: ids of those among them that the client runs, and may have answered meanwhile.
    ``approved``: of those that a person has let run before the pause, by id, the arguments that
    the person gave them, or None.
    ``metadata``: JSON; signed, not encrypted, so a consumer can read it. ``counts``: counters of
    budgets. ``issued_at``, ``expires_at``: seconds since the epoch.

    Of a resumed one, the questions have no ``message`` and no ``metadata``: a layer may have masked
    these for the consumer, so the token must not carry them.
    """

    agent: str
    thread_id: str
    run_id: str
    origin: str
    calls: tuple[ToolCall, ...]
    shown: tuple[tuple[str, str, str], ...]
    questions: tuple[Question, ...]
    metadata: Mapping[str, Any]
    counts: Mapping[str, int]
    issued_at: float
    expires_at: float | None = None
    clients: frozenset[str] = frozenset()
    approved: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What people said to a tool call.

    ``args``: edited arguments, validated. ``cancelled``: nobody decided, or it is too late to.
    """

    approved: bool
    args: Mapping[str, Any] | None = None
    reason: str | None = None
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Resumed:
    """A continuation with its answers, all of them valid.

    ``token``: an opaque key. ``answers``: of approvals, by call id; when the continuation has
    expired also a cancelled one for each call that needed none, since an expired continuation runs
    nothing. ``resolutions``: of the generic questions, in their order, with their own ids.
    ``done``: what a failed try in this process has executed, by call id.
    """

    token: str
    continuation: Continuation
    answers: Mapping[str, Answer] = field(default_factory=dict)
    resolutions: Resolutions = field(default_factory=Resolutions)
    done: Mapping[str, ToolResult] = field(default_factory=dict)


def approval(
    call: ToolCall,
    message: str,
    *,
    arguments: Mapping[str, Any] | None = None,
    editable: bool = True,
    response_schema: Mapping[str, Any] | None = None,
    expires_at: datetime | None = None,
) -> Question:
    """Return the question whether a call may run.

    ``arguments``: those to show, when they are not the call's own. ``editable``: the answer may
    have ``editedArgs``. ``response_schema`` replaces the usual one; its answers still say
    ``approved``, and may have ``editedArgs`` if it has such a property. ``expires_at`` needs a
    time zone.
    """
    if expires_at is not None and expires_at.tzinfo is None:
        raise UsageError("expires_at has no time zone", hint="datetime.now(timezone.utc) + …")
    schema = response_schema or (APPROVAL_SCHEMA if editable else PLAIN_APPROVAL_SCHEMA)
    shown = call.args if arguments is None else arguments
    interrupt = Interrupt(
        id=f"approval:{call.id}",
        reason=TOOL_CALL,
        message=message,
        tool_call_id=call.id,
        response_schema=dict(schema),
        expires_at=None if expires_at is None else expires_at.isoformat(),
        metadata={TOOL: {"name": call.name, "arguments": dict(shown)}},
    )
    return Question(interrupt, "approval", call.id)
