"""How long the call of an agent may take, by the host's clock."""

from __future__ import annotations

import asyncio
from types import TracebackType

from interpose.loop.execution import ToolTimeout
from interpose.payloads import ToolCall
from interpose.services import Clock


class TimeLimit:
    """Raise :class:`ToolTimeout` in a block that takes longer; what it waits for is cancelled.

    ``asyncio.timeout`` by another clock. ``seconds``: None is any time.
    """

    def __init__(self, call: ToolCall, clock: Clock, seconds: float | None) -> None:
        self._call = call
        self._clock = clock
        self._seconds = seconds
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.Future[None] | None = None
        self._cancelling = 0
        self._is_up = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        if self._seconds is None or task is None:
            return
        self._task = task
        self._cancelling = task.cancelling()
        self._timer = asyncio.ensure_future(self._clock.sleep(self._seconds))
        self._timer.add_done_callback(self._ring)

    def _ring(self, timer: asyncio.Future[None]) -> None:
        if timer.cancelled() or timer.exception() is not None:
            return  # a clock that fails is no timeout
        if self._task is not None:
            self._is_up = True
            self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._task is None or self._timer is None:
            return
        self._timer.remove_done_callback(self._ring)
        self._timer.cancel()
        if not self._is_up or self._task.uncancel() > self._cancelling:
            return  # in time, or somebody else ends it, too
        if kind is None or issubclass(kind, asyncio.CancelledError):
            said = f"The agent {self._call.name!r} took longer than {self._seconds:g} s"
            said = f"{said} and was given up."
            if self._call.effect != "read":
                said = f"{said} It may have had its effect all the same."
            raise ToolTimeout(said) from error
