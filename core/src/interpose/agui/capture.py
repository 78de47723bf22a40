"""Recorded streams as text: JSON lines, server-sent events, or one JSON array."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn

from ag_ui.core import BaseEvent

from interpose.agui.compat import Compatibility
from interpose.agui.stripping import Stripper
from interpose.errors import InvalidStream, ReplayError

_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_SSE_LINE: Final = re.compile(r":|(data|event|id|retry)(:|$)")
_FORMATS: Final = (
    "A recording is JSON lines (one event a line), a capture of server-sent events "
    "(`data: {...}`), or one JSON array of events."
)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One raw event of a recording and the line, from 1, that it starts on."""

    line: int
    raw: Mapping[str, Any]


class TypedEvents(NamedTuple):
    """The outcome of :func:`typed`; warnings begin with ``file:line``."""

    events: tuple[BaseEvent, ...]
    warnings: tuple[str, ...]


def read_capture(text: str, name: str) -> list[RecordedEvent]:
    """Read the events of a recording; which of the three formats it is shows by itself.

    ``name`` is the file's name, for messages. A byte order mark, blank lines, comments and all of
    LF, CRLF and CR are fine. Raises ReplayError with ``where`` = ``name:line`` when something is
    no JSON, no object or has no ``type``, or when there is no event at all.
    """
    # Only these three end a line; str.splitlines would also cut JSON strings at U+2028.
    lines = _NEWLINE.split(text.removeprefix("\ufeff"))
    first = next((line.lstrip() for line in lines if line.strip()), "")
    if first.startswith("["):
        found = _array(lines, name)
    elif _SSE_LINE.match(first):
        found = _server_sent(lines, name)
    else:
        found = _json_lines(lines, name)
    events = [RecordedEvent(line, _event(value, f"{name}:{line}")) for line, value in found]
    if not events:
        raise ReplayError("The recording holds no events.", where=f"{name}:1", hint=_FORMATS)
    return events


def typed(recorded: Iterable[RecordedEvent], name: str) -> TypedEvents:
    """Turn recorded events into models, without what AG-UI does not describe.

    A recording of an older version is read as 1.0 writes it (see :class:`Compatibility`).

    Raises ReplayError with ``where`` = ``name:line`` when an event is malformed.
    """
    stripper = Stripper(Compatibility())
    events: list[BaseEvent] = []
    warnings: list[str] = []
    for item in recorded:
        where = f"{name}:{item.line}"
        known = len(stripper.warnings)
        try:
            event = stripper.admit(item.raw)
        except InvalidStream as error:
            raise ReplayError(error.message, where=where) from None
        warnings += [f"{where}: {warning}" for warning in stripper.warnings[known:]]
        if event is not None:
            events.append(event)
    return TypedEvents(tuple(events), tuple(warnings))


def _json_lines(lines: list[str], name: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, _decode(line, name, number)


def _server_sent(lines: list[str], name: str) -> Iterator[tuple[int, Any]]:
    """Follow the HTML standard, but also take a last event that no blank line follows."""
    data: list[str] = []
    start = 0
    for number, line in enumerate([*lines, ""], 1):
        field, _, value = line.partition(":")
        if field == "data":
            start = start if data else number
            data.append(value.removeprefix(" "))
        elif not line and data:
            yield start, _decode("\n".join(data), name, start)
            data.clear()


def _array(lines: list[str], name: str) -> Iterator[tuple[int, Any]]:
    text = "\n".join(lines)
    _decode(text, name, 1)  # once as a whole, so that what follows may trust the punctuation
    decoder = _decoder()
    position = text.index("[") + 1
    while True:
        position = _skip(text, position, " \t\n,")
        if text[position] == "]":
            return
        value, end = decoder.raw_decode(text, position)
        yield text.count("\n", 0, position) + 1, value
        position = end


def _skip(text: str, position: int, characters: str) -> int:
    while text[position] in characters:
        position += 1
    return position


def _event(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        kind = "null" if value is None else type(value).__name__
        raise ReplayError(f"An event is a JSON object, not {kind}.", where=where, hint=_FORMATS)
    if not isinstance(value.get("type"), str):
        raise ReplayError(
            "This object has no `type`, so it is no event.",
            where=where,
            hint='An event names its type: {"type": "RUN_STARTED", ...}.',
        )
    return value


def _decode(text: str, name: str, line: int) -> Any:
    try:
        return _decoder().decode(text)
    except json.JSONDecodeError as error:
        where = f"{name}:{line + error.lineno - 1}"
        message = f"This is not JSON: {error.msg} (column {error.colno})."
        raise ReplayError(message, where=where, hint=_FORMATS) from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ReplayError(
            f"This is not JSON: {reason}.", where=f"{name}:{line}", hint=_FORMATS
        ) from None


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"it has no {name}")
