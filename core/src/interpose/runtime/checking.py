"""What ``strict`` adds: each stream between two layers is verified, and the culprit is named."""

from __future__ import annotations

from ag_ui.core import BaseEvent, EventType

from interpose.agui import CHUNKS, KNOWN_EVENTS, Verifier
from interpose.errors import InvalidStream
from interpose.runtime.boundary import Boundary
from interpose.runtime.closing import close
from interpose.runtime.failure import AGENT_FAILED
from interpose.runtime.handling import Events
from interpose.runtime.record import RunRecord


async def verified(record: RunRecord, source: Events, giver: str) -> Events:
    """Pass a stream on as long as it is valid; ``giver`` is who is named when it is not."""
    verifier = Verifier(record.thread_id, record.run_id)
    boundary = Boundary(record, AGENT_FAILED)
    try:
        with boundary:
            async for event in source:
                if _is_to_be_checked(record, event):
                    _check(record, verifier, event, giver)
                yield event
    finally:
        await close(record, source, "the inner run")
    for event in boundary.events:
        yield event


def _is_to_be_checked(record: RunRecord, event: BaseEvent) -> bool:
    # An ending of the host's own is completed at the outer edge; what is no event of AG-UI
    # itself (a subclass) becomes one there.
    return record.verdict is None and event.__class__ in KNOWN_EVENTS - CHUNKS


def _check(record: RunRecord, verifier: Verifier, event: BaseEvent, giver: str) -> None:
    ends = event.type is EventType.RUN_ERROR
    if ends or (event.type is EventType.RUN_FINISHED and record.failures.raised):
        for closing in verifier.open_events():
            verifier.check(closing)
    try:
        verifier.check(event)
    except InvalidStream as error:
        raise InvalidStream(
            f"{giver} broke the stream: {error.message}", rule=error.rule, index=error.index
        ) from None
