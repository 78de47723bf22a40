"""Taking out of a text what was sent as a secret, in whatever form the other side repeats it."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

MASK: Final = "***"
_SHORT: Final = 4
"""How many characters of a secret tell of it at the end of a text, where an excerpt is cut."""
_TELLING: Final = 8
"""How many characters of its beginning tell of a secret anywhere."""
_LONGEST: Final = 16
"""More characters than any form of one character has."""
_Forms = Sequence[frozenset[str]]


def masked(text: str, values: Iterable[str]) -> str:
    """Return a text without ``values``, their words, and what could forge a line of a log.

    A value is found in any case, with each character as it is or as JSON, URLs and HTML escape
    it, and in base64. So is its beginning: 8 characters, and 4 at the end of the text. Values and
    words of fewer than 4 characters stay.
    """
    folded = "".join(map(_fold, text))
    secrets = {part for value in values for part in (value, *value.split()) if len(part) >= _SHORT}
    secrets |= {encoded for secret in secrets for encoded in _base64(secret)}
    spans = sorted(span for secret in secrets for span in _spans(folded, secret))
    kept: list[str] = []
    done = 0
    for start, end in spans:
        if start >= done:
            kept += (text[done:start], MASK)
        done = max(done, end)
    kept.append(text[done:])
    return "".join(each if each.isprintable() else " " for each in "".join(kept))


def _fold(character: str) -> str:
    lower = character.lower()
    return lower if len(lower) == 1 else character


def _base64(secret: str) -> tuple[str, str]:
    encoded = urlsafe_b64encode(secret.encode(errors="replace")).decode().rstrip("=")
    return encoded, encoded.replace("-", "+").replace("_", "/")


def _spans(text: str, secret: str) -> Iterator[tuple[int, int]]:
    known = {each: _forms(each) for each in set(secret)}
    forms = [known[each] for each in secret]
    first = {form[0] for form in forms[0]}
    for start, character in enumerate(text):
        if character in first:
            end = _end(text, start, forms)
            if end > start:
                yield start, end


def _end(text: str, start: int, secret: _Forms) -> int:
    """Return where a secret ends that begins at ``start``, or enough of it; else ``start``."""
    ends = {start}
    for count, forms in enumerate(secret):
        further = {end + len(form) for end in ends for form in forms if text.startswith(form, end)}
        if not further:
            rests = [text[end : end + _LONGEST] for end in ends]
            if any(form.startswith(rest) for rest in rests for form in forms):
                return len(text) if count >= _SHORT else start  # it was cut
            return max(ends) if count >= _TELLING else start
        ends = further
    return max(ends)


def _forms(character: str) -> frozenset[str]:
    """Return how a character of a secret may be written, folded."""
    code = ord(character)
    in_json = json.dumps(character)[1:-1]
    percent = "".join(f"%{byte:02x}" for byte in character.encode(errors="replace"))
    forms = {character, in_json, percent, f"\\u{code:04x}", f"&#{code};", f"&#x{code:x};"}
    forms |= _OTHER.get(character, frozenset())
    return frozenset("".join(map(_fold, form)) for form in forms)


_OTHER: Final = {
    " ": {"+"},
    "/": {"\\/"},
    "'": {"\\'", "&apos;"},
    '"': {"&quot;", "\\&quot;", "\\&#34;"},
    "&": {"&amp;"},
    "<": {"&lt;"},
    ">": {"&gt;"},
}
