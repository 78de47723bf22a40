"""Objects of a framework inside an event that is JSON: a state with its message objects in it.

The models take anything for a free-form value and write it as JSON when they are encoded. In
between nobody could look into it: no layer, no JSON Patch, no verifier.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    CustomEvent,
    RawEvent,
    RunFinishedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    SubagentFinishedEvent,
)
from pydantic_core import PydanticSerializationError, to_jsonable_python

from interpose.errors import InvalidStream

FREE_FORM: Final[Mapping[type[BaseEvent], str]] = {
    StateSnapshotEvent: "snapshot",
    StateDeltaEvent: "delta",
    ActivitySnapshotEvent: "content",
    ActivityDeltaEvent: "patch",
    CustomEvent: "value",
    RawEvent: "event",
    RunFinishedEvent: "result",
    SubagentFinishedEvent: "result",
}
"""The events with a free-form value, and its attribute."""

_OPERATIONS: Final = frozenset({"delta", "patch"})
_SCALARS: Final = frozenset({str, int, float, bool, NoneType})


def with_json(event: BaseEvent) -> BaseEvent:
    """Return the event with JSON for its free-form value; itself if that is JSON already.

    Raises InvalidStream (rule ``malformed-value``) for a value that cannot be written as JSON.
    """
    name = FREE_FORM[event.__class__]
    value = getattr(event, name)
    try:
        new = _operations(value) if name in _OPERATIONS else as_json(value)
    except (PydanticSerializationError, RecursionError, ValueError):
        # Their texts may hold the value.
        raise InvalidStream(
            f"{event.type.value} is malformed: {name}: it cannot be written as JSON",
            rule="malformed-value",
        ) from None
    return event if new is value else event.model_copy(update={name: new})


def as_json(value: Any) -> Any:
    """Return a value as the JSON that an encoder would write; itself if it is JSON already.

    Raises ValueError, or pydantic's PydanticSerializationError, if it cannot be written.
    """
    if _is_json(value):
        return value
    kind = value.__class__
    if kind is dict and all(key.__class__ is str for key in value):
        return {key: as_json(item) for key, item in value.items()}
    if kind is list:
        return [as_json(item) for item in value]
    return to_jsonable_python(value, by_alias=True)


def _is_json(value: Any) -> bool:
    kind = value.__class__
    if kind is dict:
        for key, item in value.items():
            if key.__class__ is not str or not (item.__class__ in _SCALARS or _is_json(item)):
                return False
        return True
    if kind is list:
        for item in value:  # noqa: SIM110 - a generator takes twice as long
            if not (item.__class__ in _SCALARS or _is_json(item)):
                return False
        return True
    return kind in _SCALARS


def _operations(patch: list[Any]) -> list[Any]:
    """Return the operations of a JSON Patch with JSON values."""
    operations = []
    for operation in patch:
        old = getattr(operation, "value", None)
        new = as_json(old)
        operations.append(operation if new is old else operation.model_copy(update={"value": new}))
    same = all(new is old for new, old in zip(operations, patch, strict=True))
    return patch if same else operations
