r"""Text inside JSON: the arguments of a tool call as they stream in, and values that are whole.

In JSON text each string is a text of its own, looked at as what it *means*: a value that is
written with escapes (``\u0040`` for ``@``), even one cut in the middle of an escape, is found.
What is not edited leaves exactly as it was written.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from interpose.agui.foreign import as_json
from interpose.text.lanes import Holding, Incremental, Lane, Piece, TextLane, Work, whole

_SIMPLE: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_LITERALS: Final = frozenset({"true", "false", "null"})
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WHOLE_NUMBER: Final = re.compile(r"-?([0-9]+)")
_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_LOW: Final = re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_LOW_BEGINS: Final = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?")
_BETWEEN: Final = re.compile(r"[\s{}\[\]:,]+")
_BARE: Final = re.compile(r'[^\s{}\[\]:,"]+')
_PLAIN: Final = re.compile(r'[^"\\]+')
_ESCAPE_LENGTH: Final = 6
_MOST_BITS: Final = 10_000
"""Integers with more are not written out: Python refuses, and nobody's number is that long."""


def escape_at(text: str, at: int, *, final: bool) -> tuple[str, int] | None:
    r"""Read the escape that begins at ``text[at]``: what it means, and its length as written.

    None: more text is needed. A pair of surrogate escapes is one character. What is no escape
    (``\x``) stands for its backslash, so that nothing is lost of a text that is not JSON.
    """
    if at + 1 == len(text):
        return ("\\", 1) if final else None
    kind = text[at + 1]
    if kind != "u":
        return (_SIMPLE[kind], 2) if kind in _SIMPLE else ("\\", 1)
    end = at + _ESCAPE_LENGTH
    digits = text[at + 2 : end]
    if len(digits) < _ESCAPE_LENGTH - 2 or not _HEX.fullmatch(digits):
        incomplete = end > len(text) and _HEX.fullmatch(digits) is not None
        return None if incomplete and not final else ("\\", 1)
    code = int(digits, 16)
    if 0xD800 <= code < 0xDC00:  # noqa: PLR2004 - high surrogates
        follows = text[end : end + _ESCAPE_LENGTH]
        if _LOW.fullmatch(follows):
            low = int(follows.removeprefix("\\u"), base=16)
            return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), 2 * _ESCAPE_LENGTH
        if not final and len(follows) < _ESCAPE_LENGTH and _LOW_BEGINS.fullmatch(follows):
            return None
    return chr(code), _ESCAPE_LENGTH


class JsonLane:
    """JSON text that arrives in pieces, such as the arguments of a tool call.

    Strings, keys included, are texts. A number leaves as it is, but a whole one of at least
    ``number_digits`` digits is a text; one that is edited leaves as a string, for it is no number
    any more. What stands bare and is neither number nor literal is a text, too. Text that does not
    begin like JSON is one plain text.
    """

    __slots__ = ("_bare", "_chosen", "_holding", "_pending", "_raw", "_string")

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._chosen: TextLane | None = None
        self._string: Lane | None = None
        self._pending = ""
        """The beginning of an escape."""
        self._raw: list[str] = []
        """How each character that the string's lane holds is written."""
        self._bare: str | None = None
        """A number, a literal or junk, which is whole when something else follows."""

    def feed(self, text: str) -> Work[str]:
        """Take more JSON text; return what is decided."""
        if self._chosen is not None:
            return (yield from self._chosen.feed(text))
        out: list[str] = []
        at = 0
        if self._bare is None:  # nothing but white space so far
            at = len(text) - len(text.lstrip())
            out.append(text[:at])
            if at == len(text):
                return text
            if text[at] not in '{["':
                self._chosen = TextLane(self._holding)
                return text[:at] + (yield from self._chosen.feed(text[at:]))
            self._bare = ""
        yield from self._tokens(self._pending + text[at:], out, final=False)
        return "".join(out)

    def finish(self) -> Work[str]:
        """Nothing follows: return the rest."""
        if self._chosen is not None:
            return (yield from self._chosen.finish())
        out: list[str] = []
        yield from self._tokens(self._pending, out, final=True)
        if self._string is not None:
            self._write((yield from self._string.finish()), out)
        yield from self._end_bare(out)
        return "".join(out)

    def _tokens(self, text: str, out: list[str], *, final: bool) -> Work[None]:
        self._pending = ""
        at = 0
        while at < len(text):
            if self._string is not None:
                at = yield from self._in_string(text, at, out, final=final)
            elif text[at] == '"':
                yield from self._end_bare(out)
                out.append('"')
                self._string = Lane(self._holding)
                at += 1
            elif between := _BETWEEN.match(text, at):
                yield from self._end_bare(out)
                out.append(between[0])
                at = between.end()
            elif bare := _BARE.match(text, at):
                # One character more than may be held is enough to know that it is too long.
                room = self._holding.max_hold + 1 - len(self._bare or "")
                self._bare = (self._bare or "") + bare[0][: max(0, room)]
                at = bare.end()

    def _in_string(self, text: str, at: int, out: list[str], *, final: bool) -> Work[int]:
        """Take the next part of a string: text and escapes up to its end; return where that is."""
        string = self._string
        if string is None:
            return at
        meaning: list[str] = []
        while at < len(text) and text[at] != '"':
            if plain := _PLAIN.match(text, at):
                meaning.append(plain[0])
                self._raw.extend(plain[0])
                at = plain.end()
                continue
            escape = escape_at(text, at, final=final)
            if escape is None:
                self._pending = text[at:]
                at = len(text)
                break
            meaning.append(escape[0])
            self._raw.append(text[at : at + escape[1]])
            at += escape[1]
        if meaning:
            self._write((yield from string.feed("".join(meaning))), out)
        if at < len(text):
            self._write((yield from string.finish()), out)
            out.append('"')
            self._string = None
            at += 1
        return at

    def _write(self, pieces: list[Piece], out: list[str]) -> None:
        for original, replacement in pieces:
            length = len(original)
            if replacement is None:
                out.extend(self._raw[:length])
            else:
                out.append(_quoted(replacement)[1:-1])
            del self._raw[:length]

    def _end_bare(self, out: list[str]) -> Work[None]:
        token, self._bare = self._bare or "", ""
        if not token or token in _LITERALS:
            out.append(token)
            return
        if len(token) > self._holding.max_hold:
            self._holding.overflows += 1
            out.append(_quoted(self._holding.too_long))
            return
        if _NUMBER.fullmatch(token) and not is_long_number(self._holding, token):
            out.append(token)
            return
        edited = yield from whole(self._holding, token)
        out.append(token if edited == token else _quoted(edited))


def _quoted(text: str) -> str:
    """Write a JSON string as people read it; half of a surrogate pair can only be escaped."""
    return json.dumps(text, ensure_ascii=any("\ud800" <= letter <= "\udfff" for letter in text))


def is_long_number(holding: Holding, written: str) -> bool:
    """Tell whether a number is a text: a whole one with enough digits."""
    digits = _WHOLE_NUMBER.fullmatch(written)
    return (
        holding.number_digits is not None
        and digits is not None
        and len(digits[1]) >= holding.number_digits
    )


def json_or_text(holding: Holding, text: str) -> Work[str]:
    """Transform a text that may be JSON (a tool's result): as JSON, but for bare words."""
    if text.lstrip()[:1] in {"{", "[", '"'}:
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return (yield from run_through(JsonLane(holding), text))
    return (yield from whole(holding, text))


def run_through(lane: Incremental, text: str) -> Work[str]:
    """Feed ``text`` to a new lane and finish it."""
    first = yield from lane.feed(text)
    result = first + (yield from lane.finish())
    return text if result == text else result


def json_value(holding: Holding, value: Any) -> Work[Any]:
    """Transform the strings and long numbers of a JSON value, as :class:`JsonLane`; keys stay.

    Returns ``value`` itself if nothing in it changed; it is never changed in place.
    """
    if isinstance(value, str):
        return (yield from whole(holding, value))
    if isinstance(value, dict):
        changed = {}
        for key, item in value.items():
            new = yield from json_value(holding, item)
            if new is not item:
                changed[key] = new
        return {**value, **changed} if changed else value
    if isinstance(value, list | tuple):
        items = []
        for item in value:
            items.append((yield from json_value(holding, item)))  # noqa: PERF401 - yields
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else items
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < _MOST_BITS:
        written = str(value)
        if is_long_number(holding, written):
            edited = yield from whole(holding, written)
            return value if edited == written else edited
        return value
    written_out = as_json(value)  # an object, as code may put it into a state
    return value if written_out is value else (yield from json_value(holding, written_out))
