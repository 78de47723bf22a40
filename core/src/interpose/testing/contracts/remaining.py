"""What is still there after something has ended: tasks and threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

_TURNS: Final = 30
_WAIT: Final = 1.0
"""Seconds that a thread gets to end; one that works needs none of them."""


class Leftovers:
    """Remembers what there was, and tells what is new and has not ended."""

    def __init__(self) -> None:
        self._tasks = asyncio.all_tasks()
        self._threads = set(threading.enumerate())

    async def told(self) -> str:
        """Say what is left, or return ``""``."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        left = next(self._new_tasks(), None) or next(self._new_threads(), None)
        return left or ""

    def _new_tasks(self) -> Iterator[str]:
        for task in asyncio.all_tasks() - self._tasks:
            if not task.done():
                yield f"the task {_named(task)} is still running"

    def _new_threads(self) -> Iterator[str]:
        until = time.monotonic() + _WAIT
        for thread in set(threading.enumerate()) - self._threads:
            # Those of the loop's own executor wait for more work.
            if thread.name.startswith("asyncio_"):
                continue
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                yield f"the thread {thread.name} is still running"


def _named(task: asyncio.Task[Any]) -> str:
    work = task.get_coro()
    name = getattr(work, "__qualname__", "") or getattr(work, "__name__", "")
    return name or task.get_name()
