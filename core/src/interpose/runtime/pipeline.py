"""The chain of one run as nested streams, the plain form: one generator per layer.

Between two layers a stream has one face: it never raises an ``Exception``; a failure is a
RUN_ERROR event. Around hooks get the other face (see :mod:`interpose.runtime.failure`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from ag_ui.core import BaseEvent, EventType, RunAgentInput, RunErrorEvent

from interpose.agui import KNOWN_EVENTS, Expander
from interpose.authoring import Point
from interpose.errors import MiddlewareError, TruncatedStream
from interpose.runtime.attempts import Attempts
from interpose.runtime.boundary import Boundary
from interpose.runtime.checking import verified
from interpose.runtime.closing import close, close_all
from interpose.runtime.control import EndRun
from interpose.runtime.edge import TERMINAL_CLASSES, Events, play_agent
from interpose.runtime.failure import AGENT_FAILED, MIDDLEWARE_FAILED
from interpose.runtime.gate import Gate
from interpose.runtime.handling import expanded, handle, hook_stream
from interpose.runtime.layer import Frame


class Pipeline(Attempts):
    """Plays one run through its layers."""

    __slots__ = ()

    @property
    def is_plain(self) -> bool:
        """Whether the nested form is played: it can be watched between any two layers."""
        return self.record.program.strict or self.record.trace is not None

    def offer_history(self) -> None:
        """Let an agent that offers HISTORY play the layers inside the cut itself."""
        self.record.rewriting_of = self._rewritten
        if Point.HISTORY in self.record.program.points:
            self.record.rewriting = self._rewriting
            self.record.rewriting_end = self._rewriting_end

    def outermost(self, run_input: RunAgentInput) -> Events:
        """Return the stream that leaves the outermost layer, chunks expanded."""
        source = self.leaving(0, run_input)
        return self._expand(source) if self._raw(0) else source

    def leaving(self, index: int, run_input: RunAgentInput) -> Events:
        """Return the stream that leaves the layer at ``index`` (0 is the outermost)."""
        program = self.record.program
        layers = program.layers
        if index == program.stop:
            stream = play_agent(self.record, run_input, expand=not self._raw(index - 1))
        elif "around_run" in layers[index].facts.hooks and not self._frame(index).skipped:
            stream = self._around(index, run_input)
        else:
            stream = self.entering(index, run_input)
        return self._watched(index, stream) if self.is_plain else stream

    def _watched(self, index: int, stream: Events) -> Events:
        """Return the stream that leaves ``index`` with what strict and tracing do to it."""
        record = self.record
        layers = record.program.layers
        giver = layers[index].id if index < record.program.stop else None
        if record.program.strict:
            stream = verified(record, stream, "the agent" if giver is None else f"layer {giver!r}")
        if record.trace is not None:
            taker = layers[index - 1].id if index else None
            stream = record.trace.between(giver, taker, stream)
        return stream

    def entering(self, index: int, run_input: RunAgentInput) -> Events:
        """Return the stream as the layer's own ``around_run`` gets it: through its event hooks.

        Through a compiled segment, that takes the hooks of the next layers further in along.
        """
        segment = None if self.is_plain else self.record.program.segments.get(index)
        stop = index + 1 if segment is None else segment.stop
        source = self.leaving(stop, run_input)
        if self._raw(stop) and not self._raw(index):
            source = self._expand(source)
        if segment is not None:
            return segment.stream(self.record, source)
        frame = self._frame(index)
        return hook_stream(self.record, frame, source) if frame.layer.has_events else source

    async def _rewriting(self, events: AsyncIterator[BaseEvent]) -> Events:
        """Pass what the agent's model said through the layers inside the history cut."""
        stream = self._inside_the_cut(_whole(events))
        try:
            async for event in stream:
                if event.type is EventType.RUN_ERROR:
                    failed = cast("RunErrorEvent", event)
                    if self.record.failures.original(failed) is not None:
                        raise self.record.failures.exception(failed)
                yield event
        finally:
            await self._close(stream)
            await self._close(events)

    async def _rewriting_end(self, events: Sequence[BaseEvent]) -> Events:
        """Pass the ending of a run that was cut short through them: they flush what they hold."""
        stream = self._inside_the_cut(_each_of(events))
        try:
            async for event in stream:
                yield event
        finally:
            await self._close(stream)

    async def _rewritten(self, layer: str, event: BaseEvent) -> Sequence[BaseEvent]:
        """Pass an event that a layer brings itself through the rewriters further in."""
        events: Sequence[BaseEvent] = (event,)
        layers = self.record.program.layers
        for inner in reversed(layers):
            if inner.id == layer:
                break
            if inner.declaration.rewrites_history and inner.has_events:
                frame = self.record.frames[inner.id]
                events = [
                    out for each in events for out in expanded(frame, await handle(frame, each))
                ]
        return events

    def _inside_the_cut(self, stream: Events) -> Events:
        program = self.record.program
        for index in reversed(range(program.stop, len(program.layers))):
            if program.layers[index].has_events:
                stream = hook_stream(self.record, self._frame(index), stream)
        return stream

    def takes_emitted(self, index: int) -> bool:
        """Whether events emitted for the layer enter its stream before ``around_run`` gets it."""
        program = self.record.program
        compiled = not self.is_plain and index in program.segments
        return compiled or program.layers[index].has_events

    def _raw(self, index: int) -> bool:
        layers = self.record.program.layers
        return 0 <= index < len(layers) and layers[index].declaration.form == "raw"

    def _frame(self, index: int) -> Frame:
        return self.record.frames[self.record.program.layers[index].id]

    async def _expand(self, source: Events) -> Events:
        """Expand chunks outside the raw layers."""
        expander = Expander()
        boundary = Boundary(self.record, AGENT_FAILED)
        try:
            with boundary:
                async for event in source:
                    for part in expander.push(event):
                        yield part
        finally:
            await self._close(source)
        for event in boundary.events:
            yield event

    async def _around(self, index: int, run_input: RunAgentInput) -> Events:
        """Let a layer's ``around_run`` wrap the stream that its event hooks have seen."""
        frame = self._frame(index)
        gate = Gate(self, index, frame, run_input)
        boundary = Boundary(self.record, MIDDLEWARE_FAILED)
        stream: Any = None
        try:
            with boundary:
                try:
                    stream = _checked_stream(
                        frame, frame.instance.around_run(frame.ctx, run_input, gate)
                    )
                    while True:
                        left = await self._step(frame, stream, gate)
                        if left is None:
                            yield _last(frame, gate)
                            return
                        for out in gate.leaving(left):
                            yield out
                            if out.__class__ in TERMINAL_CLASSES:
                                await self._run_out(frame, stream)
                                return
                except Exception as error:
                    if error is gate.raised:
                        raise
                    if not frame.fail("around_run", error):
                        frame.blame("around_run", error)
                        raise
                async for event in gate.without_layer(run_input):
                    yield event
        finally:
            # The inner part first, as if the layer had nested them itself.
            inner = gate.close()
            await close_all(self.record, *inner, (stream, f"layer {frame.layer.id}"))
        for event in boundary.events:
            yield event

    async def _step(
        self, frame: Frame, stream: AsyncIterator[BaseEvent], gate: Gate | None = None
    ) -> BaseEvent | None:
        """Return the next event of a layer's ``around_run``; None: it has ended.

        With ``gate``: a layer that answers by itself hears here that the run is to stop.
        """
        step = anext(stream, None)
        deadline = frame.around_deadline
        event = await (step if deadline is None else deadline.run(step))
        record = self.record
        is_idle = record.verdict is not None and gate is not None and gate.is_idle
        if is_idle and record.cancelled and not record.verdict_given:
            raise EndRun
        if event.__class__ in KNOWN_EVENTS or event is None or isinstance(event, BaseEvent):
            return event
        raise MiddlewareError(
            f"around_run of layer {frame.layer.id!r} yielded a {type(event).__name__}",
            hint="yield events of ag_ui.core, one by one",
        )

    async def _run_out(self, frame: Frame, stream: AsyncIterator[BaseEvent]) -> None:
        """Let a layer do what it does after the terminal; nothing of it changes the run."""
        try:
            while (event := await self._step(frame, stream)) is not None:
                frame.ctx.log.warning("{} came after the terminal", event.type.value)
        except EndRun:
            return
        except Exception as error:  # noqa: BLE001 - nothing fails a run after its terminal
            self.record.report(frame.layer.id, error, "around_run failed after the terminal")

    async def _close(self, stream: Any, owner: str = "the inner run") -> None:
        await close(self.record, stream, owner)


async def _each_of(events: Sequence[BaseEvent]) -> Events:
    for event in events:
        yield event


async def _whole(events: AsyncIterator[BaseEvent]) -> Events:
    """Expand the chunks of one model call, and end what they opened with it."""
    expander = Expander()
    async for event in events:
        for part in expander.push(event):
            yield part
    for part in expander.close():
        yield part


def _last(frame: Frame, gate: Gate) -> BaseEvent:
    """Return the terminal of an ``around_run`` that has ended without giving one now."""
    last = gate.last()
    if last is None:
        raise TruncatedStream(
            f"around_run of layer {frame.layer.id!r} ended without RUN_FINISHED or RUN_ERROR."
        )
    return last


def _checked_stream(frame: Frame, stream: Any) -> AsyncIterator[BaseEvent]:
    if hasattr(stream, "__anext__"):
        return stream  # type: ignore[no-any-return]
    if asyncio.iscoroutine(stream):
        stream.close()
    raise MiddlewareError(
        f"around_run of layer {frame.layer.id!r} returned a {type(stream).__name__}, not a stream",
        hint="make it an async generator",
    )
