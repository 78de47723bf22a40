"""A limit on the time that a layer itself is suspended; the clock stands while others work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from interpose.errors import DeadlineExceeded
from interpose.runtime.clock import SystemClock
from interpose.services import Clock

T = TypeVar("T")


class Deadline:
    """The budget of one hook call, or of one step of a layer's generator. Unit: seconds.

    It runs on the host's clock: a test that drives the clock drives the deadline.
    """

    __slots__ = ("_clock", "_layer", "_left", "_scope", "_seconds", "_since", "_timer")

    def __init__(self, layer: str, seconds: float, clock: Clock) -> None:
        self._layer = layer
        self._seconds = seconds
        self._clock = clock
        self._left = seconds
        self._scope: asyncio.Timeout | None = None
        self._since = 0.0
        self._timer: asyncio.Task[None] | None = None

    async def run(self, work: Awaitable[T]) -> T:
        """Await ``work`` with a fresh budget; :class:`DeadlineExceeded` when it is used up."""
        self._left = self._seconds
        try:
            async with asyncio.timeout(None) as self._scope:
                self._resume()
                return await work
        except TimeoutError as error:
            if self._scope is None or not self._scope.expired():
                raise
            raise DeadlineExceeded(
                f"layer {self._layer!r} took longer than its deadline of {self._seconds:g} s",
                hint=f"raise layer.deadline of {self._layer!r}, or make the layer faster",
            ) from error
        finally:
            self._scope = None
            self._stop_timer()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the clock stand: what is awaited in this block is not the layer's own work."""
        self._pause()
        try:
            yield
        finally:
            self._resume()

    def _pause(self) -> None:
        if self._scope is not None and not self._scope.expired():
            self._left -= self._clock.monotonic() - self._since
            self._scope.reschedule(None)
            self._stop_timer()

    def _resume(self) -> None:
        scope = self._scope
        if scope is None or scope.expired():
            return
        self._since = self._clock.monotonic()
        left = max(self._left, 0.0)
        if isinstance(self._clock, SystemClock):
            scope.reschedule(asyncio.get_running_loop().time() + left)
        else:
            self._timer = asyncio.create_task(self._wait(left), name="deadline of a layer")

    async def _wait(self, seconds: float) -> None:
        """Wait on a clock that is not the loop's, and end the budget then."""
        await self._clock.sleep(seconds)
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
