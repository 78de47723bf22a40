"""Interrupting a run while it awaits its agent, by cancelling the task that drives it.

The same bookkeeping as in :func:`asyncio.timeout`: the cancellation that is ours is undone where it
arrives, and anybody else's passes.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Interruption:
    """What ``run.cancel`` does to a run that waits. ``seconds``: how long it may go on closing.

    ``awaiting``: the task that awaits the agent now. It is set for each event, so it is no more
    than an attribute.
    """

    __slots__ = ("_again", "_before", "_driver", "_seconds", "_sent", "awaiting")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.awaiting: asyncio.Task[Any] | None = None
        self._driver: asyncio.Task[Any] | None = None
        self._before = 0
        self._sent = 0
        self._again: asyncio.Handle | None = None

    def begin(self) -> None:
        """Take note that the current task begins to await the agent.

        What cancels the task from now on, and is not ours, is somebody else's.
        """
        task = asyncio.current_task()
        self.awaiting = self._driver = task
        self._before = 0 if task is None else task.cancelling()

    def end(self) -> None:
        """Take note that nobody awaits the agent any longer."""
        self.awaiting = None
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def strike(self) -> None:
        """Interrupt what awaits now; again and again, if it goes on with closing for too long."""
        task = self.awaiting
        if task is None:
            return
        loop = asyncio.get_running_loop()
        if task is asyncio.current_task():
            # The agent's own code asked: it is interrupted when it waits, if it still does.
            self._again = loop.call_soon(self.strike)
            return
        if task is not self._driver:
            self._driver, self._before = task, 0
        self._sent += 1
        task.cancel()
        self._again = loop.call_later(self._seconds, self.strike)

    def strike_from_elsewhere(self) -> None:
        """Interrupt what awaits now, unless the task that does so is the one that asks."""
        if asyncio.current_task() is not self.awaiting:
            self.strike()

    def force(self, task: asyncio.Task[Any]) -> None:
        """Interrupt the task that drives the run, whatever it awaits in it."""
        if not self._sent:
            self._before = task.cancelling()
        self._sent += 1
        task.cancel()

    def absorb(self) -> bool:
        """Undo our own cancellations; True when there were some and nobody else's as well."""
        task = asyncio.current_task()
        if not self._sent or task is None:
            return False
        left = task.cancelling()
        while self._sent:
            self._sent -= 1
            left = task.uncancel()
        return left <= self._before


def nobody_cancelled() -> bool:
    """Whether the current task was not cancelled, so that a CancelledError is somebody's own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() == 0
