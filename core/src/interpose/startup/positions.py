"""Where each key of a TOML text stands: the lines and columns that ``tomllib`` does not tell.

:func:`scan` walks a text that ``tomllib`` has accepted, so it never judges the text, it only keeps
count. A text it cannot follow yields no positions, and places then name the file alone.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from interpose.startup.tree import KeyPath

_BLANK = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_QUOTED_KEY = re.compile(r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'")
_STRING = re.compile(
    r'"""(?:\\[\s\S]|[^\\])*?""""{0,2}'
    r"|'''[\s\S]*?''''{0,2}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
)
_PLAIN = re.compile(r"[^,\]}#\n]+")


@dataclass(frozen=True, slots=True)
class Positions:
    """Line and column (both from 1) of every key, table and list item of one text."""

    known: Mapping[KeyPath, tuple[int, int]]

    def line(self, path: KeyPath) -> int | None:
        """Return the line of ``path``, or of the nearest table around it that has one."""
        for length in range(len(path), 0, -1):
            place = self.known.get(path[:length])
            if place is not None:
                return place[0]
        return None


def scan(text: str) -> Positions:
    """Find the position of everything in ``text``, which must be valid TOML."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    try:
        scanner.document()
    except _LostError:
        return Positions({})
    return Positions(scanner.known)


class _LostError(Exception):
    """The scanner met something that it does not understand."""


class _Scanner:
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.known: dict[KeyPath, tuple[int, int]] = {}
        self.lengths: dict[KeyPath, int] = {}  # of arrays of tables, by path
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def document(self) -> None:
        table: KeyPath = ()
        self.skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip(_BLANK)

    def header(self) -> KeyPath:
        start = self.at
        is_array = self.text.startswith("[[", start)
        self.at += 2 if is_array else 1
        *parents, (last, _) = self.dotted_key()
        self.expect("]]" if is_array else "]")
        path: KeyPath = ()
        for key, _ in parents:
            path = self.newest((*path, key))
            self.known.setdefault(path, self.place(start))
        path = (*path, last)
        if is_array:
            self.known.setdefault(path, self.place(start))
            index = self.lengths.get(path, 0)
            self.lengths[path] = index + 1
            path = (*path, index)
        # A table may have been implied by an earlier [a.b]; its own header is the better place.
        self.known[path] = self.place(start)
        return path

    def newest(self, path: KeyPath) -> KeyPath:
        """Return ``path``, or its last item when it is an array of tables."""
        length = self.lengths.get(path)
        return path if length is None else (*path, length - 1)

    def pair(self, table: KeyPath) -> None:
        path = table
        for key, start in self.dotted_key():
            path = (*path, key)
            self.known.setdefault(path, self.place(start))
        self.expect("=")
        self.skip(_SPACE)
        self.value(path)

    def dotted_key(self) -> list[tuple[str, int]]:
        keys = []
        while True:
            self.skip(_SPACE)
            start = self.at
            bare = _BARE_KEY.match(self.text, start)
            if bare is not None:
                self.at = bare.end()
                keys.append((bare.group(), start))
            else:
                quoted = self.take(_QUOTED_KEY)
                keys.append((tomllib.loads(f"key = {quoted}")["key"], start))
            self.skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return keys
            self.at += 1

    def value(self, path: KeyPath) -> None:
        match self.text[self.at : self.at + 1]:
            case "[":
                self.array(path)
            case "{":
                self.inline_table(path)
            case '"' | "'":
                self.take(_STRING)
            case _:
                self.take(_PLAIN)

    def array(self, path: KeyPath) -> None:
        self.expect("[")
        index = 0
        while True:
            self.skip(_BLANK)
            if self.text.startswith("]", self.at):
                self.at += 1
                return
            item = (*path, index)
            self.known[item] = self.place(self.at)
            self.value(item)
            index += 1
            self.skip(_BLANK)
            if self.text.startswith(",", self.at):
                self.at += 1

    def inline_table(self, path: KeyPath) -> None:
        self.expect("{")
        while True:
            self.skip(_BLANK)
            if self.text.startswith("}", self.at):
                self.at += 1
                return
            self.pair(path)
            self.skip(_BLANK)
            if self.text.startswith(",", self.at):
                self.at += 1

    def place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _LostError
        self.at = match.end()
        return match.group()

    def expect(self, mark: str) -> None:
        if not self.text.startswith(mark, self.at):
            raise _LostError
        self.at += len(mark)
