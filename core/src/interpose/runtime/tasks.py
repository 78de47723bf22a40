"""Tasks that belong to the host: terminal hooks, deferred functions, tasks of lifespans."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from interpose.logs import bound


class HostTasks:
    """The tasks a host has started; none outlives it."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a task that the host keeps until it is done."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # Its text may hold a secret that only the run's own settings know.
            kind = type(task.exception()).__name__
            bound(task=task.get_name()).error("the task {} failed: {}", task.get_name(), kind)

    async def drain(self, seconds: float) -> None:
        """Wait for all tasks; cancel those that take longer than ``seconds``, and await them."""
        current = asyncio.current_task()
        waiting = {task for task in self._tasks if task is not current}
        if not waiting:
            return
        late = waiting
        try:
            _, late = await asyncio.wait(waiting, timeout=seconds)
        finally:
            for task in late:
                task.cancel()
        if late:
            _, stuck = await asyncio.wait(late, timeout=seconds)
            for task in stuck:
                bound(task=task.get_name()).error(
                    "the task {} ignores cancellation", task.get_name()
                )
