"""How a model is told what is wrong with a value: where, and what is expected; bounded."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from pydantic import ValidationError

LIMIT: Final = 500
"""How many characters of a text a model is told at most."""
_MOST: Final = 5


def shortened(text: str, limit: int) -> str:
    """Return the text on one line, cut to ``limit`` characters."""
    line = " ".join(text.split())
    line = line if line.isprintable() else ascii(line)[1:-1]
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def path_of(parts: Iterable[object]) -> str:
    """Return the path to a value, as ``filters.0.name``."""
    return ".".join(shortened(str(part), 60) for part in parts) or "(root)"


def listed(faults: Iterable[str]) -> str:
    """Join the first few faults."""
    rest = iter(faults)
    said = list(islice(rest, _MOST))
    more = sum(1 for _ in rest)
    return "; ".join([*said, f"and {more} more"] if more else said)


def explain(error: ValidationError, known: Iterable[str] = ()) -> str:
    """Say what pydantic found; never the input. ``known``: the arguments there are."""
    names = ", ".join(known)
    faults = []
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        said = each["msg"]
        if each["type"] == "extra_forbidden" and len(each["loc"]) == 1:
            said = f"there is no such argument; there are: {names or 'none'}"
        faults.append(f"{path_of(each['loc'])}: {said}")
    return listed(faults)
