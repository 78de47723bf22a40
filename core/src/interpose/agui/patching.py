"""JSON Patch on states and contents: whole or not at all, and never more than it may copy.

Rules: RFC 6902. A patch is applied to a copy. ``copy`` operations could double a document again
and again, so that a few hundred bytes fill the memory: what they copy is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final

import jsonpatch

MOST_COPIED: Final = 250_000
"""Values that the ``copy`` operations of one transcript may copy in all."""
_TEXT: Final = 100


class PatchFailed(Exception):
    """A patch that does not fit; ``reason`` quotes no value."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Patcher:
    """Applies the patches of one transcript."""

    __slots__ = ("_copied",)

    def __init__(self) -> None:
        self._copied = 0

    def apply(self, document: Any, operations: Sequence[Any]) -> Any:
        """Return the patched copy. Raises :class:`PatchFailed`; then nothing has changed."""
        # Dumping also copies the values, so that the document never shares parts with an event.
        patch = [operation.model_dump(by_alias=True) for operation in operations]
        try:
            if not any(operation["op"] == "copy" for operation in patch):
                return jsonpatch.apply_patch(document, patch)
            document = deepcopy(document)
            for operation in patch:
                if operation["op"] == "copy":
                    self._count(jsonpatch.JsonPointer(operation["from"]).resolve(document))
                document = jsonpatch.apply_patch(document, [operation], in_place=True)
            return document
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError) as error:
            # The text is not passed on: a failed test operation spells out both values.
            raise PatchFailed(type(error).__name__) from None

    def _count(self, source: Any) -> None:
        self._copied += _size(source)
        if self._copied > MOST_COPIED:
            raise PatchFailed(f"it copies more than {MOST_COPIED} values")


def _size(value: Any) -> int:
    """Return how many values there are in a JSON value; a long text counts as several."""
    size, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        size += 1
        if isinstance(each, str):
            size += len(each) // _TEXT
        elif isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return size
