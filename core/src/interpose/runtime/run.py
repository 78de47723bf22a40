"""One run as its caller sees it: iterate over its events, or await its result."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from ag_ui.core import BaseEvent, EventType, Interrupt, Message, TokenUsage
from typing_extensions import TypeVar

from interpose.agui import Transcript
from interpose.errors import RunError, UsageError
from interpose.payloads import EndInfo, ErrorInfo, FinishInfo
from interpose.runtime import ending
from interpose.runtime.boundary import Boundary
from interpose.runtime.closing import close, drain
from interpose.runtime.failure import AGENT_FAILED, MIDDLEWARE_FAILED
from interpose.runtime.outlet import Outlet
from interpose.runtime.pipeline import Pipeline

if TYPE_CHECKING:
    from interpose.runtime.record import RunRecord

Out = TypeVar("Out", default=None)
Outcome = Literal["success", "interrupt", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class RunResult(Generic[Out]):
    """What a run came to, folded from the events that left the outermost layer.

    ``text``: the last assistant message of the run. ``messages`` and ``state``: the conversation
    after it. ``result``: RUN_FINISHED's own. ``error``: the original exception of a failed run,
    for the application; the consumer saw only a safe text. ``output``: structured output, where
    the agent gives one.
    """

    outcome: Outcome
    text: str
    messages: tuple[Message, ...]
    state: Any
    output: Out = field(default=None)  # type: ignore[assignment]
    result: Any = None
    usage: tuple[TokenUsage, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    error: BaseException | None = field(default=None, repr=False)


class Run(Generic[Out]):
    """One execution of an agent through its layers. Made by ``host.run``; good for one use.

    * ``async for event in run``: the events, as they leave the outermost layer;
    * ``await run``: the :class:`RunResult`; it never raises for a failed run;
    * ``async with run``: closes the run at the end of the block, however it is left.

    A run begins when it is first iterated or awaited, in the task that does so.
    """

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._stream: AsyncGenerator[BaseEvent, None] | None = None
        self._end: EndInfo | None = None
        self._pipeline: Pipeline | None = None
        self._source: AsyncGenerator[BaseEvent, None] | None = None
        self._fold = Transcript(record.input.messages, record.input.state)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._record.run_id

    @property
    def thread_id(self) -> str:
        """The id of the conversation."""
        return self._record.thread_id

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run with the cancelled outcome; from any task of the loop, more than once.

        It takes effect at once while the run awaits its agent, otherwise at the next step.
        """
        self._record.cancel(reason)

    def __aiter__(self) -> AsyncIterator[BaseEvent]:
        if self._stream is not None:
            raise UsageError(
                "a run can be used once, and this one has been", hint="call host.run again"
            )
        self._stream = self._play()
        self._record.stream = weakref.ref(self._stream)
        return self._stream

    def __await__(self) -> Generator[Any, Any, RunResult[Out]]:
        return self._outcome().__await__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the run if it is still open: generators closed, terminal hooks called."""
        if self._stream is not None:
            await self._stream.aclose()

    async def _outcome(self) -> RunResult[Out]:
        if self._end is None:
            stream = aiter(self)
            try:
                async for _ in stream:
                    pass
            finally:
                await self.aclose()
        return self._result()

    def _result(self) -> RunResult[Out]:
        info = None if self._end is None else self._end.info
        outcome: Outcome
        error: BaseException | None = None
        if isinstance(info, FinishInfo):
            outcome = info.outcome
        elif isinstance(info, ErrorInfo):
            outcome, error = "error", info.error
        else:
            outcome = "cancelled"
        finished = info if isinstance(info, FinishInfo) else None
        return RunResult(
            outcome=outcome,
            text=self._fold.text,
            messages=self._fold.messages,
            state=self._fold.state,
            result=finished.result if finished else None,
            usage=finished.usage if finished else (),
            interrupts=finished.interrupts if finished else (),
            error=error,
        )

    async def _play(self) -> AsyncGenerator[BaseEvent, None]:
        """Drive the run in the caller's task; whatever ends it, the layers hear of it once."""
        outlet = Outlet(self._record)
        driven = True
        try:
            for event in await self._begin(outlet):
                self._take(event)
                yield event
            if self._source is not None:
                async for inner in self._source:
                    for event in self._leaving(outlet, inner):
                        self._take(event)
                        yield event
                    if outlet.terminal is not None:
                        break
                else:
                    for event in outlet.truncated():
                        self._take(event)
                        yield event
        except GeneratorExit:
            driven = self._end is not None
            self._abort("the consumer is gone", "consumer-gone")
            raise
        except asyncio.CancelledError:
            driven = False
            self._abort("the task was cancelled", "cancelled")
            raise
        finally:
            await self._finish(driven=driven)

    async def _begin(self, outlet: Outlet) -> Sequence[BaseEvent]:
        """Set up the layers; returns the whole stream of a run that ends right there."""
        record = self._record
        boundary = Boundary(record, MIDDLEWARE_FAILED)
        with boundary:
            record.open()
            self._pipeline = Pipeline(record)
            self._source = self._pipeline.outermost(await self._pipeline.begin())
        return [event for ended in boundary.events for event in outlet.push(ended)]

    def _leaving(self, outlet: Outlet, inner: BaseEvent) -> Iterator[BaseEvent]:
        """Yield what is handed over for an event that left the outermost layer."""
        record = self._record
        while record.outbox:
            yield from outlet.push(record.outbox.pop(0))
        yield from outlet.push(inner)

    def _abort(self, reason: str, cause: Literal["cancelled", "consumer-gone"]) -> None:
        """Fix the outcome of a run that is not driven on, unless its terminal was handed over."""
        if self._end is None:
            self._end = ending.aborted(self._record, reason, cause)

    def _take(self, event: BaseEvent) -> None:
        """Fold an event that is handed over now; a terminal fixes the outcome."""
        self._fold.apply(event)
        if event.type is EventType.RUN_FINISHED or event.type is EventType.RUN_ERROR:
            self._end = ending.of_event(self._record, event)
            self._record.ended = True

    async def _finish(self, *, driven: bool) -> None:
        """Unwind the layers; when the run was ``driven`` to its end, let them go on to theirs."""
        record = self._record
        program = record.program
        record.ended = True
        record.phase = "end"
        if self._end is None:
            error = RunError("the run ended without a terminal event")
            self._end = ending.of_event(record, record.failures.event(error, AGENT_FAILED))
        if isinstance(self._end.info, ErrorInfo):
            self._report(self._end.info)
        try:
            if driven and self._source is not None:
                await drain(self._source, program.ending_deadline, "the run")
            await close(self._source, program.ending_deadline, "the run")
        finally:
            if self._pipeline is not None and self._pipeline.begun:
                hooks = ending.call_terminal_hooks(record, self._pipeline.begun, self._end)
                name = f"terminal hooks of run {record.run_id}"
                await asyncio.shield(program.tasks.spawn(hooks, name))
            record.close()
            if record.deferred:
                work = ending.run_deferred(record)
                program.tasks.spawn(work, f"deferred work of run {record.run_id}")

    def _report(self, info: ErrorInfo) -> None:
        record = self._record
        record.log("host").opt(exception=info.error).error("run failed: {}", info.code)

    def __repr__(self) -> str:
        return f"<Run {self.run_id} of agent {self._record.agent}>"
