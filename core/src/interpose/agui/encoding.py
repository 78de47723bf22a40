"""Events as text: one line of JSON, or one frame of server-sent events."""

from __future__ import annotations

from ag_ui.core import BaseEvent
from pydantic_core import PydanticSerializationError

from interpose.errors import InvalidStream


def to_json(event: BaseEvent) -> str:
    """Write an event in wire form: camelCase, one line, absent optionals left out.

    Raises InvalidStream (rule ``not-json``) when an opaque value cannot be written as JSON.
    """
    try:
        # Never exclude_none: it also deletes nulls that carry meaning (CUSTOM.value).
        return event.model_dump_json(by_alias=True)
    except PydanticSerializationError:
        # The reason quotes values, so it is not passed on.
        raise InvalidStream(
            f"{type(event).__name__} holds a value that cannot be written as JSON.",
            rule="not-json",
        ) from None


def encode(event: BaseEvent) -> str:
    r"""Write an event as one SSE frame, ``data: {...}\n\n``.

    Byte for byte what ``ag_ui.encoder.EventEncoder`` writes; framed with LF, because the AG-UI
    client splits frames on nothing else.
    """
    return f"data: {to_json(event)}\n\n"
