"""The responses that are being sent, and waiting for their end."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Endable(Protocol):
    """What can be told that the server stops."""

    def stop(self) -> None:
        """End in good order, soon."""


class OpenResponses:
    """Counts the responses of one application. ``draining``: no further one is to begin."""

    __slots__ = ("_none", "_open", "draining")

    def __init__(self) -> None:
        self.draining = False
        self._open: set[Endable] = set()
        self._none = asyncio.Event()
        self._none.set()

    def add(self, response: Endable) -> None:
        """Count a response that begins."""
        self._open.add(response)
        self._none.clear()

    def discard(self, response: Endable) -> None:
        """No longer count a response."""
        self._open.discard(response)
        if not self._open:
            self._none.set()

    async def drain(self, seconds: float) -> None:
        """Let nothing begin, wait up to ``seconds`` for what is open, then tell it to stop."""
        self.draining = True
        try:
            async with asyncio.timeout(seconds):
                await self._none.wait()
        except TimeoutError:
            for each in tuple(self._open):
                each.stop()

    def __len__(self) -> int:
        return len(self._open)
