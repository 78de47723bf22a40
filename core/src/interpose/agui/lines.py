"""Bytes to lines, in whatever pieces the bytes arrive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_NEWLINE: Final = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class LineReader:
    """Splits a stream of bytes into lines that end with LF, CRLF or CR, as the HTML standard does.

    Nothing else ends a line: U+2028 may stand in a JSON string. The work is linear in the bytes,
    also when they come one at a time. A byte order mark at the very start is left out.
    """

    __slots__ = ("_after_cr", "_first", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._after_cr = False
        self._first = True

    @property
    def pending(self) -> int:
        """The number of bytes of the line that has not ended yet."""
        return len(self._rest)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each line that ``data`` ends, without its newline.

        Iterate to the end: what is not taken is not read.
        """
        start = 0
        if self._after_cr and data:
            # That CR has ended its line already; an LF right after it belongs to it.
            self._after_cr = False
            start = data.startswith(b"\n")
        if b"\r" in data:
            lines = _NEWLINE.split(data[start:])
            self._after_cr = data.endswith(b"\r")
        else:
            lines = data[start:].split(b"\n")
        last = len(lines) - 1
        if last and (self._rest or self._first):
            lines[0] = self._begun(lines[0])
        for index in range(last):
            yield lines[index]
        self._rest += lines[last]

    def close(self) -> bytes:
        """Return the last line, which no newline has ended; mostly it is empty."""
        return self._begun(b"")

    def _begun(self, end: bytes) -> bytes:
        """Return the line that has begun, with its ``end``."""
        line = bytes(self._rest) + end
        self._rest.clear()
        if self._first:
            self._first = False
            return line.removeprefix(_BYTE_ORDER_MARK)
        return line
