"""PatternTransform: replace what regular expressions match, across chunks."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from interpose.authoring import S
from interpose.errors import DeadlineExceeded, UsageError
from interpose.text.lanes import Edit, Scan
from interpose.text.transform import TextTransform

if TYPE_CHECKING:
    from interpose.context import LifespanContext

_BEYOND: Final = "\uffff"
"""No character (Unicode noncharacters). A pattern that goes on with it can match at most up to the
end of a text: then, and only then, more text could change what the pattern makes of it."""
_NOT_BEYOND: Final = "\ufffe"
_TOKENS: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?<[=!]|\(|\)|[*+]|\{[0-9]*,[0-9]*\}", re.DOTALL
)
"""An escape, a set of characters, a parenthesis or a quantifier."""
_UNBOUNDED: Final = re.compile(r"[*+]|\{[0-9]*,\}")
_FUZZY: Final = re.compile(r"(?<!\\)\{[^{}]*[eids][^{}]*(?:<|=)[^{}]*\}|(?<!\\)\{[eids]\}")
_REPEATS: Final = re.compile(r"(?<!\\)\{(?:[0-9]*,)?([0-9]+)\}")
_MOST_REPEATS: Final = 10_000
_NOT_FOLLOWED: Final = ("\\G", "\\K", "(?R)", "(?0)")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A named regular expression, compiled twice: to match, and to see what could still match."""

    name: str
    match: Any = field(repr=False)  # a pattern may be made of secrets
    beyond: Any = field(repr=False)

    @classmethod
    def compile(cls, name: str, pattern: str) -> Self:
        r"""Compile ``pattern`` with the ``regex`` package.

        Raises :class:`UsageError`, naming the pattern and not quoting it, if it is invalid,
        matches the empty text, or uses what cannot be followed across chunks: reverse search
        (``(?r)``), ``\G``, ``\K``, recursion into the whole pattern (``(?R)``), and a look-behind
        that may look at any number of characters.
        """
        regex = _regex()
        try:
            match = regex.compile(pattern)
            end = "\n" if match.flags & regex.VERBOSE else ""  # ends a comment
            beyond = regex.compile(f"(?:{pattern}{end}){_BEYOND}")
        except regex.error as error:
            raise UsageError(
                f"the pattern {name!r} is no valid regular expression: {error.msg}"
                + (f" at position {error.pos}" if error.pos is not None else "")
            ) from None
        if match.flags & regex.REVERSE or any(sign in pattern for sign in _NOT_FOLLOWED):
            raise UsageError(
                f"the pattern {name!r} uses (?r), \\G, \\K, (?R) or (?0), which cannot be followed "
                f"across chunks",
                hint="a look-behind does what \\K does",
            )
        if _looks_back_without_bound(pattern):
            raise UsageError(
                f"the pattern {name!r} has a look-behind without a bound, "
                f"but text that has left is soon forgotten",
                hint="replace *, + and {n,} in it by {n,m}",
            )
        if _FUZZY.search(pattern):
            raise UsageError(
                f"the pattern {name!r} allows for errors ({{e<=1}}), and how many there are "
                f"depends on what follows",
                hint="write the variants out",
            )
        if any(int(count) > _MOST_REPEATS for count in _REPEATS.findall(pattern)):
            raise UsageError(
                f"the pattern {name!r} repeats something more than {_MOST_REPEATS} times, and "
                f"would take very long to compile",
                hint="no match may be longer than max_hold anyway",
            )
        if match.match("") is not None:
            raise UsageError(
                f"the pattern {name!r} matches the empty text",
                hint="make at least one character of it mandatory",
            )
        return cls(name, match, beyond)


class PatternSet:
    """Patterns that are looked for together. Immutable: one serves many runs."""

    # Each is searched for by itself: joined by `|` they lose what makes a search for one of them
    # fast (a set of first characters), and take two hundred times as long.
    __slots__ = ("_newline", "patterns")

    def __init__(self, rules: Iterable[tuple[str, str]]) -> None:
        self.patterns: tuple[Pattern, ...] = tuple(Pattern.compile(*rule) for rule in rules)
        self._newline = any("$" in p.match.pattern for p in self.patterns)

    def end(self, text: str, start: int, *, final: bool) -> int:
        """Return up to where ``text`` can be judged.

        ``$`` also matches before a line feed that ends a text, and that is not known yet.
        """
        return max(start, len(text.rstrip("\n") if self._newline and not final else text))

    def undecided(self, text: str, start: int, end: int, timeout: float) -> int:
        """Return where the first match begins that more text could bring about or change."""
        seen = text.replace(_BEYOND, _NOT_BEYOND) if _BEYOND in text else text
        found = (
            p.beyond.search(seen, start, end, partial=True, timeout=timeout) for p in self.patterns
        )
        return min((match.start() for match in found if match), default=end)

    def __repr__(self) -> str:
        return f"<PatternSet {', '.join(pattern.name for pattern in self.patterns)}>"


class PatternTransform(TextTransform[S, PatternSet]):
    r"""Base of a middleware that replaces what patterns match.

    Patterns are in the syntax of the ``regex`` package, which has to be installed: it can tell
    what may still become a match, so that nothing else is held. A match is replaced whole, also
    one that a later chunk makes longer. Each pattern is looked for by itself, from left to right;
    what overlaps is replaced together. Look-behinds see at most ``look_behind`` characters.

    Example::

        class Mask(PatternTransform):
            patterns = (r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",)
            replacement = "[email]"
    """

    patterns: ClassVar[tuple[str, ...]] = ()
    """The patterns, if settings do not matter; else override :meth:`rules`."""
    replacement: str = "[removed]"
    """What replaces a match, if it is always the same; else override :meth:`replace`."""
    timeout: float = 1.0
    """Seconds that one search may take; then the run fails and nothing leaves unseen."""

    @classmethod
    def rules(cls, settings: S, /) -> Sequence[tuple[str, str]]:  # noqa: ARG003 - for overrides
        """Return (name, pattern) pairs; once per layer and distinct settings."""
        return [(f"patterns[{index}]", pattern) for index, pattern in enumerate(cls.patterns)]

    def replace(self, name: str, text: str, /) -> str | None:  # noqa: ARG002 - for overrides
        """Return what replaces ``text``, which the pattern ``name`` matched; None: it is no match.

        After None the search goes on at the next character.
        """
        return self.replacement

    @staticmethod
    def check_pattern(name: str, pattern: str, /) -> None:
        """Raise :class:`UsageError` if ``pattern`` cannot be used; for a settings' validator.

        The message names the pattern by ``name`` and does not quote it.
        """
        Pattern.compile(name, pattern)

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls,
        settings: S,
        ctx: LifespanContext,  # noqa: ARG003 - the hook's signature
        /,
    ) -> AsyncGenerator[PatternSet]:
        """Compile the patterns."""
        yield PatternSet(cls.rules(settings))

    def scan(self, text: str, start: int, final: bool, /) -> Scan:  # noqa: FBT001 - the contract
        """Find all matches that are decided; hold from the first that is not."""
        try:
            return self._find(text, start, final=final)
        except TimeoutError:
            raise DeadlineExceeded(
                f"{type(self).__qualname__}: a pattern searched for longer than {self.timeout:g} s",
                hint="simplify the pattern that backtracks, or raise the timeout",
            ) from None

    def _find(self, text: str, start: int, *, final: bool) -> Scan:
        known, timeout = self.shared, self.timeout
        end = known.end(text, start, final=final)
        before = len(text) if final else known.undecided(text, start, end, timeout)
        edits: list[Edit] = []
        if start == before:  # nothing is let go, so nothing need be found
            return Scan(edits, before)
        for pattern in known.patterns:
            at = start
            while found := pattern.match.search(text, at, end, timeout=timeout):
                first, last = found.span()
                if first >= before:
                    break
                if first == last:  # a look-around alone: there is nothing to replace
                    at = first + 1
                    continue
                replacement = self.replace(pattern.name, found[0])
                at = first + 1 if replacement is None else last
                if replacement is not None:
                    edits.append((first, last, replacement))
        return Scan(edits, before)


def _looks_back_without_bound(pattern: str) -> bool:
    """Tell whether a quantifier without an upper bound stands inside a look-behind."""
    depth, inside = 0, 0
    for token in _TOKENS.finditer(pattern):
        sign = token[0]
        if sign.startswith("("):
            depth += 1
            if sign in {"(?<=", "(?<!"} and not inside:
                inside = depth
        elif sign == ")":
            if depth == inside:
                inside = 0
            depth -= 1
        elif inside and _UNBOUNDED.fullmatch(sign):
            return True
    return False


def _regex() -> Any:
    try:
        return import_module("regex")
    except ImportError:
        raise UsageError(
            "PatternTransform needs the package regex, which is not installed",
            hint="pip install regex, and declare it as a dependency of the plugin",
        ) from None
