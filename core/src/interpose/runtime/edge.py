"""The agent's edge: its events as the innermost layer gets them."""

from __future__ import annotations

from asyncio import current_task
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Final

from ag_ui.core import BaseEvent, EventType, RunAgentInput, RunErrorEvent, RunFinishedEvent

from interpose.agui import CHUNKS, Compatibility, Expander, Stripper
from interpose.agui.stripping import PLAIN_EVENTS
from interpose.context import AgentContext
from interpose.errors import TruncatedStream
from interpose.runtime.boundary import Boundary
from interpose.runtime.closing import close
from interpose.runtime.control import EndRun
from interpose.runtime.failure import AGENT_FAILED
from interpose.runtime.going_on import DELTA_CLASSES
from interpose.runtime.halves import DELTAS, Halves
from interpose.runtime.record import RunRecord

Events = AsyncGenerator[BaseEvent, None]
TERMINALS: Final = frozenset({EventType.RUN_FINISHED, EventType.RUN_ERROR})
TERMINAL_CLASSES: Final = frozenset({RunFinishedEvent, RunErrorEvent})


class Edge:
    """Where an agent's events enter a run: each is admitted, or ends it.

    Older forms are read, unknown content is stripped, chunks are expanded. ``boundary``: what the
    agent raises becomes events. ``interruption``: says when a task awaits the agent. ``admitted``:
    how many events were, so far. ``is_over``: the last one was the agent's terminal.
    """

    __slots__ = ("_expander", "_halves", "_iterator", "_record", "_stripper", "admitted",
                 "boundary", "interruption", "is_over")  # fmt: skip

    def __init__(self, record: RunRecord, *, expand: bool) -> None:
        self.boundary = Boundary(record, AGENT_FAILED)
        self.interruption = record.interruption
        self.admitted = 0
        self.is_over = False
        self._record = record
        self._expander = Expander() if expand else None
        self._stripper: Stripper | None = None
        self._halves = Halves()
        self._iterator: AsyncIterator[BaseEvent] | None = None

    def open(self, run_input: RunAgentInput) -> AsyncIterator[Any]:
        """Begin the agent, and return its events; it may give anything at all."""
        record = self._record
        record.loop.begin()
        ctx = AgentContext(record, record.agent)
        self._iterator = aiter(record.program.make_agent().run(run_input, ctx))
        self.check()
        self.interruption.begin()
        return self._iterator

    @property
    def is_calm(self) -> bool:
        """Whether nothing is held back or assembled: the next event can be judged by itself."""
        return not self._halves.held and (self._expander is None or self._expander.idle)

    def check(self) -> None:
        """Leave the run if it has a verdict: the agent is not asked for more.

        Swallowing a cancellation, or ``ctx.abort``, does not help an agent: the record counts.
        """
        if self._record.verdict is not None:
            self._record.absorb_cancel()
            raise EndRun

    @property
    def awaits_start(self) -> bool:
        """Whether the loop's hooks have not begun: an agent with MODEL that never asked them."""
        return not self._record.loop.started

    async def start(self) -> None:
        """Begin them."""
        self.check()
        await self._record.loop.start()

    def admit(self, event: Any) -> Sequence[BaseEvent]:
        """Return what the innermost layer gets for an event of the agent."""
        self.check()
        record = self._record
        is_plain = event.__class__ in PLAIN_EVENTS and not event.__pydantic_extra__
        known: BaseEvent | None = event if is_plain else self._stripped(event)
        if known is None:
            return ()
        if self._halves.held or known.__class__ in DELTAS:
            known = self._halves.join(known)
        record.current = known
        record.event_index = self.admitted
        self.admitted += 1
        self.is_over = known.__class__ in TERMINAL_CLASSES
        expander = self._expander
        if expander is None or (expander.idle and known.__class__ not in CHUNKS):
            return (known,)
        return expander.push(known)

    def _stripped(self, event: Any) -> BaseEvent | None:
        if self._stripper is None:
            self._stripper = Stripper(Compatibility())
        known = self._stripper.admit(event)
        if self._stripper.warnings:
            _warn(self._record, self._stripper)
        return known

    async def close(self) -> None:
        """Close the agent."""
        self.interruption.end()
        iterator, self._iterator = self._iterator, None
        if iterator is not None:
            await close(self._record, iterator, "the agent")

    async def ending(self) -> Sequence[BaseEvent]:
        """Return how a stream ends that was cut short: results for open calls, then the terminal.

        Layers inside the history cut see it, too: they have a text to mask, or to flush before it.
        """
        record = self._record
        if not self.boundary.events:
            return ()
        events = _complete(record, self.boundary.events)
        if record.rewriting_end is None:
            return events
        return [event async for event in record.rewriting_end(events)]


def truncated() -> TruncatedStream:
    """Return the failure of an agent that gave no terminal."""
    return TruncatedStream("The agent's stream ended without RUN_FINISHED or RUN_ERROR.")


async def play_agent(record: RunRecord, run_input: RunAgentInput, *, expand: bool) -> Events:
    """Yield an agent's events as the innermost layer gets them."""
    edge = Edge(record, expand=expand)
    interruption = edge.interruption
    try:
        with edge.boundary:
            is_calm = False
            async for event in edge.open(run_input):
                interruption.awaiting = None
                if (
                    is_calm
                    and event.__class__ in DELTA_CLASSES
                    and not event.__pydantic_extra__
                    and event.delta.isascii()
                    and record.verdict is None
                ):
                    # Whole by itself: nothing to strip, to expand or to join.
                    record.current = event
                    record.event_index = edge.admitted
                    edge.admitted += 1
                    yield event
                else:
                    if edge.awaits_start:
                        await edge.start()
                    for part in edge.admit(event):
                        yield part
                    if edge.is_over:
                        return
                    is_calm = edge.is_calm
                if record.verdict is not None:
                    edge.check()
                interruption.awaiting = current_task()
            edge.check()
            raise truncated()
    finally:
        record.event_index = edge.admitted
        await edge.close()
    for event in await edge.ending():
        yield event


def _complete(record: RunRecord, events: Sequence[BaseEvent]) -> Sequence[BaseEvent]:
    unfinished = record.loop.unfinished
    if unfinished is None:
        return events
    *others, terminal = events
    used = record.failures.used()
    if isinstance(terminal, RunFinishedEvent) and used:
        terminal = terminal.model_copy(update={"usage": list(used)})
    return (*unfinished(), *others, terminal)


def _warn(record: RunRecord, stripper: Stripper) -> None:
    for warning in stripper.warnings:
        if warning not in record.warned:  # an earlier attempt's agent may have said the same
            record.warned[warning] = None
            record.log(record.agent).warning("{}", warning)
    stripper.warnings.clear()
