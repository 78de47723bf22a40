"""One event at one layer: what the layer makes of it, checked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

from ag_ui.core import BaseEvent

from interpose.agui import CHUNKS, Expander
from interpose.errors import MiddlewareError
from interpose.events import DROP
from interpose.runtime.boundary import Boundary
from interpose.runtime.closing import close
from interpose.runtime.failure import MIDDLEWARE_FAILED
from interpose.runtime.layer import Frame, Handler
from interpose.runtime.record import RunRecord

Events = AsyncGenerator[BaseEvent, None]


async def handle(frame: Frame, event: BaseEvent) -> Sequence[BaseEvent]:
    """Let a layer see an event, and return the events that leave the layer for it."""
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
    before = event.model_copy(deep=True) if frame.strict else event
    try:
        answer = handler.function(frame.instance, frame.ctx, event)
        if handler.is_async:
            answer = await frame.within(answer)
        frame.refuse_change(before, event, "an event")
    except Exception as error:
        if not frame.fail(handler.name, error):
            frame.blame(handler.name, error)
            raise
        return (event,)
    return take(frame, handler, event, answer)


def take(frame: Frame, handler: Handler, event: BaseEvent, answer: Any) -> Sequence[BaseEvent]:
    """Return the events that an event hook's answer stands for; a wrong one is its failure."""
    try:
        if not handler.is_async:
            frame.refuse_awaitable(handler.name, answer)
        return checked(frame, handler, event, answer)
    except MiddlewareError as error:
        if not frame.fail(handler.name, error):
            raise
        return (event,)


def expanded(frame: Frame, events: Sequence[BaseEvent]) -> Iterable[BaseEvent]:
    """Expand the chunks that a layer returned; lazily, so that outer layers keep step."""
    expander = frame.expander
    if (expander is None or expander.idle) and not any(
        frame.layer.is_expanded and event.__class__ in CHUNKS for event in events
    ):
        return events
    if expander is None:
        expander = frame.expander = Expander()
    return (part for event in events for part in expander.push(event))


def checked(frame: Frame, handler: Handler, event: BaseEvent, result: Any) -> Sequence[BaseEvent]:
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


async def hook_stream(record: RunRecord, frame: Frame, source: Events) -> Events:
    """Pass a stream through the event hooks of one layer: the plain form of a segment."""
    boundary = Boundary(record, MIDDLEWARE_FAILED)
    try:
        with boundary:
            async for event in source:
                frame.queue(event)
                while frame.inbox:
                    returned = await handle(frame, frame.inbox.pop(0))
                    for out in expanded(frame, returned):
                        yield out
    finally:
        await close(record, source, "the inner run")
    for event in boundary.events:
        yield event
