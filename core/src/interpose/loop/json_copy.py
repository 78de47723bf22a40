"""Copies of JSON values: a schema, arguments of a call."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

UNCHANGING: Final = frozenset({str, int, float, bool, type(None)})
"""Classes of values that need no copy."""


def json_copy(value: Any) -> Any:
    """Return a deep copy, several times faster for JSON than ``copy.deepcopy``.

    What is no JSON in it is copied by that.
    """
    kind = value.__class__
    if kind in UNCHANGING:
        return value
    if kind is dict:
        return {key: json_copy(each) for key, each in value.items()}
    if kind is list:
        return [json_copy(each) for each in value]
    return deepcopy(value)
