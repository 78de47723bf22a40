"""From the task that plays a run to the one that writes its response: a bounded buffer of text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Relay:
    """Coalesces what is pushed between two writes into one, and holds a fast producer back.

    ``limit``: characters to buffer; whoever pushes more waits for :attr:`room`. ``now`` is the
    clock of ``taken_at``, when something was taken last, and of ``said_at``, when that was
    something pushed. ``behind``: something that was pushed has not been taken. ``writing``: what
    was taken is being written. ``error`` is what ended the producer, ``gone`` says that nobody
    reads any more.
    """

    __slots__ = (
        "_limit", "_now", "_parts", "_size", "_waiting",
        "behind", "closed", "error", "gone", "room", "said_at", "taken_at", "writing",
    )  # fmt: skip

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._limit = limit
        self._now = now
        self._parts: list[str] = []
        self._size = 0
        self._waiting: asyncio.Future[None] | None = None
        self.room = asyncio.Event()
        self.room.set()
        self.said_at = self.taken_at = now()
        self.behind = False
        self.writing = False
        self.closed = False
        self.gone = False
        self.error: BaseException | None = None

    def push(self, data: str) -> bool:
        """Add text; True when the buffer is full, so that the producer is to wait for room."""
        if self.gone or self.closed:
            return False
        self._parts.append(data)
        self.behind = True
        if self._waiting is not None:
            self._wake()
        self._size += len(data)
        if self._size < self._limit:
            return False
        self.room.clear()
        return True

    async def take(self) -> bytes:
        """Wait for text, return all there is in UTF-8; ``b""`` at the end, or if nobody reads."""
        self.writing = False
        while not self._parts:
            if self.closed or self.gone:
                return b""
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        data = "".join(self._parts).encode()
        self._parts.clear()
        self._size = 0
        self.taken_at = self._now()
        if self.behind:
            self.behind = False
            self.said_at = self.taken_at
        self.writing = True
        self.room.set()
        return data

    def comment(self, text: str) -> None:
        """Add text that is no event, if there is room; it does not count as pushed."""
        if self.room.is_set() and not (self.gone or self.closed):
            self._parts.append(text)
            self._size += len(text)
            self._wake()

    def close(self, error: BaseException | None = None) -> None:
        """Say that nothing more comes; what is buffered is still taken."""
        if not self.closed:
            self.closed = True
            self.error = error
        self._wake()

    def abandon(self) -> None:
        """Say that nobody reads any more: what is buffered goes, and the producer waits no more."""
        self.gone = True
        self._parts.clear()
        self.room.set()
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
