"""What a stream says, whatever pieces it says it in; for comparing two of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from interpose.agui import Expander, to_json
from interpose.errors import InvalidStream

_MADE_UP: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{16,64}\b"
)
_LONGEST: Final = 160

Said = dict[str, str]
"""By what it is (``text 1``, ``arguments of call 2``, ``state``): what was said, as text."""


def fold(events: Iterable[BaseEvent]) -> Said:
    """Return what a stream says: each text whole, in the order in which the texts began.

    Ids are not compared, nor what looks like one (a UUID, a long hex number): two runs differ in
    them. Timestamps and metadata are left out: they may count events.
    """
    folding = _Folding()
    for event in expanded(events):
        handle = _HANDLERS.get(type(event))
        if handle is not None:
            handle(folding, event)
    return {name: _MADE_UP.sub("<id>", value) for name, value in folding.said.items()}


def expanded(events: Iterable[BaseEvent]) -> Iterator[BaseEvent]:
    """Yield the events with their chunks expanded; a chunk that nobody can place, as it is."""
    expander = Expander()
    for event in events:
        try:
            yield from expander.push(event)
        except InvalidStream:
            yield event


class _Folding:
    def __init__(self) -> None:
        self.said: Said = {}
        self._lanes: dict[tuple[str, str], tuple[str, str | None]] = {}
        self._counts: dict[str, int] = {}

    def begin(self, kind: str, event: Any) -> str:
        """Return the name of the text that a START begins; the same id goes on with its text."""
        return self._lane(kind, event, begins=True)

    def lane(self, kind: str, event: Any) -> str:
        """Return the name of the text that an event belongs to, as ``text 2 of ada``.

        It belongs to whoever began it, also where the event does not say so.
        """
        return self._lane(kind, event, begins=False)

    def _lane(self, kind: str, event: Any, *, begins: bool) -> str:
        ident = event.tool_call_id if kind == "call" else event.message_id
        owner = getattr(event, "subagent_run_id", None)
        key = (kind, ident)
        known = self._lanes.get(key)
        if known is not None and (not begins or known[1] == owner):
            return known[0]
        of_owner = f" of {owner}" if owner else ""
        number = self._counts[kind + of_owner] = self._counts.get(kind + of_owner, 0) + 1
        self._lanes[key] = (f"{kind} {number}{of_owner}", owner)
        return self._lanes[key][0]

    def put(self, name: str, value: str) -> None:
        """Add to what was said under a name."""
        self.said[name] = self.said.get(name, "") + value


def _begins(kind: str) -> Callable[[_Folding, Any], None]:
    return lambda folding, event: folding.put(folding.begin(kind, event), "")


def _says(kind: str) -> Callable[[_Folding, Any], None]:
    return lambda folding, event: folding.put(folding.lane(kind, event), event.delta)


def _of_call(what: str, attribute: str) -> Callable[[_Folding, Any], None]:
    def handle(folding: _Folding, event: Any) -> None:
        folding.put(f"{what} of {folding.lane('call', event)}", str(getattr(event, attribute)))

    return handle


def _call_begins(folding: _Folding, event: ToolCallStartEvent) -> None:
    folding.put(f"name of {folding.begin('call', event)}", event.tool_call_name)


def _whole(name: str) -> Callable[[_Folding, Any], None]:
    def handle(folding: _Folding, event: BaseEvent) -> None:
        plain = event.model_copy(update={"timestamp": None, "metadata": None})
        folding.put(name, f"{to_json(plain)}\n")

    return handle


def _snapshot(folding: _Folding, event: MessagesSnapshotEvent) -> None:
    contents = [str(getattr(message, "content", "")) for message in event.messages]
    folding.put("snapshot of the messages", json.dumps(contents))


def _finished(folding: _Folding, event: RunFinishedEvent) -> None:
    kind = getattr(event.outcome, "type", "success")
    folding.put("ending", f"finished {kind} {event.result!r}")


def _failed(folding: _Folding, event: RunErrorEvent) -> None:
    folding.put("ending", f"error {event.code}: {event.message}")


_HANDLERS: Final[Mapping[type[BaseEvent], Callable[[_Folding, Any], None]]] = {
    TextMessageStartEvent: _begins("text"),
    TextMessageContentEvent: _says("text"),
    ReasoningMessageStartEvent: _begins("reasoning"),
    ReasoningMessageContentEvent: _says("reasoning"),
    ToolCallStartEvent: _call_begins,
    ToolCallArgsEvent: _of_call("arguments", "delta"),
    ToolCallResultEvent: _of_call("result", "content"),
    MessagesSnapshotEvent: _snapshot,
    StateSnapshotEvent: _whole("state"),
    StateDeltaEvent: _whole("state"),
    ActivitySnapshotEvent: _whole("activities"),
    ActivityDeltaEvent: _whole("activities"),
    CustomEvent: _whole("custom events"),
    RawEvent: _whole("raw events"),
    ReasoningEncryptedValueEvent: _whole("encrypted values"),
    StepStartedEvent: _whole("steps"),
    StepFinishedEvent: _whole("steps"),
    SubagentStartedEvent: _whole("subagents"),
    SubagentFinishedEvent: _whole("subagents"),
    SubagentErrorEvent: _whole("subagents"),
    RunFinishedEvent: _finished,
    RunErrorEvent: _failed,
}


def difference(before: Said, after: Said) -> str:
    """Say the first difference between two streams, or return ``""``."""
    for name in [*before, *(name for name in after if name not in before)]:
        first, second = before.get(name), after.get(name)
        if first == second:
            continue
        if first is None or second is None:
            gone, left = ("first", second) if first is None else ("second", first)
            return f"{name} is missing in the {gone}; the other says {_cut(left or '', 0)}"
        at = next(
            (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
            min(len(first), len(second)),
        )
        return f"{name} is {_cut(first, at)} in the first, and {_cut(second, at)} in the second"
    return ""


def _cut(value: str, at: int) -> str:
    start = max(0, at - _LONGEST // 3)
    shown = value[start : start + _LONGEST]
    return f"{'...' if start else ''}{shown!r}{'...' if start + _LONGEST < len(value) else ''}"
