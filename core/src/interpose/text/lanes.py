"""How text that arrives in pieces is looked at: what leaves, what is held, what is replaced.

Everything here is a generator that *asks* for a scan (it yields a :data:`Question` and is sent a
:class:`Scan`), so that one piece of code serves transforms whose ``scan`` is sync and async.

The result does not depend on how the text was cut into pieces because a scan is only believed as
far as ``keep_from``, the next one starts there with the same amount of context whatever the
pieces were, and none sees more than ``max_hold + 1`` characters that have not left.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Edit: TypeAlias = tuple[int, int, str]
"""``(start, end, replacement)``: the characters ``text[start:end]`` leave as ``replacement``."""

Question: TypeAlias = tuple[str, int, bool]
"""The arguments of ``scan``: ``text``, ``start`` and ``final``."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What ``TextTransform.scan`` found.

    ``edits``: ``(start, end, replacement)`` in ``text[start:]``; they may overlap and nest: what
    overlaps becomes one edit with the replacement of the longest. ``keep_from``: what a later
    chunk could still change begins here and is held; ``len(text)`` holds nothing.
    """

    edits: Sequence[Edit]
    keep_from: int


Work: TypeAlias = Generator[Question, Scan, T]
"""A piece of work that asks for scans and returns a ``T``."""


class Piece(NamedTuple):
    """A run of characters that has been decided."""

    original: str
    replacement: str | None
    """What leaves instead; None: the original."""

    @property
    def text(self) -> str:
        """What leaves."""
        return self.original if self.replacement is None else self.replacement


@dataclass(slots=True)
class Holding:
    """How much one transform holds, and how often that was not enough.

    ``max_hold``, ``look_behind``: characters. ``too_long`` replaces a candidate that is longer
    than ``max_hold``. ``overflows`` counts those. ``number_digits``: how many digits make a whole
    number in JSON a text; None: none is.
    """

    max_hold: int
    look_behind: int
    too_long: str
    number_digits: int | None = None
    overflows: int = 0


class Incremental(Protocol):
    """Takes text in pieces and returns what may leave."""

    def feed(self, text: str) -> Work[str]:
        """Take more text; return what is decided."""

    def finish(self) -> Work[str]:
        """Nothing follows: return the rest."""


class Lane:
    """One text, such as a message or a string of a tool call's arguments."""

    __slots__ = ("_closed", "_holding", "_start", "_text")

    _NOTHING: Final = ""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._text = ""
        """Context that has left, then what is held."""
        self._start = 0
        """Where the held characters begin."""
        self._closed = False
        """A candidate was too long: the rest of the text belongs to it, for all one can know."""

    def feed(self, text: str) -> Work[list[Piece]]:
        """Take more text; return the pieces that are decided."""
        pieces: list[Piece] = []
        limit = self._holding.max_hold + 1
        at = 0
        while at < len(text) and not self._closed:
            room = limit - (len(self._text) - self._start)
            self._text += text[at : at + room]
            at += room
            yield from self._scan(pieces, final=False)
            if len(self._text) - self._start == limit:
                pieces.append(Piece(self._text[self._start :], self._holding.too_long))
                self._close()
        if at < len(text):
            pieces.append(Piece(text[at:], self._NOTHING))
        return pieces

    def finish(self) -> Work[list[Piece]]:
        """Nothing follows: return the rest as pieces."""
        pieces: list[Piece] = []
        if not self._closed:
            yield from self._scan(pieces, final=True)
        return pieces

    def whole(self, text: str) -> Work[list[Piece]]:
        """Take a text that is all there: as ``feed`` and ``finish``."""
        if len(text) <= self._holding.max_hold:
            self._text = text
            return (yield from self.finish())
        pieces = yield from self.feed(text)
        return pieces + (yield from self.finish())

    def _close(self) -> None:
        self._holding.overflows += 1
        self._closed = True
        self._text = ""
        self._start = 0

    def _scan(self, pieces: list[Piece], *, final: bool) -> Work[None]:
        text, start = self._text, self._start
        scan = yield text, start, final
        keep = len(text) if final else scan.keep_from
        at = start
        for first, last, replacement in merged(scan.edits):
            if first >= keep and not final:
                break
            if last > keep:  # the rest of this edit is not decided, so none of it is
                keep = first
                break
            if first > at:
                pieces.append(Piece(text[at:first], None))
            pieces.append(Piece(text[first:last], replacement))
            at = last
        if keep > at:
            pieces.append(Piece(text[at:keep], None))
        context = max(0, keep - self._holding.look_behind)
        self._text = text[context:]
        self._start = keep - context


class TextLane:
    """A :class:`Lane` of plain text."""

    __slots__ = ("_lane",)

    def __init__(self, holding: Holding) -> None:
        self._lane = Lane(holding)

    def feed(self, text: str) -> Work[str]:
        """Take more text; return what is decided."""
        return joined((yield from self._lane.feed(text)))

    def finish(self) -> Work[str]:
        """Nothing follows: return the rest."""
        return joined((yield from self._lane.finish()))


def whole(holding: Holding, text: str) -> Work[str]:
    """Transform a text that is all there; ``text`` itself if nothing in it changed."""
    if not text:
        return text
    result = joined((yield from Lane(holding).whole(text)))
    return text if result == text else result


def joined(pieces: Sequence[Piece]) -> str:
    """Return what leaves for these pieces."""
    return "".join(piece.text for piece in pieces)


def merged(edits: Sequence[Edit]) -> Iterator[Edit]:
    """Yield edits in order; those that overlap become one, with the longest's replacement.

    Edits that only touch stay apart. Of equally long ones the first counts.
    """
    if len(edits) < 2:  # noqa: PLR2004 - nothing to merge
        yield from edits
        return
    start = end = -1
    best: Edit | None = None
    for edit in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if best is not None and edit[0] < end:
            end = max(end, edit[1])
            if edit[1] - edit[0] > best[1] - best[0]:
                best = edit
            continue
        if best is not None:
            yield start, end, best[2]
        start, end, _ = best = edit
    if best is not None:
        yield start, end, best[2]
