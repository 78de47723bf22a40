"""The clock of a host that is given no other."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """The machine's own time, in seconds."""

    def monotonic(self) -> float:
        """Return a time that never goes back."""
        return time.monotonic()

    def time(self) -> float:
        """Return seconds since the epoch (UTC)."""
        return time.time()

    async def sleep(self, seconds: float, /) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
