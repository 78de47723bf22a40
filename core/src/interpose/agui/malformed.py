"""Say where data is malformed and why, without ever repeating a value."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from interpose.agui.shapes import join

_ELEMENT: Final = re.compile(r"(.*)\[(\d+)\]", re.DOTALL)
_BELOW: Final = re.compile(r"[.\[]")
_QUOTING: Final = {
    # These messages quote the input, or come from a validator that may.
    "union_tag_invalid": "Unknown kind",
    "union_tag_not_found": "The kind is missing",
    "value_error": "Invalid value",
    "assertion_error": "Invalid value",
}


def faults(error: ValidationError, data: Any, removed: Iterable[str] = ()) -> tuple[str, ...]:
    """Return one ``path: reason`` for each place of ``data`` that the validator refused.

    ``removed``: paths of what was stripped before, so that the indices are those of the sender.
    """
    gaps = _gaps(removed)
    reasons: dict[str, list[str]] = {}
    lists: dict[str, str] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        path, value = _locate(item["loc"], data, gaps, missing=item["type"] == "missing")
        path = path or "(top level)"
        if item["type"] == "string_type" and isinstance(value, list):
            lists[path] = item["msg"]
            continue
        reason = _QUOTING.get(item["type"], item["msg"])
        known = reasons.setdefault(path, [])
        if reason not in known:
            known.append(reason)
    # "A string or a list" failed as a list, too, and that is the error to show.
    told = {place for path in reasons for place in _around(path)} if lists else set()
    reasons |= {path: [reason] for path, reason in lists.items() if path not in told}
    return tuple(f"{path}: {'; '.join(known)}" for path, known in reasons.items())


def _locate(
    location: Sequence[int | str], data: Any, gaps: Mapping[str, Sequence[int]], *, missing: bool
) -> tuple[str, Any]:
    """Follow pydantic's location through the data: it also names union members, which we skip."""
    path, value = "", data
    last = len(location) - 1
    for position, part in enumerate(location):
        if isinstance(part, int):
            path = f"{path}[{part + bisect_right(gaps.get(path, ()), part)}]"
            value = value[part] if isinstance(value, list) and part < len(value) else None
        elif isinstance(value, Mapping) and part in value:
            path, value = join(path, part), value[part]
        elif missing and position == last:
            path = join(path, part)
    return path, value


def _gaps(removed: Iterable[str]) -> Mapping[str, Sequence[int]]:
    """Return, for each list that lost elements, how many were left before each that is lost."""
    gaps: dict[str, list[int]] = {}
    for path in removed:
        if found := _ELEMENT.fullmatch(path):
            lost = gaps.setdefault(found[1], [])
            lost.append(int(found[2]) - len(lost))
    return gaps


def _around(path: str) -> Iterator[str]:
    """Yield a path and those of all that it is within."""
    yield path
    for end in _BELOW.finditer(path):
        yield path[: end.start()]
