"""Recorded streams: JSON lines, server-sent events, or one JSON array."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from ag_ui.core import BaseEvent

from interpose.agui.compat import Compatibility
from interpose.agui.decoding import NotJson, decoder, from_json
from interpose.agui.lines import LineReader
from interpose.agui.sse import SseReader
from interpose.agui.stripping import Stripper
from interpose.errors import InvalidStream, ReplayError

NO_EVENTS: Final = "The recording holds no events."
_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_SSE_LINE: Final = re.compile(rb":|(data|event|id|retry)(:|$)")
_FORMATS: Final = (
    "A recording is JSON lines (one event a line), a capture of server-sent events "
    "(`data: {...}`), or one JSON array of events."
)
_Found = Iterator["tuple[int, Any] | ReplayError"]


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One raw event of a recording and the line, from 1, that it starts on."""

    line: int
    raw: Mapping[str, Any]


class TypedEvents(NamedTuple):
    """The outcome of :func:`typed`; warnings begin with ``file:line``."""

    events: tuple[BaseEvent, ...]
    warnings: tuple[str, ...]


def read_capture(text: str | bytes, name: str) -> list[RecordedEvent]:
    """Read the events of a recording; which of the three formats it is shows by itself.

    ``name`` is the file's name, for messages. Bytes are UTF-8. A byte order mark,
    blank lines, comments and all of LF, CRLF and CR are fine. Raises ReplayError with ``where`` =
    ``name:line`` when something is no JSON, no object or has no ``type``, or when there is no event
    at all.
    """
    events: list[RecordedEvent] = []
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    for found in scan_capture([data], name):
        if isinstance(found, ReplayError):
            raise found
        events.append(found)
    return events


def scan_capture(chunks: Iterable[bytes], name: str) -> Iterator[RecordedEvent | ReplayError]:
    """Read a recording piece by piece; what cannot be read is yielded, too, and does not end it.

    As :func:`read_capture`, but of JSON lines and server-sent events only one event at a time is
    held, so that a recording may be longer than the memory, and still be written.
    """
    nothing = True
    for found in _values(iter(chunks), name):
        nothing = False
        if isinstance(found, ReplayError):
            yield found
        else:
            line, value = found
            yield _event(line, value, name)
    if nothing:
        yield ReplayError(NO_EVENTS, where=f"{name}:1", hint=_FORMATS)


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


def _values(chunks: Iterator[bytes], name: str) -> _Found:
    """Find out the format by the first line that is not blank, and read on in it."""
    head: list[bytes] = []
    lines = LineReader()
    first = b""
    for chunk in chunks:
        head.append(chunk)
        first = next((line for line in map(bytes.strip, lines.feed(chunk)) if line), b"")
        if first:
            break
    else:
        first = lines.close().strip()
    rest = chain(head, chunks)
    if first.startswith(b"["):
        yield from _array(b"".join(rest), name)
    elif _SSE_LINE.match(first):
        yield from _server_sent(rest, name)
    else:
        yield from _json_lines(rest, name)


def _json_lines(chunks: Iterable[bytes], name: str) -> _Found:
    reader = LineReader()
    number = 0
    for chunk in chunks:
        for line in reader.feed(chunk):
            number += 1
            if line.strip():
                yield _json_line(line, number, name)
    last = reader.close()
    if last.strip():
        yield _json_line(last, number + 1, name)


def _json_line(line: bytes, number: int, name: str) -> tuple[int, Any] | ReplayError:
    try:
        return _decoded(line.decode(), number, name)
    except UnicodeDecodeError:
        return _not_text(f"{name}:{number}")


def _server_sent(chunks: Iterable[bytes], name: str) -> _Found:
    reader = SseReader()
    try:
        for chunk in chunks:
            for event in reader.feed(chunk):
                yield _decoded(event.data, event.line, name)
        # Unlike a live stream, a recording is whole, although its last blank line may be lacking.
        last = reader.close(keep_last=True)
    except InvalidStream as error:
        yield ReplayError(error.message, where=name)
        return
    if last is not None:
        yield _decoded(last.data, last.line, name)


def _array(data: bytes, name: str) -> _Found:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        yield _not_text(name)
        return
    # CR and CRLF become LF, so that lines are counted by one character.
    text = _NEWLINE.sub("\n", text)
    whole = _decoded(text, 1, name)
    if isinstance(whole, ReplayError):
        yield whole
        return
    # It is sound as a whole, so what follows may trust the punctuation.
    position = text.index("[") + 1
    line = text.count("\n", 0, position) + 1
    while True:
        start = _skip(text, position, " \t\n,")
        line += text.count("\n", position, start)
        if text[start] == "]":
            return
        value, position = decoder().raw_decode(text, start)
        yield line, value
        line += text.count("\n", start, position)


def _skip(text: str, position: int, characters: str) -> int:
    while text[position] in characters:
        position += 1
    return position


def _event(line: int, value: Any, name: str) -> RecordedEvent | ReplayError:
    where = f"{name}:{line}"
    if not isinstance(value, dict):
        kind = "null" if value is None else type(value).__name__
        return ReplayError(f"An event is a JSON object, not {kind}.", where=where, hint=_FORMATS)
    if not isinstance(value.get("type"), str):
        return ReplayError(
            "This object has no `type`, so it is no event.",
            where=where,
            hint='An event names its type: {"type": "RUN_STARTED", ...}.',
        )
    return RecordedEvent(line, value)


def _decoded(text: str, line: int, name: str) -> tuple[int, Any] | ReplayError:
    try:
        return line, from_json(text)
    except NotJson as error:
        where = f"{name}:{line + error.line - 1}"
        return ReplayError(f"This is not JSON: {error.said}.", where=where, hint=_FORMATS)


def _not_text(where: str) -> ReplayError:
    return ReplayError("The recording is not UTF-8 text.", where=where, hint=_FORMATS)
