"""Deltas that go on with a message or a call, which are most of the events of most runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ag_ui.core import (
    BaseEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageStartEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallStartEvent,
)

DELTAS: Final[Mapping[type[BaseEvent], type[BaseEvent]]] = {
    TextMessageStartEvent: TextMessageContentEvent,
    TextMessageContentEvent: TextMessageContentEvent,
    ReasoningMessageStartEvent: ReasoningMessageContentEvent,
    ReasoningMessageContentEvent: ReasoningMessageContentEvent,
    ToolCallStartEvent: ToolCallArgsEvent,
    ToolCallArgsEvent: ToolCallArgsEvent,
}
"""The events after which a message or a call may go on, and the class that it goes on with."""


DELTA_CLASSES: Final[frozenset[Any]] = frozenset(DELTAS.values())
"""The classes of deltas."""


class GoingOn(NamedTuple):
    """A message or a call that goes on: the class and id of its deltas, and what adds one.

    A delta of this class and id is in order, because the one before it was, and changes nothing
    but the text, if it has neither metadata nor an owner. It holds until anything else is handed
    over.
    """

    kind: Any
    is_call: bool
    id: str | None
    add: Callable[[str], object]


NOTHING: Final = GoingOn(None, False, None, str)
