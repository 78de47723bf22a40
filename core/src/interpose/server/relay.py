"""From the task that plays a run to the one that writes its response: a bounded buffer of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Relay:
    """Coalesces what is pushed between two writes into one, and holds a fast producer back.

    ``limit``: bytes to buffer; whoever pushes more waits for :attr:`room`. ``now`` is the clock of
    ``pushed_at`` and ``taken_at``. ``error`` is what ended the producer, ``gone`` says that nobody
    reads any more.
    """

    __slots__ = (
        "_limit", "_now", "_parts", "_ready", "_size",
        "closed", "error", "gone", "pushed_at", "room", "taken_at",
    )  # fmt: skip

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._limit = limit
        self._now = now
        self._parts: list[bytes] = []
        self._size = 0
        self._ready = asyncio.Event()
        self.room = asyncio.Event()
        self.room.set()
        self.pushed_at = self.taken_at = now()
        self.closed = False
        self.gone = False
        self.error: BaseException | None = None

    def push(self, data: bytes) -> bool:
        """Add bytes; True when the buffer is full, so that the producer is to wait for room."""
        if self.gone or self.closed:
            return False
        self._parts.append(data)
        self._size += len(data)
        self.pushed_at = self._now()
        self._ready.set()
        if self._size < self._limit:
            return False
        self.room.clear()
        return True

    async def take(self) -> bytes:
        """Wait for bytes and return all there are; ``b""`` at the end, or when nobody reads."""
        while not self._parts:
            if self.closed or self.gone:
                return b""
            self._ready.clear()
            await self._ready.wait()
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        self.taken_at = self._now()
        self.room.set()
        return data

    def comment(self, text: bytes) -> None:
        """Add bytes that are no event, if there is room; they do not count as pushed."""
        if self.room.is_set() and not (self.gone or self.closed):
            self._parts.append(text)
            self._size += len(text)
            self._ready.set()

    def close(self, error: BaseException | None = None) -> None:
        """Say that nothing more comes; what is buffered is still taken."""
        if not self.closed:
            self.closed = True
            self.error = error
        self._ready.set()

    def abandon(self) -> None:
        """Say that nobody reads any more: what is buffered goes, and the producer waits no more."""
        self.gone = True
        self._parts.clear()
        self._ready.set()
        self.room.set()
