"""Ctrl-C during a run: the first cancels the run, the next ones end the program."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from interpose.cli.exits import INTERRUPTED
from interpose.runtime.run import Run


class Interrupted:
    """True once somebody has interrupted the run."""

    def __init__(self) -> None:
        self.happened = False

    def __bool__(self) -> bool:
        return self.happened


@contextmanager
def cancelled_by_interrupt(run: Run) -> Iterator[Interrupted]:
    """Let the first SIGINT inside the block cancel the run, so that its stream ends in order.

    The second one ends the program at once: an agent may not be willing to stop. After the block
    SIGINT does what it did before.
    """
    interrupted = Interrupted()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted  # only the main thread may handle signals
        return
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)

    def handle(_signal: int, _frame: FrameType | None) -> None:
        interrupted.happened = True
        signal.signal(signal.SIGINT, _force)
        loop.call_soon_threadsafe(run.cancel, "interrupted")

    signal.signal(signal.SIGINT, handle)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _force(_signal: int, _frame: FrameType | None) -> None:
    os.write(2, b"interrupted again: the run was not closed\n")
    os._exit(INTERRUPTED)
