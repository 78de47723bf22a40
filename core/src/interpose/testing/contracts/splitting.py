"""Check of text that is cut: the same result in one piece, in pieces, letter by letter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from ag_ui.core import BaseEvent

from interpose.testing.contracts.cutting import Cut, inside, joined, split, unevenly
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import Said, difference, fold
from interpose.testing.contracts.material import (
    PROSE,
    Case,
    halves,
    names,
    sentences,
    snapshot,
    subagents,
)
from interpose.testing.contracts.playing import Heard, play
from interpose.testing.contracts.recording import all_cases
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import reasoning, text, tool_call

_FEW: Final = 240
"""Characters of the texts beside the first: each is played letter by letter."""


async def text_split(subject: Subject) -> Finding | None:
    """Play each case with every text in one piece, and in pieces of several kinds."""
    for case in await split_cases(subject):
        whole = await play(subject, [joined(case.events)], strict=False)
        for how, cut in _ways(subject):
            other = await play(subject, [cut(case.events)], strict=False)
            if not _differ(whole, other):
                continue
            again = await play(subject, [joined(case.events)], strict=False)
            if difference(fold(whole.events), fold(again.events)):
                break  # not even the same twice: nothing can be said about pieces
            return await _told(subject, case.events, how, cut)
    return None


async def split_cases(subject: Subject) -> Sequence[Case]:
    """Return a text that has everything, and shorter ones for the other places of text."""
    said = sentences(subject)
    # From both ends: the middleware's own words, and the symbols that the prose ends with.
    few = said if len(said) <= _FEW else said[: _FEW // 2] + PROSE[-_FEW // 2 :]
    written = json.dumps({"query": few, "list": [1, True]})
    escaped = r'{"who": "ada\u0040example.com \ud83d\ude00 \"quoted\" \\", "n": 12}'
    name, *_ = names(subject)
    own = [case for case in await all_cases(subject) if case.name == "what the given agent sends"]
    return (
        Case("a text", tuple(text(*halves(said)))),
        Case("a text, and a snapshot of it", snapshot(few)),
        Case("reasoning, then two texts", tuple(_texts(few))),
        Case(
            "arguments of tool calls",
            (
                *tool_call(name, halves(written), result=few),
                *tool_call(name, halves(escaped), tool_call_id="second"),
            ),
        ),
        Case("two subagents at once", subagents(few)),
        *own,
    )


def _texts(few: str) -> Iterator[BaseEvent]:
    yield from reasoning(*halves(few))
    # Ends in the middle of whatever it begins; what follows is another text.
    yield from text(few[: len(few) // 3])
    yield from text(few[len(few) // 3 :], message_id="second")


def _ways(subject: Subject) -> Sequence[tuple[str, Cut]]:
    words = (*subject.words[:20], "ada.lovelace@example.com", "4111 1111 1111 1111")
    return (
        ("in its own pieces", list),
        ("cut inside the words", inside(words)),
        ("cut unevenly", unevenly(1)),
        ("letter by letter", split),
    )


async def _told(
    subject: Subject, events: Sequence[BaseEvent], how: str, cut: Cut
) -> Finding | None:
    """Look for the smallest text that shows it, then for the fewest pieces of that."""

    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        return await _compare(subject, events, cut(events), how)

    async def look_as_it_is(events: Sequence[BaseEvent]) -> Finding | None:
        return await _compare(subject, events, events, "in the pieces below")

    found = await smallest(events, look)
    return found and (await smallest(found.stream, look_as_it_is) or found)


async def _compare(
    subject: Subject, events: Sequence[BaseEvent], pieces: Sequence[BaseEvent], how: str
) -> Finding | None:
    whole = await play(subject, [joined(events)], strict=False)
    other = await play(subject, [pieces], strict=False)
    differs = _differ(whole, other)
    if not differs:
        return None
    return Finding(
        f"with each text in one piece and {how}, it is not the same: {differs}",
        "the same result however the text is cut",
        pieces,
    )


def _differ(whole: Heard, other: Heard) -> str:
    """Say how two runs differ. What ends a run early may end it after more or less of a text."""
    first, second = fold(whole.events), fold(other.events)
    if whole.ended_early and other.ended_early:
        second = {**second, **{name: first[name] for name in _both_begin_alike(first, second)}}
        first = {name: said for name, said in first.items() if name in second}
        second = {name: said for name, said in second.items() if name in first}
    return difference(first, second)


def _both_begin_alike(first: Said, second: Said) -> Iterator[str]:
    for name in first.keys() & second.keys():
        shorter, longer = sorted((first[name], second[name]), key=len)
        if longer.startswith(shorter):
            yield name
