"""Say where data is malformed and why, without ever repeating a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def faults(error: ValidationError, data: Any) -> tuple[str, ...]:
    """Return one ``path: reason`` for each place of ``data`` that the validator refused."""
    reasons: dict[str, list[str]] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        path, value = _locate(item["loc"], data, missing=item["type"] == "missing")
        if item["type"] == "string_type" and isinstance(value, list):
            continue  # "a string or a list" failed as a list; that is the error to show
        reason = _QUOTING.get(item["type"], item["msg"])
        known = reasons.setdefault(path or "(top level)", [])
        if reason not in known:
            known.append(reason)
    return tuple(f"{path}: {'; '.join(known)}" for path, known in reasons.items())


def _locate(location: Sequence[int | str], data: Any, *, missing: bool) -> tuple[str, Any]:
    """Follow pydantic's location through the data: it also names union members, which we skip."""
    path, value = "", data
    last = len(location) - 1
    for position, part in enumerate(location):
        if isinstance(part, int):
            path = f"{path}[{part}]"
            value = value[part] if isinstance(value, list) and part < len(value) else None
        elif isinstance(value, Mapping) and part in value:
            path, value = join(path, part), value[part]
        elif missing and position == last:
            path = join(path, part)
    return path, value
