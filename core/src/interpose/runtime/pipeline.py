"""The chain of one run as nested streams, the plain form: one generator per layer.

Between two layers a stream has one face: it never raises an ``Exception``; a failure is a
RUN_ERROR event. Around hooks get the other face (see :mod:`interpose.runtime.failure`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any, Final

from ag_ui.core import BaseEvent, EventType, RunAgentInput

from interpose.agui import CHUNKS, Expander, Stripper, Transcript
from interpose.context import AgentContext
from interpose.errors import MiddlewareError, TruncatedStream
from interpose.events import DROP
from interpose.runtime import ending
from interpose.runtime.boundary import Boundary
from interpose.runtime.closing import close
from interpose.runtime.control import EndRun
from interpose.runtime.failure import AGENT_FAILED, MIDDLEWARE_FAILED
from interpose.runtime.gate import Gate
from interpose.runtime.layer import Frame, Handler
from interpose.runtime.record import RunRecord

Events = AsyncGenerator[BaseEvent, None]
TERMINALS: Final = frozenset({EventType.RUN_FINISHED, EventType.RUN_ERROR})


class Pipeline:
    """Plays one run through its layers; ``record.frames`` holds the current attempts' instances."""

    __slots__ = ("_ends", "begun", "record")

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.begun: list[Frame] = []
        """The frames whose setup has finished, in that order: each is owed a terminal hook."""
        self._ends: dict[int, BaseEvent] = {}

    # Beginning -------------------------------------------------------------------------------
    async def begin(self) -> RunAgentInput:
        """Set up all layers, let them see the input, and tell them that the run begins."""
        record = self.record
        await self._set_up([layer.id for layer in record.program.layers], attempt=1)
        for layer in record.program.layers:
            frame = record.frames[layer.id]
            if frame.has("on_input"):
                await self._input(frame)
        for layer in record.program.layers:
            frame = record.frames[layer.id]
            if frame.layer.declaration.tracks_state:
                frame.transcript = Transcript(record.input.messages, record.input.state)
        record.phase = "stream"
        for layer in record.program.layers:
            frame = record.frames[layer.id]
            if frame.has("on_start"):
                await frame.observe("on_start")
        return record.input

    async def _set_up(self, layer_ids: Sequence[str], attempt: int) -> None:
        record = self.record
        wanted = set(layer_ids)
        for layer in record.program.layers:
            if layer.id in wanted:
                record.frames[layer.id] = Frame(layer, record, attempt)
        for layer_id in record.program.setup_order:
            if layer_id not in wanted:
                continue
            frame = record.frames[layer_id]
            if frame.has("setup"):
                record.setting_up = layer_id
                try:
                    await frame.call("setup")
                except Exception as error:
                    if not frame.fail("setup", error):
                        raise
                    continue
                finally:
                    record.setting_up = None
            missing = [c.name for c in frame.layer.run_provides if not record.provided(c)]
            if missing:
                raise MiddlewareError(
                    f"setup of layer {layer_id!r} did not provide {', '.join(missing)}",
                    hint="call ctx.provide(CAPABILITY, value) in setup",
                )
            self.begun.append(frame)

    async def _input(self, frame: Frame) -> None:
        record = self.record
        try:
            changed = await frame.call("on_input", record.input)
            if changed is None:
                return
            if frame.layer.declaration.observes_only and changed is not record.input:
                raise MiddlewareError(
                    f"layer {frame.layer.id!r} observes only, but its on_input returned an input"
                )
            if not isinstance(changed, RunAgentInput):
                raise MiddlewareError(
                    f"on_input of layer {frame.layer.id!r} returned a "
                    f"{type(changed).__name__}, not a RunAgentInput or None"
                )
            if (changed.run_id, changed.thread_id) != (record.run_id, record.thread_id):
                raise MiddlewareError(
                    f"on_input of layer {frame.layer.id!r} changed the run's or the thread's id"
                )
        except Exception as error:
            if not frame.fail("on_input", error):
                raise
        else:
            record.input = changed

    # The streams -----------------------------------------------------------------------------
    def leaving(self, index: int, run_input: RunAgentInput) -> Events:
        """Return the stream that leaves the layer at ``index`` (0 is the outermost)."""
        layers = self.record.program.layers
        if index == len(layers):
            return self._edge(run_input)
        if "around_run" in layers[index].facts.hooks and not self._frame(index).skipped:
            return self._around(index, run_input)
        return self.entering(index, run_input)

    def entering(self, index: int, run_input: RunAgentInput) -> Events:
        """Return the stream as the layer's own ``around_run`` gets it: through its event hooks."""
        layers = self.record.program.layers
        source = self.leaving(index + 1, run_input)
        is_raw = layers[index].declaration.form == "raw"
        if not is_raw and index + 1 < len(layers) and self._raw(index + 1):
            source = self._expand(source)
        return self._hooks(self._frame(index), source) if layers[index].has_stage else source

    def _raw(self, index: int) -> bool:
        return self.record.program.layers[index].declaration.form == "raw"

    def _frame(self, index: int) -> Frame:
        return self.record.frames[self.record.program.layers[index].id]

    async def _edge(self, run_input: RunAgentInput) -> Events:
        """Play the agent: unknown content stripped, chunks expanded, failures as events."""
        record = self.record
        layers = record.program.layers
        expander = None if layers and self._raw(len(layers) - 1) else Expander()
        stripper = Stripper()
        iterator: AsyncIterator[BaseEvent] | None = None
        boundary = Boundary(record, AGENT_FAILED)
        try:
            with boundary:
                ctx = AgentContext(record, record.agent)
                iterator = aiter(record.program.make_agent().run(run_input, ctx))
                while True:
                    event = stripper.admit(await self._from_agent(iterator))
                    if stripper.warnings:
                        self._warn(stripper)
                    if event is None:
                        continue
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
            await self._close(iterator, "the agent")
        for event in boundary.events:
            yield event

    async def _from_agent(self, iterator: AsyncIterator[BaseEvent]) -> BaseEvent:
        record = self.record
        if record.verdict is not None:
            record.absorb_cancel()
            raise EndRun
        record.await_agent(asyncio.current_task())
        try:
            return await anext(iterator)
        except StopAsyncIteration:
            raise TruncatedStream(
                "The agent's stream ended without RUN_FINISHED or RUN_ERROR."
            ) from None
        finally:
            record.await_agent(None)

    def _warn(self, stripper: Stripper) -> None:
        for warning in stripper.warnings:
            self.record.log(self.record.agent).warning("{}", warning)
        stripper.warnings.clear()

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

    async def _hooks(self, frame: Frame, source: Events) -> Events:
        """Pass events through the hooks of one layer, innermost first."""
        expander = Expander() if frame.layer.declaration.form == "expanded" else None
        boundary = Boundary(self.record, MIDDLEWARE_FAILED)
        try:
            with boundary:
                async for event in source:
                    frame.inbox.append(event)
                    while frame.inbox:
                        returned = await self._handle(frame, frame.inbox.pop(0))
                        for out in _expanded(expander, returned):
                            yield out
        finally:
            await self._close(source)
        for event in boundary.events:
            yield event

    @staticmethod
    async def _handle(frame: Frame, event: BaseEvent) -> Sequence[BaseEvent]:
        if frame.transcript is not None:
            frame.transcript.apply(event)
        if frame.assembler is not None:
            for hook, args in frame.assembler.push(event):
                if frame.has(hook):
                    await frame.observe(hook, *args)
        if frame.skipped:
            return (event,)
        handler = frame.layer.handler(event.__class__)
        if handler is None:
            return (event,)
        try:
            result = handler.function(frame.instance, frame.ctx, event)
            result = await frame.settle(handler.name, result, is_async=handler.is_async)
            return _returned(frame, handler, event, result)
        except Exception as error:
            if not frame.fail(handler.name, error):
                raise
            return (event,)

    async def _around(self, index: int, run_input: RunAgentInput) -> Events:
        """Let a layer's ``around_run`` wrap the stream that its event hooks have seen."""
        frame = self._frame(index)
        gate = Gate(self, index, frame)
        boundary = Boundary(self.record, MIDDLEWARE_FAILED)
        stream: Any = None
        left: BaseEvent | None = None
        try:
            with boundary:
                try:
                    stream = _checked_stream(
                        frame, frame.instance.around_run(frame.ctx, run_input, gate)
                    )
                    while True:
                        left = await self._step(frame, stream)
                        gate.passed(left)
                        yield left
                        if left.type in TERMINALS:
                            await self._run_out(frame, stream)
                            return
                except Exception as error:
                    if error is gate.raised or not frame.fail("around_run", error):
                        raise
                async for event in gate.without_layer(run_input, left):
                    yield event
        finally:
            await gate.close()  # the inner part first, as if the layer had nested them itself
            await self._close(stream, f"layer {frame.layer.id}")
        for event in boundary.events:
            yield event

    @staticmethod
    async def _step(frame: Frame, stream: AsyncIterator[BaseEvent]) -> BaseEvent:
        step = stream.__anext__()
        try:
            return await (step if frame.deadline is None else frame.deadline.run(step))
        except StopAsyncIteration:
            raise TruncatedStream(
                f"around_run of layer {frame.layer.id!r} ended without RUN_FINISHED or RUN_ERROR."
            ) from None

    async def _run_out(self, frame: Frame, stream: AsyncIterator[BaseEvent]) -> None:
        """Let a layer do what it does after the terminal; nothing of it changes the run."""
        try:
            while True:
                event = await self._step(frame, stream)
                frame.ctx.log.warning("{} came after the terminal", event.type.value)
        except (TruncatedStream, EndRun):
            return
        except Exception as error:  # noqa: BLE001 - nothing fails a run after its terminal
            frame.ctx.log.opt(exception=error).error(
                "around_run of layer {} failed after the terminal", frame.layer.id
            )

    async def _close(self, stream: Any, owner: str = "the inner run") -> None:
        await close(stream, self.record.program.ending_deadline, owner)

    # Attempts --------------------------------------------------------------------------------
    def attempt_ended(self, index: int, terminal: BaseEvent) -> None:
        """Remember how the attempt of the layers from ``index`` on ended, for its hooks."""
        self._ends[index] = terminal

    async def renew(self, index: int, attempt: int) -> None:
        """End the attempt of the layers from ``index`` on, and set up fresh instances of them."""
        record = self.record
        inner = {layer.id for layer in record.program.layers[index:]}
        over = [frame for frame in self.begun if frame.layer.id in inner]
        self.begun = [frame for frame in self.begun if frame.layer.id not in inner]
        terminal = self._ends.pop(index, None)
        end = (
            ending.aborted(record, "the attempt was repeated", "abort")
            if terminal is None
            else ending.of_event(record, terminal)
        )
        await ending.call_terminal_hooks(record, over, end)
        await self._set_up([layer.id for layer in record.program.layers[index:]], attempt)
        for layer in record.program.layers[index:]:
            if layer.declaration.tracks_state:
                frame = record.frames[layer.id]
                frame.transcript = Transcript(record.input.messages, record.input.state)


def _expanded(expander: Expander | None, events: Sequence[BaseEvent]) -> Iterable[BaseEvent]:
    """Expand the chunks that a layer returned; lazily, so that outer layers keep step."""
    if expander is None or (
        expander.idle and not any(event.__class__ in CHUNKS for event in events)
    ):
        return events
    return (part for event in events for part in expander.push(event))


def _checked_stream(frame: Frame, stream: Any) -> AsyncIterator[BaseEvent]:
    if hasattr(stream, "__anext__"):
        return stream  # type: ignore[no-any-return]
    if asyncio.iscoroutine(stream):
        stream.close()
    raise MiddlewareError(
        f"around_run of layer {frame.layer.id!r} returned a {type(stream).__name__}, not a stream",
        hint="make it an async generator",
    )


def _returned(frame: Frame, handler: Handler, event: BaseEvent, result: Any) -> Sequence[BaseEvent]:
    """Check what an event hook returned, and return it as the events to pass on."""
    declaration = frame.layer.declaration
    if result is event or (result is None and not declaration.rewrites_history):
        return (event,)
    where = f"{handler.name} of layer {frame.layer.id!r}"
    if result is None:
        raise MiddlewareError(
            f"{where} returned None, but the middleware rewrites history",
            hint="return the event, other events, or DROP",
        )
    if declaration.observes_only:
        raise MiddlewareError(f"{where} changed an event, but the middleware observes only")
    if result is DROP:
        return ()
    if isinstance(result, BaseEvent):
        return (result,)
    if isinstance(result, list | tuple) and all(isinstance(item, BaseEvent) for item in result):
        return result
    raise MiddlewareError(
        f"{where} returned a {type(result).__name__}",
        hint="return an event, a list of events, DROP or None",
    )
