"""Ids of messages and calls that are free in a run, in place of those that somebody else chose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from ag_ui.core import BaseEvent, EventType, ReasoningEncryptedValueEvent, ToolCallStartEvent

from interpose.loop.event_facts import instance_check, value_of

_FIELDS: Final = (
    ("message_id", "message"),
    ("parent_message_id", "message"),
    ("tool_call_id", "call"),
)

_starts_call: Final = instance_check(ToolCallStartEvent)
_is_encrypted: Final = instance_check(ReasoningEncryptedValueEvent)


class FreshIds:
    """Renames the ids of one stream that ``taken`` has already, and adds the others to it.

    ``first``: what the first message of the stream is to be called, whatever its id.
    """

    __slots__ = ("_first", "_known", "_taken")

    def __init__(self, taken: set[str], first: str | None = None) -> None:
        self._taken = taken
        self._first = first
        self._known: dict[tuple[str, str], str] = {}

    def renamed(self, event: BaseEvent) -> BaseEvent:
        """Return the event with ids of this run; the same object when it has them already."""
        update: dict[str, str] = {}
        if _starts_call(event):
            self._known.pop(("call", event.tool_call_id), None)  # another call, whatever its id
        for name, kind in _FIELDS:
            given = value_of(event, name)
            if isinstance(given, str) and (ident := self._id(kind, given, event)) != given:
                update[name] = ident
        if _is_encrypted(event):
            kind = "call" if event.subtype == "tool-call" else "message"
            update["entity_id"] = self._id(kind, event.entity_id, event)
        return event.model_copy(update=update) if update else event

    def _id(self, kind: str, given: str, event: BaseEvent) -> str:
        known = self._known.get((kind, given))
        if known is not None:
            return known
        ident = given
        if kind == "message" and self._first is not None and not _is_apart(event):
            ident, self._first = self._first, None
        elif given in self._taken:
            ident = str(uuid4())
        self._taken.add(ident)
        self._known[kind, given] = ident
        return ident


def _is_apart(event: BaseEvent) -> bool:
    """Whether the event belongs to no assistant message: thoughts and results have their own."""
    return event.type.value.startswith("REASONING") or event.type is EventType.TOOL_CALL_RESULT


def ids_of(messages: Sequence[object]) -> set[str]:
    """Return the ids of messages and of their tool calls."""
    found: set[str] = set()
    for message in messages:
        found.add(str(getattr(message, "id", "")))
        found.update(call.id for call in getattr(message, "tool_calls", None) or ())
    return found
