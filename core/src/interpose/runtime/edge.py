"""The agent's edge: its events as the innermost layer gets them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final

from ag_ui.core import BaseEvent, EventType, RunAgentInput, RunFinishedEvent

from interpose.agui import CHUNKS, Compatibility, Expander, Stripper
from interpose.context import AgentContext
from interpose.errors import TruncatedStream
from interpose.runtime.boundary import Boundary
from interpose.runtime.closing import close
from interpose.runtime.control import EndRun
from interpose.runtime.failure import AGENT_FAILED
from interpose.runtime.halves import Halves
from interpose.runtime.record import RunRecord

Events = AsyncGenerator[BaseEvent, None]
TERMINALS: Final = frozenset({EventType.RUN_FINISHED, EventType.RUN_ERROR})


async def play_agent(record: RunRecord, run_input: RunAgentInput, *, expand: bool) -> Events:
    """Play the agent: older forms read, unknown content stripped, chunks expanded.

    What it raises becomes events.
    """
    expander = Expander() if expand else None
    stripper = Stripper(Compatibility())
    halves = Halves()
    iterator: AsyncIterator[BaseEvent] | None = None
    boundary = Boundary(record, AGENT_FAILED)
    try:
        with boundary:
            record.loop.begin()
            ctx = AgentContext(record, record.agent)
            iterator = aiter(record.program.make_agent().run(run_input, ctx))
            while True:
                event = stripper.admit(await _from_agent(record, iterator))
                if stripper.warnings:
                    _warn(record, stripper)
                if event is None:
                    continue
                delta = getattr(event, "delta", None)
                if halves.held or (delta.__class__ is str and not delta.isascii()):
                    event = halves.join(event)
                record.current = event
                if expander is None or (expander.idle and event.__class__ not in CHUNKS):
                    yield event
                else:
                    for part in expander.push(event):
                        yield part
                record.event_index += 1
                if event.type in TERMINALS:
                    return
    finally:
        if iterator is not None:
            await close(record, iterator, "the agent")
    for event in await _ending(record, boundary):
        yield event


async def _ending(record: RunRecord, boundary: Boundary) -> Sequence[BaseEvent]:
    """Return how a stream that was cut short ends: results for open calls, then the terminal.

    Layers inside the history cut see it, too: they have a text to mask, or to flush before it.
    """
    if not boundary.events:
        return ()
    events = _complete(record, boundary.events)
    if record.rewriting_end is None:
        return events
    return [event async for event in record.rewriting_end(events)]


def _complete(record: RunRecord, events: Sequence[BaseEvent]) -> Sequence[BaseEvent]:
    unfinished = record.loop.unfinished
    if unfinished is None:
        return events
    *others, terminal = events
    used = record.failures.used()
    if isinstance(terminal, RunFinishedEvent) and used:
        terminal = terminal.model_copy(update={"usage": list(used)})
    return (*unfinished(), *others, terminal)


async def _from_agent(record: RunRecord, iterator: AsyncIterator[BaseEvent]) -> BaseEvent:
    """Return the agent's next event, unless the run is to end."""
    event: BaseEvent | None = None
    if record.verdict is None:
        record.await_agent()
        try:
            event = await anext(iterator, None)
        finally:
            record.has_agent()
    if record.verdict is not None:
        # Swallowing a cancellation, or ctx.abort, does not help: the record counts.
        record.absorb_cancel()
        raise EndRun
    if event is None:
        raise TruncatedStream("The agent's stream ended without RUN_FINISHED or RUN_ERROR.")
    if not record.loop.started:
        await record.loop.start()  # an agent that offers MODEL, and never asked on_config
    return event


def _warn(record: RunRecord, stripper: Stripper) -> None:
    for warning in stripper.warnings:
        if warning not in record.warned:  # an earlier attempt's agent may have said the same
            record.warned.add(warning)
            record.log(record.agent).warning("{}", warning)
    stripper.warnings.clear()
