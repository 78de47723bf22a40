"""One stream in other pieces, and in the chunk form: what must not change what it says."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    ReasoningMessageChunkEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

Cut = Callable[[Sequence[BaseEvent]], list[BaseEvent]]
"""Makes other pieces of a stream's texts."""

_STARTS: Final = (TextMessageStartEvent, ReasoningMessageStartEvent, ToolCallStartEvent)
_CONTENTS: Final = (TextMessageContentEvent, ReasoningMessageContentEvent, ToolCallArgsEvent)
_ENDS: Final = (TextMessageEndEvent, ReasoningMessageEndEvent, ToolCallEndEvent)
_CHUNKS: Final = (TextMessageChunkEvent, ReasoningMessageChunkEvent, ToolCallChunkEvent)
_LONGEST_PIECE: Final = 12


def joined(events: Sequence[BaseEvent]) -> list[BaseEvent]:
    """Return the stream with every text in one piece, where its last piece was."""
    result: list[BaseEvent] = []
    pieces: dict[tuple[type[BaseEvent], str], int] = {}
    for event in events:
        key = text_of(event)
        if key is None:
            result.append(event)
            continue
        before = pieces.pop(key, None)
        if before is not None:
            earlier = result[before]
            text = f"{earlier.delta}{event.delta}"  # type: ignore[attr-defined]
            del result[before]
            pieces = {each: at - (at > before) for each, at in pieces.items()}
            event = event.model_copy(update={"delta": text})  # noqa: PLW2901 - the longer one
        pieces[key] = len(result)
        result.append(event)
    return result


def split(events: Sequence[BaseEvent], size: int = 1) -> list[BaseEvent]:
    """Return the stream with texts in pieces of ``size`` characters."""
    return _cut(events, lambda text: range(size, len(text), size))


def unevenly(seed: int) -> Cut:
    """Return what cuts each whole text in pieces of 1 to 12 characters, always the same ones."""

    def cut(events: Sequence[BaseEvent]) -> list[BaseEvent]:
        chance = random.Random(seed)  # noqa: S311 - the same pieces each time

        def places(text: str) -> Iterable[int]:
            at = chance.randint(1, _LONGEST_PIECE)
            while at < len(text):
                yield at
                at += chance.randint(1, _LONGEST_PIECE)

        return _cut(joined(events), places)

    return cut


def inside(words: Sequence[str]) -> Cut:
    """Return what cuts each whole text inside every one of the words, and nowhere else."""

    def places(text: str) -> Iterable[int]:
        lower = text.lower()
        found = set[int]()
        for number, word in enumerate(words):
            at = lower.find(word.lower())
            while at >= 0:
                # The middle, behind the first letter, before the last one, by turns.
                ways = (len(word) // 2, 1, len(word) - 1)
                found.add(at + ways[(number + len(found)) % 3])
                at = lower.find(word.lower(), at + 1)
        return sorted(place for place in found if 0 < place < len(text))

    return lambda events: _cut(joined(events), places)


def text_of(event: BaseEvent) -> tuple[type[BaseEvent], str] | None:
    """Return which text an event is a piece of; None if it is none."""
    if not isinstance(getattr(event, "delta", None), str):
        return None
    return (type(event), _ident(event))


def _cut(events: Sequence[BaseEvent], places: Callable[[str], Iterable[int]]) -> list[BaseEvent]:
    result: list[BaseEvent] = []
    for event in events:
        if text_of(event) is None:
            result.append(event)
            continue
        delta: str = event.delta  # type: ignore[attr-defined]
        cuts = [0, *places(delta), len(delta)]
        for begin, end in pairwise(cuts):
            if end > begin or not delta:
                result.append(event.model_copy(update={"delta": delta[begin:end]}))
    return result


def in_chunks(events: Sequence[BaseEvent], *, repeat_ids: bool) -> list[BaseEvent]:
    """Return the stream in the chunk form: one event for START, CONTENT and what END says.

    ``repeat_ids``: each chunk names what it belongs to; else only the first one does.
    """
    result: list[BaseEvent] = []
    opener: dict[tuple[int, str], Any] = {}
    named: dict[tuple[int, str], bool] = {}
    for event in events:
        if isinstance(event, _STARTS):
            key = _key(event, _STARTS)
            opener[key], named[key] = event, False
        elif isinstance(event, _CONTENTS) and _key(event, _CONTENTS) in opener:
            key = _key(event, _CONTENTS)
            first = not named[key]
            result.append(_chunk(key, opener[key], event.delta, whole=first or repeat_ids))
            named[key] = True
        elif isinstance(event, _ENDS) and _key(event, _ENDS) in opener:
            key = _key(event, _ENDS)
            start = opener.pop(key)
            if not named[key]:
                result.append(_chunk(key, start, None, whole=True))
        else:
            result.append(event)
    return result


def _key(event: Any, kinds: tuple[type[BaseEvent], ...]) -> tuple[int, str]:
    number = next(index for index, kind in enumerate(kinds) if isinstance(event, kind))
    return number, _ident(event)


def _ident(event: Any) -> str:
    call: str | None = getattr(event, "tool_call_id", None)
    return str(event.message_id) if call is None else call


def _chunk(key: tuple[int, str], start: Any, delta: str | None, *, whole: bool) -> BaseEvent:
    kind, ident = key
    fields: dict[str, Any] = {"delta": delta, "subagent_run_id": start.subagent_run_id}
    names = ("role", "name") if kind == 0 else ("tool_call_name", "parent_message_id")
    if whole:
        fields["tool_call_id" if kind == 2 else "message_id"] = ident  # noqa: PLR2004 - a call
        if kind != 1:
            fields |= {name: getattr(start, name) for name in names}
    return _CHUNKS[kind](**fields)
