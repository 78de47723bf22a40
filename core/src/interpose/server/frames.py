"""Events as frames for one client: for what it understands, and never half an answer."""

from __future__ import annotations

from collections.abc import Callable

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
)

from interpose.agui import encode
from interpose.errors import InvalidStream, RunError

_CANCELLED = "The run was cancelled."
_UNWRITABLE = "The events of the run broke the rules of AG-UI."


def framing(
    run_input: RunAgentInput, fail: Callable[[RunError], None]
) -> Callable[[BaseEvent], bytes]:
    """Return what writes a run's events as server-sent events.

    Clients before AG-UI 1.0 send no ``protocolVersion`` and refuse the cancelled outcome; they get
    what stood for it then, a RUN_ERROR. An event with a value that JSON cannot say ends the run
    through ``fail``; what AG-UI needs of it is still sent, so that what follows fits.
    """
    is_old = run_input.protocol_version is None

    def frame(event: BaseEvent) -> bytes:
        if is_old and event.__class__ is RunFinishedEvent:
            event = without_cancelled(event)
        try:
            return encode(event).encode()
        except InvalidStream as error:
            fail(error)
            return _bare(event)

    return frame


def without_cancelled(event: BaseEvent) -> BaseEvent:
    """Return RUN_ERROR for a RUN_FINISHED with the cancelled outcome, else the event itself."""
    if isinstance(event, RunFinishedEvent) and isinstance(
        event.outcome, RunFinishedCancelledOutcome
    ):
        return RunErrorEvent(
            code="cancelled",
            message=_CANCELLED,
            usage=event.usage,
            timestamp=event.timestamp,
            metadata=event.metadata,
        )
    return event


def _bare(event: BaseEvent) -> bytes:
    """Write what can be written of an event: without its opaque parts, or nothing of it."""
    if isinstance(event, RunFinishedEvent):
        failed = RunErrorEvent(code="invalid-stream", message=_UNWRITABLE)
        return encode(failed).encode()
    try:
        return encode(event.model_copy(update={"raw_event": None, "metadata": None})).encode()
    except InvalidStream:
        return b""
