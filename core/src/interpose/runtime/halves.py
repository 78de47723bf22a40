r"""Characters that an agent split over two deltas, joined again.

JSON spells a character outside the basic plane as two halves (``"\ud83d\ude00"``), and a producer
that cuts its text between them sends each in an event of its own. Neither is text by itself: no
layer could look at it, and no event with it can be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ag_ui.core import (
    BaseEvent,
    EventType,
    ReasoningMessageChunkEvent,
    ReasoningMessageContentEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
)

from interpose.errors import InvalidStream

DELTAS: Final[Mapping[type[BaseEvent], tuple[str, str]]] = {
    TextMessageContentEvent: ("text", "message_id"),
    TextMessageChunkEvent: ("text", "message_id"),
    ToolCallArgsEvent: ("call", "tool_call_id"),
    ToolCallChunkEvent: ("call", "tool_call_id"),
    ReasoningMessageContentEvent: ("reasoning", "message_id"),
    ReasoningMessageChunkEvent: ("reasoning", "message_id"),
}
"""The events that carry pieces of text: the stream's name, and what tells streams apart."""
_FIRST, _LAST = "\ud800", "\udbff"
"""The first halves of characters."""

_Place = tuple[str, str | None, str | None]


class Halves:
    """Holds back the first half of a character until the next delta of the same message or call.

    ``held``: by message or call. While it is empty, callers on a hot path skip all classes but
    those of ``DELTAS``, and a delta that is ASCII.
    """

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: dict[_Place, str] = {}

    def join(self, event: BaseEvent) -> BaseEvent:
        """Return the event with whole characters; the same object when it has them already.

        Raises InvalidStream (rule ``malformed-value``) for half a character that nothing
        completes.
        """
        delta = getattr(event, "delta", None)
        if delta.__class__ is not str or (delta.isascii() and not self.held):
            if self.held and event.type is EventType.RUN_FINISHED:
                raise _half(event)
            return event
        stream, id_field = DELTAS[event.__class__]
        place = self._place((stream, getattr(event, id_field), event.subagent_run_id))  # type: ignore[attr-defined]
        text = self._whole(place, delta)
        if not is_whole(text):
            raise _half(event)
        return event if text == delta else event.model_copy(update={"delta": text})

    def _whole(self, place: _Place, delta: str) -> str:
        """Return what can be handed on of a delta, with what was held back before it."""
        text = delta
        if delta and (first := self.held.pop(place, "")):
            joined = (first + delta).encode("utf-16-le", "surrogatepass")
            text = joined.decode("utf-16-le", "surrogatepass")
        if _FIRST <= text[-1:] <= _LAST:
            self.held[place] = text[-1]
            return text[:-1]
        return text

    def _place(self, place: _Place) -> _Place:
        """Return where the half is held: a chunk that names no id goes on with the same."""
        stream, id_, owner = place
        if id_ is None and place not in self.held:
            same = [held for held in self.held if (held[0], held[2]) == (stream, owner)]
            if len(same) == 1:
                return same[0]
        return place


def is_whole(text: str) -> bool:
    """Whether there is no half of a character in a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _half(event: BaseEvent) -> InvalidStream:
    return InvalidStream(
        f"{event.type.value} comes with half a character (a lone surrogate), and nothing "
        "completes it.",
        rule="malformed-value",
    )
