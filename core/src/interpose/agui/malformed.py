"""Say where data is malformed and why, without ever repeating a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from pydantic import ValidationError

from interpose.agui.shapes import join

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
    stripped = frozenset(removed)
    reasons: dict[str, list[str]] = {}
    no_strings: dict[str, str] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        path, value = _locate(item["loc"], data, stripped, missing=item["type"] == "missing")
        if item["type"] == "string_type" and isinstance(value, list):
            # "a string or a list" failed as a list, too: that is the error to show.
            no_strings[path] = item["msg"]
            continue
        reason = _QUOTING.get(item["type"], item["msg"])
        known = reasons.setdefault(path or "(top level)", [])
        if reason not in known:
            known.append(reason)
    for path, reason in no_strings.items():
        if not any(known.startswith(path) for known in reasons):
            reasons[path] = [reason]
    return tuple(f"{path}: {'; '.join(known)}" for path, known in reasons.items())


def _locate(
    location: Sequence[int | str], data: Any, stripped: AbstractSet[str], *, missing: bool
) -> tuple[str, Any]:
    """Follow pydantic's location through the data: it also names union members, which we skip."""
    path, value = "", data
    last = len(location) - 1
    for position, part in enumerate(location):
        if isinstance(part, int):
            path = _element(path, part, stripped)
            value = value[part] if isinstance(value, list) and part < len(value) else None
        elif isinstance(value, Mapping) and part in value:
            path, value = join(path, part), value[part]
        elif missing and position == last:
            path = join(path, part)
    return path, value


def _element(path: str, index: int, stripped: AbstractSet[str]) -> str:
    """Return the path of a list's element, counted with those that were stripped."""
    position = 0
    while stripped:
        if f"{path}[{position}]" in stripped:
            index += 1
        elif position >= index:
            break
        position += 1
    return f"{path}[{index}]"
