"""Driving one run: from its layers' setup to the hooks that hear of its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from ag_ui.core import BaseEvent, EventType, ToolCallArgsEvent

from interpose.agui import Transcript
from interpose.agui.transcript import adder
from interpose.errors import Reject, RunError
from interpose.payloads import EndInfo, ErrorInfo
from interpose.runtime import ending
from interpose.runtime.boundary import Boundary
from interpose.runtime.closing import close, drain
from interpose.runtime.direct import Way, play_directly
from interpose.runtime.edge import TERMINAL_CLASSES
from interpose.runtime.failure import AGENT_FAILED, MIDDLEWARE_FAILED
from interpose.runtime.going_on import DELTAS, NOTHING, GoingOn
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
        self._goes_on = False
        """Whether the layers gave the terminal themselves, and may go on to their end."""
        self.source: AsyncGenerator[BaseEvent, None] | Way | None = None
        self.outlet = Outlet(record)
        self._pipeline: Pipeline | None = None

    @property
    def rejected(self) -> Reject | None:
        """What refused the run before its first event."""
        return self.outlet.rejected

    def events(self) -> AsyncGenerator[BaseEvent, None]:
        """Play in the caller's task; whatever ends it, the layers hear of it once."""
        record = self.record
        is_direct = record.program.is_direct and record.trace is None
        return play_directly(self) if is_direct else self.play_nested()

    async def play_nested(self) -> AsyncGenerator[BaseEvent, None]:
        """Play the streams of its layers, each inside the next one further out."""
        async with self:
            for event in await self.begin():
                self.take(event)
                yield event
            if self._pipeline is not None and self.end is None:
                self.source = source = self._pipeline.outermost(self.record.input)
                waiting, outlet, take = self.record.outbox, self.outlet, self.take
                kind, is_call, id_, add = NOTHING
                passed = 0
                inner: Any
                async for inner in source:
                    if (
                        inner.__class__ is kind
                        and (inner.tool_call_id if is_call else inner.message_id) == id_
                        and inner.subagent_run_id is None
                        and inner.metadata is None
                        and not waiting
                    ):
                        passed += 1
                        add(inner.delta)
                        yield inner
                        continue
                    if passed:
                        outlet.count(passed)
                        passed = 0
                    for event in self._with_emitted(inner) if waiting else outlet.push(inner):
                        take(event)
                        yield event
                    if outlet.terminal is not None:
                        self._goes_on = inner.__class__ in TERMINAL_CLASSES
                        break
                    kind, is_call, id_, add = self.going_on(inner)
                for event in self.truncated():
                    self.take(event)
                    yield event

    async def __aenter__(self) -> Self:
        self.record.open_runs.check()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Fix the outcome that the stream was left with, and unwind."""
        driven = error is None
        if isinstance(error, GeneratorExit):
            driven = self.end is not None
            self._warn_if_dropped()
            self._abort("the consumer is gone", "consumer-gone")
        elif isinstance(error, asyncio.CancelledError):
            self._abort("the task was cancelled", "cancelled")
        elif error is not None:
            self._fail(error)
        await self._finish(driven=driven)

    async def begin(self) -> Sequence[BaseEvent]:
        """Set up the layers; returns the whole stream of a run that ends right there."""
        record = self.record
        boundary = Boundary(record, MIDDLEWARE_FAILED)
        with boundary:
            record.open()
            self._pipeline = Pipeline(record)
            await self._pipeline.begin()
            self._pipeline.offer_history()
        return [event for ended in boundary.events for event in self.outlet.push(ended)]

    def push(self, inner: BaseEvent) -> Iterable[BaseEvent]:
        """Return what is to be taken and handed over for one that leaves the outermost layer."""
        return self._with_emitted(inner) if self.record.outbox else self.outlet.push(inner)

    def truncated(self) -> Sequence[BaseEvent]:
        """Return the ending of a run whose stream has stopped; nothing if it had its terminal."""
        return () if self.outlet.terminal is not None else self.outlet.truncated()

    def going_on(self, event: BaseEvent) -> GoingOn:
        """Return the message or call that may go on after an event of it has been handed over."""
        kind = DELTAS.get(event.__class__)
        if kind is None:
            return NOTHING
        is_call = kind is ToolCallArgsEvent
        id_: str = event.tool_call_id if is_call else event.message_id  # type: ignore[attr-defined]
        add = adder(self.fold, kind, id_) if self.outlet.is_open(kind, id_) else None
        return NOTHING if add is None else GoingOn(kind, is_call, id_, add)

    def _with_emitted(self, inner: BaseEvent) -> Iterator[BaseEvent]:
        """Yield what is handed over for an event, and for those that were emitted before it."""
        waiting = self.record.outbox
        if inner.type is EventType.RUN_STARTED:
            yield from self.outlet.push(inner)
        while waiting:
            yield from self.outlet.push(waiting.pop(0))
        self.record.unusual.discard("outbox")
        if inner.type is not EventType.RUN_STARTED:
            yield from self.outlet.push(inner)

    def take(self, event: BaseEvent) -> None:
        """Fold an event that is handed over now; a terminal fixes the outcome."""
        self.fold.apply(event)
        if event is self.outlet.terminal and self.end is None:
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
        if self.end is None:
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
            await self._close(driven=driven)
        finally:
            begun = () if self._pipeline is None else self._pipeline.begun
            if ending.is_awaited(begun, end):
                # A task of the host's: it goes on when this one is cancelled while it waits.
                concluding = self._conclude(end)
                name = f"end of run {record.run_id!r}"
                await asyncio.shield(record.program.tasks.spawn(concluding, name))
            else:
                self._concluded()

    async def _close(self, *, driven: bool) -> None:
        source = self.source
        if isinstance(source, Way):
            await source.aclose()
            return
        try:
            if driven and self._goes_on and source is not None:
                await drain(self.record, source, "the run")
        finally:
            await close(self.record, source, "the run")

    async def _conclude(self, end: EndInfo) -> None:
        record = self.record
        try:
            if self._pipeline is not None:
                await ending.call_terminal_hooks(record, self._pipeline.begun, end)
        finally:
            self._concluded()

    def _concluded(self) -> None:
        record = self.record
        record.close()
        if record.deferred:
            work = ending.run_deferred(record)
            record.program.tasks.spawn(work, f"deferred work of run {record.run_id!r}")
