"""The instances of a run's layers: made, set up, and replaced when a layer repeats the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ag_ui.core import BaseEvent, RunAgentInput

from interpose.agui import Transcript
from interpose.authoring import Point
from interpose.errors import MiddlewareError
from interpose.runtime import ending
from interpose.runtime.layer import ActiveLayer, Frame
from interpose.runtime.record import RunRecord


class Attempts:
    """Keeps ``record.frames``: the instances of each layer's current attempt."""

    __slots__ = ("_ends", "begun", "record")

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.begun: list[Frame] = []
        """The frames whose setup has finished, in that order: each is owed a terminal hook."""
        self._ends: dict[int, BaseEvent] = {}

    async def begin(self) -> RunAgentInput:
        """Set up all layers, let them see the input, and tell them that the run begins."""
        record = self.record
        await self._set_up(record.program.layers, record.program.in_setup_order, attempt=1)
        for frame in record.frames.values():
            if frame.has("on_input"):
                await self._input(frame)
        self._track(record.program.layers)
        if Point.MODEL not in record.program.points:
            record.phase = "stream"
            await record.loop.start()
        return record.input

    def _track(self, layers: Sequence[ActiveLayer]) -> None:
        record = self.record
        for layer in layers:
            if layer.declaration.tracks_state:
                transcript = Transcript(record.input.messages, record.input.state)
                record.frames[layer.id].transcript = transcript

    async def _set_up(
        self, layers: Sequence[ActiveLayer], in_order: Sequence[ActiveLayer], attempt: int
    ) -> None:
        record = self.record
        for layer in layers:
            record.frames[layer.id] = Frame(layer, record, attempt)
        for layer in in_order:
            layer_id = layer.id
            frame = record.frames[layer_id]
            frame.make()
            if frame.skipped:
                continue
            if "setup" in layer.facts.hooks:
                record.setting_up = layer_id
                try:
                    await frame.call("setup")
                except Exception as error:
                    if not frame.fail("setup", error):
                        raise
                    continue
                finally:
                    record.setting_up = None
            missing = [c.name for c in layer.run_provides if not record.provided(c)]
            if missing:
                raise MiddlewareError(
                    f"setup of layer {layer_id!r} did not provide {', '.join(missing)}",
                    hint="call ctx.provide(CAPABILITY, value) in setup",
                )
            self.begun.append(frame)

    async def _input(self, frame: Frame) -> None:
        record = self.record
        before = record.input.model_copy(deep=True) if frame.strict else record.input
        try:
            changed = await frame.call("on_input", record.input)
            frame.refuse_change(before, record.input, "the input")
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

    def attempt_ended(self, index: int, terminal: BaseEvent) -> None:
        """Remember how the attempt of the layers from ``index`` on ended, for its hooks."""
        self._ends[index] = terminal

    async def renew(self, index: int, attempt: int) -> None:
        """End the attempt of the layers from ``index`` on, and set up fresh instances of them."""
        record = self.record
        inner = {layer.id for layer in record.program.layers[index:]}
        over = [frame for frame in self.begun if frame.layer.id in inner]
        self.begun = [frame for frame in self.begun if frame.layer.id not in inner]
        terminal = self._ends.get(index)
        # What layers further in said of earlier attempts is over with this one.
        self._ends = {at: event for at, event in self._ends.items() if at < index}
        end = (
            ending.aborted(record, "the attempt was repeated", "abort")
            if terminal is None
            else ending.of_event(record, terminal)
        )
        # A task of the host's: it goes on when this one is cancelled while it waits.
        hooks = ending.call_terminal_hooks(record, over, end)
        name = f"end of an attempt of run {record.run_id!r}"
        await asyncio.shield(record.program.tasks.spawn(hooks, name))
        layers = record.program.layers[index:]
        in_order = [layer for layer in record.program.in_setup_order if layer.id in inner]
        await self._set_up(layers, in_order, attempt)
        self._track(layers)
