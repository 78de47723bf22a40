"""The boundary between two streams: whatever is raised inside becomes the events of an ending."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from ag_ui.core import BaseEvent

from interpose.errors import MiddlewareError
from interpose.runtime.control import EndRun, Fail, ending
from interpose.runtime.failure import AGENT_FAILED, MIDDLEWARE_FAILED
from interpose.runtime.interruption import nobody_cancelled
from interpose.runtime.record import RunRecord


class Boundary:
    """Keeps a stream's one face: no ``Exception`` leaves it, a failure is a RUN_ERROR event.

    After the ``with`` block ``events`` holds how the stream is to end; empty when nothing was
    raised. ``error`` is what was, ``line`` where in the block's own function. ``code`` is for
    failures that have none of their own. The host's own cancellation of the task is undone here;
    anybody else's passes.
    """

    __slots__ = ("_code", "_record", "error", "events", "line")

    def __init__(self, record: RunRecord, code: str) -> None:
        self._record = record
        self._code = code
        self.events: Sequence[BaseEvent] = ()
        self.error: BaseException | None = None
        self.line = 0

    def __enter__(self) -> Self:
        return self

    def takes(self, error: BaseException) -> bool:
        """Make the events of an ending of what was caught; False: it is nobody's failure."""
        return self.__exit__(type(error), error, error.__traceback__)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        record = self._record
        self.error = error
        self.line = 0 if trace is None else trace.tb_lineno
        if isinstance(error, EndRun):
            self.events = verdict_events(record)
            return True
        if isinstance(error, asyncio.CancelledError):
            if record.absorb_cancel():
                self.events = verdict_events(record)
                return True
            if not nobody_cancelled():
                return False
            # Somebody awaited a task that was cancelled: a failure like any other.
            self.events = (record.failures.event(error, self._code),)
            return True
        if error is not None and not isinstance(error, GeneratorExit | KeyboardInterrupt):
            # SystemExit, too: an agent does not end the host.
            record.absorb_cancel()  # an agent may answer a cancellation with an error of its own
            self.events = (
                verdict_events(record)
                if record.cancelled
                else (record.failures.event(error, self._code),)
            )
            return True
        return False


def verdict_events(record: RunRecord) -> Sequence[BaseEvent]:
    """Return the events with which the run's verdict ends a stream."""
    if record.verdict is None:
        error = MiddlewareError("the host's control flow was raised without ctx.finish or the like")
        return (record.failures.event(error, MIDDLEWARE_FAILED),)
    record.verdict_given = True
    if isinstance(record.verdict, Fail):
        return (record.failures.event(record.verdict.error, AGENT_FAILED),)
    return ending(record.verdict, record.thread_id, record.run_id)
