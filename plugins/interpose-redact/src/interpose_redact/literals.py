"""Many literals at once: as an expression, each of them would take its time to compile."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

LITERAL: Final = "literal"
"""The name under which the operator's literals appear."""

MANY: Final = 100
"""From so many on an expression takes noticeable time to compile."""

_HEAD: Final = 4


class Found(NamedTuple):
    """A literal in a text; what is used of a match of an expression."""

    literal: str
    """What the match is as a whole: ``found[0]``."""
    first: int

    def span(self) -> tuple[int, int]:
        """Return where it begins and ends."""
        return self.first, self.first + len(self.literal)


class Literals:
    """Finds the same as an expression of all literals as alternatives, the longest first."""

    __slots__ = ("_all", "_head", "_lengths", "_longest", "_sorted")

    def __init__(self, literals: Iterable[str]) -> None:
        self._all: Final = frozenset(literals)
        self._sorted: Final = sorted(self._all)
        self._longest: Final = max(map(len, self._all))
        self._head: Final = min(_HEAD, *map(len, self._all))
        self._lengths: Final = self._by_head()

    def _by_head(self) -> Mapping[str, tuple[int, ...]]:
        """Return the lengths of literals, the longest first, by how they begin."""
        lengths: dict[str, set[int]] = {}
        for literal in self._all:
            lengths.setdefault(literal[: self._head], set()).add(len(literal))
        return {head: tuple(sorted(found, reverse=True)) for head, found in lengths.items()}

    def search(self, text: str, start: int, end: int, *, timeout: float) -> Found | None:  # noqa: ARG002 - as a pattern's
        """Return the first literal in ``text[start:end]``; it takes no time worth a limit."""
        head, lengths, known = self._head, self._lengths, self._all
        for at in range(start, end - head + 1):
            for length in lengths.get(text[at : at + head], ()):
                if at + length <= end and (literal := text[at : at + length]) in known:
                    return Found(literal, at)
        return None

    def begun(self, text: str, start: int, end: int) -> int:
        """Return where the first literal begins that may go on after ``end``, or ``end``."""
        for at in range(max(start, end - self._longest), end):
            rest = text[at:end]
            if len(rest) >= self._head and rest[: self._head] not in self._lengths:
                continue
            place = bisect_left(self._sorted, rest)
            if place < len(self._sorted) and self._sorted[place].startswith(rest):
                return at
        return end

    def __repr__(self) -> str:
        return f"<{len(self._all)} literals>"
