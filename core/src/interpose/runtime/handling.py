"""One event at one layer: what the layer makes of it, checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ag_ui.core import BaseEvent

from interpose.agui import CHUNKS, Expander
from interpose.errors import MiddlewareError
from interpose.events import DROP
from interpose.runtime.layer import Frame, Handler


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
    try:
        result = handler.function(frame.instance, frame.ctx, event)
        result = await frame.settle(handler.name, result, is_async=handler.is_async)
        return checked(frame, handler, event, result)
    except Exception as error:
        if not frame.fail(handler.name, error):
            raise
        return (event,)


def expanded(expander: Expander | None, events: Sequence[BaseEvent]) -> Iterable[BaseEvent]:
    """Expand the chunks that a layer returned; lazily, so that outer layers keep step."""
    if expander is None or (
        expander.idle and not any(event.__class__ in CHUNKS for event in events)
    ):
        return events
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
