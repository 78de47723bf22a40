"""Check that nothing is shown and taken back: consumers have read it by then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    MessagesSnapshotEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
)

from interpose.testing.contracts.cutting import split
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import expanded
from interpose.testing.contracts.material import calls, halves, sentences, snapshot
from interpose.testing.contracts.playing import Heard, play
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules.stream_rules import no_stream
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import reasoning, text, tool_call
from interpose.text import TextTransform

_ALIKE: Final = 0.8
"""How much of a second message repeats a first one that it is to replace."""
_EXPECTED: Final = "what may still change, or not be shown at all, is held until that is known"


async def no_retraction(subject: Subject) -> Finding | None:
    """Look for an early end after too much, and for what later events take back."""

    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        heard = await play(subject, [events], strict=False)
        if heard.ended_early:
            return None
        taken_back = next(_taken_back(events, heard, subject.words), "")
        return Finding(taken_back, _EXPECTED) if taken_back else None

    said = sentences(subject)
    for events in (*told_twice(subject), (*text(*halves(said)), *calls(subject))):
        finding = await smallest(events, look)
        if finding is not None:
            return finding
    return await _shows_what_it_guards(subject)


def _taken_back(sent: Sequence[BaseEvent], heard: Heard, own: Sequence[str] = ()) -> Iterator[str]:
    left = list(expanded(heard.events))
    yield from _begun_again(sent, left)
    yield from _said_again(sent, left, own)
    yield from _broken_off(sent, left)
    yield from _contradicted(sent, left)


def _begun_again(sent: Sequence[BaseEvent], left: Sequence[BaseEvent]) -> Iterator[str]:
    came, went = _starts(sent), _starts(left)
    for ident, number in went.items():
        if ident in came and number > came[ident]:
            yield (
                f"it began the message {ident!r} again, so that consumers add the second text to "
                f"the first one"
            )


def _starts(events: Sequence[BaseEvent]) -> Counter[str]:
    return Counter(e.message_id for e in events if isinstance(e, TextMessageStartEvent))


def _said_again(
    sent: Sequence[BaseEvent], left: Sequence[BaseEvent], own: Sequence[str]
) -> Iterator[str]:
    came, went = texts(sent), texts(left)
    for ident, new in went.items():
        if any(word in new and len(word) > _ALIKE * len(new) for word in own):
            continue  # a text of the settings, which the stream of the kit said, too
        for other, old in went.items():
            if ident in came or other not in came or not old.strip():
                continue
            if SequenceMatcher(None, old, new, autojunk=False).ratio() > _ALIKE:
                yield (
                    f"it sent {new!r} after {old!r} had been shown: both stand there, and "
                    f"nothing says that one replaces the other"
                )


def texts(events: Sequence[BaseEvent]) -> dict[str, str]:
    """Return the text of each message."""
    found: dict[str, str] = {}
    for event in events:
        if isinstance(event, TextMessageStartEvent):
            found.setdefault(event.message_id, "")
        elif isinstance(event, TextMessageContentEvent):
            found[event.message_id] = found.get(event.message_id, "") + event.delta
    return found


def _broken_off(sent: Sequence[BaseEvent], left: Sequence[BaseEvent]) -> Iterator[str]:
    came, went = _arguments(sent), _arguments(left)
    ended = {event.tool_call_id for event in left if isinstance(event, ToolCallEndEvent)}
    for call in ended & came.keys():
        if _is_json(came[call]) and not _is_json(went.get(call, "")):
            yield (
                f"it showed a call, and then kept back its arguments: {came[call]!r} left as "
                f"{went.get(call, '')!r}"
            )


def _arguments(events: Sequence[BaseEvent]) -> dict[str, str]:
    found: dict[str, str] = {}
    for event in events:
        if isinstance(event, ToolCallArgsEvent):
            found[event.tool_call_id] = found.get(event.tool_call_id, "") + event.delta
    return found


def _is_json(written: str) -> bool:
    try:
        json.loads(written)
    except ValueError:
        return False
    return True


def _contradicted(sent: Sequence[BaseEvent], left: Sequence[BaseEvent]) -> Iterator[str]:
    """Yield what a snapshot of the messages takes back, where it has been changed."""
    came, went, shown = snapshot_texts(sent), snapshot_texts(left), texts(left)
    written = texts(sent)
    for ident, said in went.items():
        same = came.get(ident) == written.get(ident)  # the agent itself is of one mind
        changed = same and said != came[ident] and ident in shown
        if changed and plain(said) != plain(shown[ident]):
            yield (
                f"{shown[ident]!r} had been shown when the snapshot of the messages said "
                f"{said!r} in its place"
            )


def snapshot_texts(events: Sequence[BaseEvent]) -> dict[str, str]:
    """Return the text of each message that the last snapshot of the messages holds."""
    for event in reversed(events):
        if isinstance(event, MessagesSnapshotEvent):
            contents = ((m.id, m.content) for m in event.messages)
            return {ident: said for ident, said in contents if isinstance(said, str)}
    return {}


def plain(text: str) -> str:
    """Return what a text says, whatever capitals, spaces and points it is written with."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def told_twice(subject: Subject) -> Iterator[Sequence[BaseEvent]]:
    """Yield messages and a snapshot that says the same; short ones first."""
    for said in (*subject.words[:5], "ada@example.com", "4111 1111 1111 1111"):
        yield snapshot(f"{said}.")
    yield snapshot(sentences(subject))


Make = Callable[..., list[BaseEvent]]


async def _shows_what_it_guards(subject: Subject) -> Finding | None:
    if issubclass(subject.cls, TextTransform):
        return None  # what is shown does not depend on what follows, by construction
    ways: Sequence[Make] = (text, reasoning, _call)
    for make in ways:
        trigger = await _trigger(subject, make, sentences(subject))
        finding = await _shown_before(subject, make, trigger) if trigger else None
        if finding is not None:
            return finding
    return None


def _call(*pieces: str) -> list[BaseEvent]:
    return tool_call("lookup_order", pieces)


async def _trigger(subject: Subject, make: Make, said: str) -> str:
    """Return the shortest text for which it ends the run; ``""`` if it is not for the text."""

    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        heard = await play(subject, [events], strict=False)
        return Finding("", "") if heard.ended_early and heard.inputs else None

    if not await look(make(said)) or await look(make("x" * len(said))):
        return ""
    found = await smallest(make(said), look)
    return "" if found is None else _said(found.stream)


async def _shown_before(subject: Subject, make: Make, trigger: str) -> Finding | None:
    pieces = split(make(trigger))
    heard = await play(subject, [pieces], strict=False)
    shown = _said(heard.events)
    if not shown.strip() or not trigger.startswith(shown):
        return None
    return Finding(
        f"it ended the run because of {trigger!r}, and had shown {shown!r} by then",
        _EXPECTED,
        pieces,
    )


def _said(events: Sequence[BaseEvent]) -> str:
    deltas: Iterator[Any] = (getattr(event, "delta", None) for event in events)
    return "".join(delta for delta in deltas if isinstance(delta, str))


RULES: Final = (
    Rule(
        "no-retraction",
        "What has left has been read, stored or acted upon. AG-UI has no event that takes it back.",
        no_retraction,
        no_stream,
    ),
)
