"""The plain way through adjacent layers, for what compiled hooks cannot say in one answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from ag_ui.core import BaseEvent

from interpose.runtime.boundary import Boundary
from interpose.runtime.closing import close
from interpose.runtime.failure import MIDDLEWARE_FAILED
from interpose.runtime.handling import Events, expanded, handle, hook_stream, take
from interpose.runtime.layer import Frame, Handler
from interpose.runtime.record import RunRecord

if TYPE_CHECKING:
    from interpose.runtime.segment import Segment, Work


class Detour:
    """The class of :data:`DETOUR`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DETOUR"


DETOUR: Final = Detour()
"""The answer of compiled hooks whose events are those of ``lane.detour``."""


class Lane:
    """One run's way through the layers of a segment.

    ``frames``: innermost first. ``bound``: of each its instance and its context, one after the
    other. ``unusual``: what must be looked at before the next event may take the compiled hooks.
    ``at``: the layer that is looking at an event now. ``detour``: the events that are to leave
    instead of an answer that was :data:`DETOUR`. ``ended``: a layer has failed, or ended the run.
    """

    __slots__ = (
        "_segment",
        "at",
        "bound",
        "boundary",
        "detour",
        "ended",
        "frames",
        "record",
        "unusual",
    )

    def __init__(self, segment: Segment, record: RunRecord, unusual: set[object]) -> None:
        layers = record.program.layers[segment.start : segment.stop]
        self.record = record
        self.frames: Sequence[Frame] = [record.frames[layer.id] for layer in reversed(layers)]
        self.bound = tuple(part for f in self.frames for part in (f.instance, f.ctx))
        self.boundary = Boundary(record, MIDDLEWARE_FAILED)
        self.unusual = unusual
        self.at = 0
        self.detour: Events | None = None
        self.ended = False
        self._segment = segment
        if unusual is not record.unusual:  # where a frame says it from the start
            for frame in self.frames:
                frame.unusual = unusual
                frame.review()

    def answer(self, event: BaseEvent) -> tuple[Any, bool]:
        """Return what becomes of an event (one, DROP, or DETOUR), and whether to await that."""
        if self.unusual:
            return self.enter(0, event), False
        work = self._segment.work(event.__class__)
        if work is None:
            return event, False
        call, waits = work
        return call(self, event), waits

    def work(self, kind: type[BaseEvent]) -> Work | None:
        """Return the compiled hooks of a class; None: nobody takes it."""
        return self._segment.work(kind)

    def taken(self) -> Events:
        """Return the detour that an answer stands for."""
        if self.detour is None:
            raise RuntimeError("there is no detour")
        return self.detour

    def enter(self, index: int, event: BaseEvent) -> Detour:
        """Let ``event`` go the plain way from the layer at ``index`` on."""
        self.detour = self._through(index, event)
        return DETOUR

    def after(self, index: int, event: BaseEvent, handler: Handler, answer: Any) -> Detour:
        """Let an unusual answer of the layer at ``index`` go the plain way."""
        self.at = index
        self.detour = self._each(index, take(self.frames[index], handler, event, answer))
        return DETOUR

    async def _through(self, index: int, event: BaseEvent) -> Events:
        if index == len(self.frames):
            yield event
            return
        frame = self.frames[index]
        frame.queue(event)
        while frame.inbox:
            self.at = index
            handled = await handle(frame, frame.inbox.pop(0))
            async with aclosing(self._each(index, handled)) as left:
                async for out in left:
                    yield out

    async def _each(self, index: int, events: Sequence[BaseEvent]) -> Events:
        frame = self.frames[index]
        for event in expanded(frame, events):
            async with aclosing(self._through(index + 1, event)) as left:
                async for out in left:
                    yield out
            self.at = index
        frame.review()

    def failed(self, error: BaseException) -> Detour:
        """Let the ending that ``error`` stands for leave. Raises what is nobody's failure."""
        if not self.boundary.takes(error):
            raise error
        self.detour = self.ending()
        return DETOUR

    def ending(self) -> Events:
        """Return what leaves the layers for the ending that the boundary has."""
        self.ended = True
        error = self.boundary.error
        at = self._segment.layer_at(error)
        if at is not None and isinstance(error, Exception):
            self.frames[at].blame("an event hook", error)
        stream = _each_of(self.boundary.events)
        for frame in self.frames[(self.at if at is None else at) + 1 :]:
            stream = hook_stream(self.record, frame, stream)
        return stream

    async def close(self) -> None:
        """Close the plain way, if it was left in the middle."""
        await close(self.record, self.detour, "a segment")


async def _each_of(events: Sequence[BaseEvent]) -> Events:
    for event in events:
        yield event
