"""A limit on the time that a layer itself is suspended; the clock stands while others work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from interpose.errors import DeadlineExceeded

T = TypeVar("T")


class Deadline:
    """The budget of one hook call, or of one step of a layer's generator. Unit: seconds."""

    __slots__ = ("_layer", "_left", "_scope", "_seconds", "_since")

    def __init__(self, layer: str, seconds: float) -> None:
        self._layer = layer
        self._seconds = seconds
        self._left = seconds
        self._scope: asyncio.Timeout | None = None
        self._since = 0.0

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
            self._left -= asyncio.get_running_loop().time() - self._since
            self._scope.reschedule(None)

    def _resume(self) -> None:
        if self._scope is not None and not self._scope.expired():
            self._since = asyncio.get_running_loop().time()
            self._scope.reschedule(self._since + max(self._left, 0.0))
