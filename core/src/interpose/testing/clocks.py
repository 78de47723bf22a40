"""A clock that a test drives."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import Final

_SETTLING: Final = 20
"""Turns of the loop that waiting code gets before time moves on."""


class FakeClock:
    """Time that stands until the test moves it; ``Host(clock=FakeClock())``. Unit: seconds.

    Deadlines of layers, timeouts of tools, limits of time, pauses of retries and everything that
    a layer does with ``ctx.clock`` and ``ctx.sleep`` go by it. What guards the ending of a run
    and of the host goes by the machine's time.

    ``jump``: nobody drives it; as soon as all that runs waits for it, it jumps to the moment that
    the first of them waits for. Only where nothing waits for input or output.

    Example::

        clock = FakeClock()
        async with make_host([Layer(Slow, deadline=5)], agent=scripted("hi"), clock=clock) as host:
            run = asyncio.ensure_future(host.run("hi"))
            await clock.advance(5)
            assert (await run).outcome == "error"
    """

    def __init__(self, start: float = 1_700_000_000.0, *, jump: bool = False) -> None:
        self._epoch = start
        self._now = 0.0
        self._jump = jump
        self._numbers = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._jumping: asyncio.Task[None] | None = None

    def monotonic(self) -> float:
        """Return the seconds since the clock was made."""
        return self._now

    def time(self) -> float:
        """Return seconds since the epoch (UTC)."""
        return self._epoch + self._now

    @property
    def sleepers(self) -> int:
        """How many wait for this clock."""
        return sum(not waiting.done() for _, _, waiting in self._sleepers)

    async def sleep(self, seconds: float, /) -> None:
        """Wait until the clock has been moved that far; zero or less only lets others run."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._numbers), waiting))
        if self._jump and (self._jumping is None or self._jumping.done()):
            self._jumping = asyncio.ensure_future(self._leap())
        await waiting

    async def advance(self, seconds: float) -> None:
        """Move the clock, waking whoever waits on the way, each at its own moment."""
        until = self._now + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            self._wake()
            await self._settle()
        self._now = until

    async def _leap(self) -> None:
        while True:
            await self._settle()
            if not self.sleepers:
                return
            self._wake()

    def _wake(self) -> None:
        moment, _, waiting = heapq.heappop(self._sleepers)
        if not waiting.done():
            self._now = max(self._now, moment)
            waiting.set_result(None)

    async def _settle(self) -> None:
        for _ in range(_SETTLING):
            await asyncio.sleep(0)
