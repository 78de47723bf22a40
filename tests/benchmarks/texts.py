"""Texts as models write them, cut into tokens; made up, and the same in every run."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Final

_SEED: Final = 20261130
_WORDS: Final = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "his",
    "but",
    "at",
    "are",
    "this",
    "have",
    "from",
    "or",
    "had",
    "an",
    "they",
    "which",
    "one",
    "you",
    "were",
    "her",
    "all",
    "she",
    "there",
    "would",
    "their",
    "we",
    "him",
    "been",
    "has",
    "when",
    "who",
    "will",
    "more",
    "no",
    "if",
    "out",
    "so",
    "said",
    "what",
    "up",
    "its",
    "about",
    "into",
    "than",
    "them",
    "can",
    "only",
    "other",
    "new",
    "some",
    "could",
    "time",
    "these",
    "two",
    "may",
    "then",
    "do",
    "first",
    "any",
    "my",
    "now",
    "such",
    "like",
    "our",
    "over",
    "man",
    "me",
    "even",
    "most",
    "made",
    "after",
    "also",
    "customer",
    "ordered",
    "delivery",
    "yesterday",
    "invoice",
    "account",
    "support",
    "please",
    "confirm",
    "address",
    "payment",
    "shipping",
    "warehouse",
    "request",
    "response",
    "available",
    "tomorrow",
    "question",
    "understand",
    "information",
    "beginning",
    "between",
    "important",
    "different",
    "following",
    "children",
    "sentence",
    "together",
    "mountains",
]
_MARKS: Final = (".", ",", ",", ";", ":", "?", " -")
_VALUES: Final = (
    "ada.lovelace@example.com",
    "4111 1111 1111 1111",
    "10.20.30.40",
    "j.smith+news@mail.example.org",
    "5500-0055-5555-5559",
    "192.168.17.4",
)
_VALUE_EVERY: Final = 60
"""Words."""
_NUMBER_EVERY: Final = 25
_TOKEN: Final = 5
"""Characters of a token, at most, without the space before it."""
UNIT: Final = 10_000
"""Characters of what longer texts repeat."""


@cache
def unit(*, values: bool = True) -> tuple[str, ...]:
    """Return the tokens of a text of :data:`UNIT` characters, with a value now and then.

    Every value has a space before and a full stop after it, so that all redactors see its ends.
    """
    random = Random(_SEED)  # noqa: S311 - made-up texts
    pieces, length, number = [], 0, 0
    while length < UNIT:
        number += 1
        if values and number % _VALUE_EVERY == 0:
            word = f"{_VALUES[(number // _VALUE_EVERY - 1) % len(_VALUES)]}."
        elif number % _NUMBER_EVERY == 0:
            word = str(random.randrange(2, 2030))
        else:
            word = random.choice(_WORDS) + (random.choice(_MARKS) if random.random() < 0.15 else "")
        tokens = _tokens(f" {word}")
        pieces += tokens
        length += sum(map(len, tokens))
    pieces[-1] = pieces[-1][: len(pieces[-1]) - (length - UNIT)] or "."
    return tuple(pieces)


def tokens(characters: int, *, values: bool = True) -> list[str]:
    """Return a text of about so many characters, as tokens; the same objects again and again."""
    pieces = unit(values=values)
    if characters >= UNIT:
        return list(pieces) * (characters // UNIT)
    found, length = [], 0
    for piece in pieces:
        found.append(piece)
        length += len(piece)
        if length >= characters:
            break
    return found


def _tokens(word: str) -> list[str]:
    """Cut a word, with the space before it: a model's tokens have four or five characters."""
    first = word[: _TOKEN + 1]
    rest = word[_TOKEN + 1 :]
    return [first, *(rest[at : at + _TOKEN] for at in range(0, len(rest), _TOKEN))]


def literals(count: int) -> list[str]:
    """Return made-up secrets, of which none is in the texts."""
    random = Random(_SEED)  # noqa: S311 - made-up secrets
    signs = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    return ["pw" + "".join(random.choices(signs, k=random.randrange(8, 20))) for _ in range(count)]


def result(objects: int) -> str:
    """Return what a tool returned: JSON of so many objects, a value in one of ten."""
    random = Random(_SEED)  # noqa: S311 - made-up customers
    words = [" ".join(random.choices(_WORDS, k=4)) for _ in range(50)]
    rows = [
        {
            "id": number,
            "name": words[number % len(words)],
            "status": "active" if number % 3 else "closed",
            "contact": _VALUES[number // 10 % 2] if number % 10 == 0 else "none",
            "amount": number * 1.5,
            "created": f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}T08:15:00Z",
        }
        for number in range(objects)
    ]
    return json.dumps(rows)
