"""Which entities may be in a text: most texts need no search for any of them."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any, Final, NamedTuple

import regex  # type: ignore[import-untyped]

from interpose_redact.entities import ENDS, ENTITIES, HEADS, SIGNS, Entity
from interpose_redact.literals import LITERAL, Literals

_NONE: Final[frozenset[Entity]] = frozenset()
_SIGNS: Final[Any] = regex.compile(SIGNS)
_LONGEST_END: Final = 64


class Beginnings:
    """The heads of some entities. They need no time limit: they are short, and hardly backtrack."""

    __slots__ = ("_ends", "_heads")

    def __init__(self, entities: frozenset[Entity]) -> None:
        names = [entity for entity in ENTITIES if entity in entities]
        self._heads: Final = [(name, [_compiled(head) for head in HEADS[name]]) for name in names]
        ends = "|".join(ENDS[name] for name in names if name in ENDS)
        # Only an address begins with all the letters that the others may begin with.
        self._ends: Final = _compiled(rf"(?:{ends})\Z") if "email" in entities else None

    def find(
        self, text: str, start: int, end: int, *, final: bool
    ) -> tuple[frozenset[Entity], int]:
        """Return the entities that may be in ``text[start:end]``, and a place.

        What begins before the place is none of the other entities, whatever follows. ``final``:
        nothing follows.
        """
        if final:
            return self._complete(text, start, end), end
        if self._ends is not None and _SIGNS.search(text, start, end) is None:
            begun = self._ends.search(text, max(start, end - _LONGEST_END), end)
            return _NONE, begun.start() if begun else end
        present, before = set(), end
        for name, heads in self._heads:
            for head in heads:
                found = head.search(text, start, end, partial=True)
                if found is None:
                    continue
                if found.partial:
                    before = min(before, found.start())
                else:
                    present.add(name)
                    break
        return frozenset(present), before

    def _complete(self, text: str, start: int, end: int) -> frozenset[Entity]:
        if _SIGNS.search(text, start, end) is None:
            return _NONE
        return frozenset(
            name
            for name, heads in self._heads
            if any(head.search(text, start, end) for head in heads)
        )


class Named(NamedTuple):
    """What is looked for, as the base has its patterns."""

    name: str
    match: Literals


class Chosen:
    """What a scan looks for, as the base asks its patterns: those that may be there."""

    __slots__ = ("_some", "before", "patterns")

    def __init__(self, every: Any, present: frozenset[Entity], many: Literals | None) -> None:
        absent = frozenset(ENTITIES) - present
        self._some = copy(every)
        self._some.patterns = tuple(each for each in every.patterns if each.name not in absent)
        literals = () if many is None else (Named(LITERAL, many),)
        self.patterns: Final = (*literals, *self._some.patterns)
        self.before = 0
        """Where that begins which is not among the patterns and may still become something."""

    def end(self, text: str, start: int, *, final: bool) -> int:
        """Return up to where the text can be judged."""
        end: int = self._some.end(text, start, final=final)
        return end

    def undecided(self, text: str, start: int, end: int, timeout: float) -> int:
        """Return where the first match begins that more text could bring about or change."""
        begins: int = self._some.undecided(text, start, end, timeout)
        return min(self.before, begins)


@cache
def beginnings(entities: frozenset[Entity]) -> Beginnings:
    """Return the beginnings of these entities; compiled once."""
    return Beginnings(entities)


def _compiled(pattern: str) -> Any:
    return regex.compile(pattern)
