"""Events as text: one line of JSON, or one frame of server-sent events."""

from __future__ import annotations

from typing import Final

from ag_ui.core import BaseEvent
from pydantic_core import PydanticSerializationError

from interpose.agui.plain import WRITERS
from interpose.errors import InvalidStream

_LINE: Final = slice(len("data: "), -len("\n\n"))


def to_json(event: BaseEvent) -> str:
    """Write an event in wire form: camelCase, one line, absent optionals left out.

    Raises InvalidStream (rule ``not-json``) when an opaque value cannot be written as JSON.
    """
    return encode(event)[_LINE]


def encode(event: BaseEvent) -> str:
    r"""Write an event as one SSE frame, ``data: {...}\n\n``.

    Byte for byte what ``ag_ui.encoder.EventEncoder`` writes; framed with LF, because the AG-UI
    client splits frames on nothing else. Raises InvalidStream as :func:`to_json` does.
    """
    write = WRITERS.get(event.__class__)
    try:
        frame = None if write is None else write(event)
        if frame is not None and (frame.isascii() or frame.encode()):
            return frame
    except (AttributeError, UnicodeEncodeError):
        pass  # the model tells what is wrong
    return f"data: {_by_model(event)}\n\n"


def _by_model(event: BaseEvent) -> str:
    try:
        # Never exclude_none: it also deletes nulls that carry meaning (CUSTOM.value).
        return event.model_dump_json(by_alias=True)
    except PydanticSerializationError:
        # The reason quotes values, so it is not passed on.
        raise InvalidStream(
            f"{type(event).__name__} holds a value that cannot be written as JSON.",
            rule="not-json",
        ) from None
