"""Events as text: one line of JSON, or one frame of server-sent events."""

from __future__ import annotations

from ag_ui.core import BaseEvent
from pydantic_core import PydanticSerializationError

from interpose.agui.plain import write_plain
from interpose.errors import InvalidStream


def to_json(event: BaseEvent) -> str:
    """Write an event in wire form: camelCase, one line, absent optionals left out.

    Raises InvalidStream (rule ``not-json``) when an opaque value cannot be written as JSON.
    """
    line = write_plain(event)
    if line is not None and (line.isascii() or _is_unicode(line)):
        return line
    return _by_model(event)


def encode(event: BaseEvent) -> str:
    r"""Write an event as one SSE frame, ``data: {...}\n\n``.

    Byte for byte what ``ag_ui.encoder.EventEncoder`` writes; framed with LF, because the AG-UI
    client splits frames on nothing else.
    """
    return f"data: {to_json(event)}\n\n"


def encode_bytes(event: BaseEvent) -> bytes:
    """Return what :func:`encode` does, in UTF-8."""
    line = write_plain(event)
    if line is not None:
        try:
            return f"data: {line}\n\n".encode()
        except UnicodeEncodeError:
            pass
    return f"data: {_by_model(event)}\n\n".encode()


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


def _is_unicode(text: str) -> bool:
    """Whether there is no lone surrogate in a text; no JSON can hold one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
