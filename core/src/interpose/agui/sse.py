"""Server-sent events from bytes: what AG-UI streams are carried by over HTTP.

Rules: HTML standard, "Server-sent events", "Parsing an event stream". Two things are stricter
here. An event has a greatest size, so that a peer cannot fill the memory; and bytes that are no
UTF-8 are an error, where a browser puts U+FFFD: what a producer sent is never repaired.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from interpose.agui.lines import LineReader
from interpose.errors import InvalidStream

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""The greatest size of one event unless told otherwise: 16 MiB, room for a large snapshot."""


class SseEvent(NamedTuple):
    """The data of one server-sent event, and the line, from 1, on which it starts."""

    data: str
    line: int


class SseReader:
    r"""Reads server-sent events from bytes, however they are split: also inside a character.

    Lines end with LF, CRLF or CR; ``data`` may have several lines; comments and the fields
    ``event``, ``id`` and ``retry`` mean nothing to AG-UI and are left out, and so is an event
    without data. ``max_bytes``: the greatest size of one event, and of any one line.

    Example::

        reader = SseReader()
        for chunk in chunks:
            for event in reader.feed(chunk):
                handle(json.loads(event.data))
        reader.close()
    """

    __slots__ = ("_data", "_line", "_lines", "_max_bytes", "_size", "_start")

    def __init__(self, *, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lines = LineReader()
        self._line = 0
        self._data: list[bytes] = []
        self._start = 0
        self._size = 0

    @property
    def unfinished(self) -> bool:
        """Whether an event has begun that no blank line has ended yet."""
        return bool(self._data) or self._lines.pending > 0

    def feed(self, data: bytes) -> Iterator[SseEvent]:
        """Yield each event that ``data`` ends. Iterate to the end: what is not taken is not read.

        Raises InvalidStream with the rule ``event-too-long`` or ``not-utf-8``; then the stream
        cannot be read any further.
        """
        for line in self._lines.feed(data):
            event = self._take(line)
            if event is not None:
                yield event
        if self._size + self._lines.pending > self._max_bytes:
            raise self._too_long()

    def close(self, *, keep_last: bool = False) -> SseEvent | None:
        """End the stream.

        An event that no blank line has ended is dropped, as the standard says: of a live stream it
        may be a piece. ``keep_last=True`` returns it: recordings often lack the last blank line.
        Raises as :meth:`feed`.
        """
        last = self._lines.close()
        if not keep_last:
            self._data.clear()
            return None
        if last:
            self._take(last)
        return self._dispatch() if self._data else None

    def _take(self, line: bytes) -> SseEvent | None:
        self._line += 1
        if not line:
            return self._dispatch() if self._data else None
        if self._size + len(line) > self._max_bytes:
            raise self._too_long()
        field, _, value = line.partition(b":")
        if field == b"data":
            if not self._data:
                self._start = self._line
            self._data.append(value[1:] if value.startswith(b" ") else value)
            # The newline counts, so that lines without content do not add up unseen.
            self._size += len(value) + 1
        return None

    def _dispatch(self) -> SseEvent:
        joined = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        self._size = 0
        try:
            return SseEvent(joined.decode(), self._start)
        except UnicodeDecodeError:
            raise InvalidStream(
                f"The event on line {self._start} of the stream is not UTF-8 text.",
                rule="not-utf-8",
            ) from None

    def _too_long(self) -> InvalidStream:
        return InvalidStream(
            f"An event of the stream is longer than {self._max_bytes} bytes, the most that is "
            "accepted.",
            rule="event-too-long",
        )
