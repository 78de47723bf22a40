"""Events as frames for one client: for what it understands, and never half an answer."""

from __future__ import annotations

from collections.abc import Callable

from ag_ui.core import BaseEvent, RunAgentInput, RunErrorEvent, RunFinishedEvent

from interpose.agui import encode
from interpose.errors import InvalidStream, RunError
from interpose.server.older import for_older_client

_UNWRITABLE = "The events of the run broke the rules of AG-UI."


def framing(
    run_input: RunAgentInput, fail: Callable[[RunError], None]
) -> Callable[[BaseEvent], str]:
    """Return what writes a run's events as server-sent events.

    Clients before AG-UI 1.0 send no ``protocolVersion``; they get what :func:`for_older_client`
    makes of each event. An event with a value that JSON cannot say ends the run through ``fail``;
    what AG-UI needs of it is still sent, so that what follows fits.
    """
    is_old = run_input.protocol_version is None

    def frame(event: BaseEvent) -> str:
        if is_old:
            event = for_older_client(event)
        try:
            return encode(event)
        except InvalidStream as error:
            fail(error)
            return _bare(event)

    return frame


def _bare(event: BaseEvent) -> str:
    """Write what can be written of an event: without its opaque parts, or nothing of it."""
    if isinstance(event, RunFinishedEvent):
        failed = RunErrorEvent(code="invalid-stream", message=_UNWRITABLE)
        return encode(failed)
    try:
        return encode(event.model_copy(update={"raw_event": None, "metadata": None}))
    except InvalidStream:
        return ""
