"""Driving one run: from its layers' setup to the hooks that hear of its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Literal

from ag_ui.core import BaseEvent, EventType

from interpose.agui import Transcript
from interpose.errors import Reject, RunError
from interpose.payloads import EndInfo, ErrorInfo
from interpose.runtime import ending
from interpose.runtime.boundary import Boundary
from interpose.runtime.closing import close, drain
from interpose.runtime.failure import AGENT_FAILED, MIDDLEWARE_FAILED
from interpose.runtime.outlet import Outlet
from interpose.runtime.pipeline import Pipeline
from interpose.runtime.record import RunRecord


class Play:
    """What drives a run, and what it has come to so far.

    It does not know the :class:`Run`: a run that is dropped is closed at once, by its finaliser.
    ``end``: how the run ended; ``terminal``: the event that said so. ``closing``: its owner closes
    it, so that it is not one that was dropped.
    """

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.fold = Transcript(record.input.messages, record.input.state)
        self.end: EndInfo | None = None
        self.terminal: BaseEvent | None = None
        self.closing = False
        self._outlet = Outlet(record)
        self._pipeline: Pipeline | None = None
        self._source: AsyncGenerator[BaseEvent, None] | None = None

    @property
    def rejected(self) -> Reject | None:
        """What refused the run before its first event."""
        return self._outlet.rejected

    async def events(self) -> AsyncGenerator[BaseEvent, None]:
        """Play in the caller's task; whatever ends it, the layers hear of it once."""
        self.record.open_runs.check()
        driven = True
        try:
            for event in await self._begin():
                self._take(event)
                yield event
            if self._source is not None:
                waiting = self.record.outbox
                push, take = self._outlet.push, self._take
                async for inner in self._source:
                    for event in self._with_emitted(inner) if waiting else push(inner):
                        take(event)
                        yield event
                    if self._outlet.terminal is not None:
                        break
                else:
                    for event in self._outlet.truncated():
                        self._take(event)
                        yield event
        except GeneratorExit:
            driven = self.end is not None
            self._warn_if_dropped()
            self._abort("the consumer is gone", "consumer-gone")
            raise
        except asyncio.CancelledError:
            driven = False
            self._abort("the task was cancelled", "cancelled")
            raise
        except BaseException as error:
            driven = False
            self._fail(error)
            raise
        finally:
            await self._finish(driven=driven)

    async def _begin(self) -> Sequence[BaseEvent]:
        """Set up the layers; returns the whole stream of a run that ends right there."""
        record = self.record
        boundary = Boundary(record, MIDDLEWARE_FAILED)
        with boundary:
            record.open()
            self._pipeline = Pipeline(record)
            self._source = self._pipeline.outermost(await self._pipeline.begin())
        return [event for ended in boundary.events for event in self._outlet.push(ended)]

    def _with_emitted(self, inner: BaseEvent) -> Iterator[BaseEvent]:
        """Yield what is handed over for an event, and for those that were emitted before it."""
        waiting = self.record.outbox
        if inner.type is EventType.RUN_STARTED:
            yield from self._outlet.push(inner)
        while waiting:
            yield from self._outlet.push(waiting.pop(0))
        if inner.type is not EventType.RUN_STARTED:
            yield from self._outlet.push(inner)

    def _take(self, event: BaseEvent) -> None:
        """Fold an event that is handed over now; a terminal fixes the outcome."""
        self.fold.apply(event)
        if event is self._outlet.terminal and self.end is None:
            self.terminal = event
            self.end = ending.of_event(self.record, event)
            self.record.ended = True

    def _abort(self, reason: str, cause: Literal["cancelled", "consumer-gone"]) -> None:
        """Fix the outcome of a run that is not driven on, unless its terminal was handed over."""
        if self.end is None:
            self.end = ending.aborted(self.record, reason, cause)

    def _fail(self, error: BaseException) -> None:
        if self.end is None:
            event = self.record.failures.event(error, AGENT_FAILED)
            self.end = ending.of_event(self.record, event)

    def _warn_if_dropped(self) -> None:
        if not self.closing and asyncio.current_task() is not self.record.driver:
            self.record.log("host").warning(
                "a run was dropped before its end; use `async with host.run(...) as run:`, "
                "so that it is closed in time"
            )

    async def _finish(self, *, driven: bool) -> None:
        """Unwind the layers; when the run was ``driven`` to its end, let them go on to theirs."""
        record = self.record
        record.ended = True
        record.phase = "end"
        self._fail(RunError("the run ended without a terminal event"))
        end = self.end
        if end is None:  # unreachable: _fail has just seen to it
            return
        if isinstance(end.info, ErrorInfo):
            if isinstance(end.info.error, Reject):
                record.report_refusal(end.info.error)
            else:
                record.report("host", end.info.error, f"run failed: {end.info.code}")
        try:
            try:
                if driven and self._source is not None:
                    await drain(record, self._source, "the run")
            finally:
                await close(record, self._source, "the run")
        finally:
            # A task of the host's: it goes on when this one is cancelled while it waits.
            concluding = self._conclude(end)
            name = f"end of run {record.run_id!r}"
            await asyncio.shield(record.program.tasks.spawn(concluding, name))

    async def _conclude(self, end: EndInfo) -> None:
        record = self.record
        try:
            if self._pipeline is not None:
                await ending.call_terminal_hooks(record, self._pipeline.begun, end)
        finally:
            record.close()
            if record.deferred:
                work = ending.run_deferred(record)
                record.program.tasks.spawn(work, f"deferred work of run {record.run_id!r}")
