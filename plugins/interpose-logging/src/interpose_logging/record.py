"""The facts of a line, as data: what each kind of line says, and what it leaves out."""

from __future__ import annotations

import json
from typing import Any, Final

from ag_ui.core import BaseEvent, RunAgentInput

from interpose import AbortInfo, EndInfo, ErrorInfo, FinishInfo, RunContext
from interpose_logging.tally import Tally

Record = dict[str, Any]
"""JSON values by key. The keys of each kind of line are always the same; None: not known."""

LONGEST_NAME: Final = 200
"""Characters of an id that are shown: clients choose ids, and a log is no place for a megabyte."""

IDS: Final = (
    "message_id",
    "tool_call_id",
    "parent_message_id",
    "parent_tool_call_id",
    "entity_id",
    "subagent_run_id",
    "parent_subagent_run_id",
)
"""The fields of events that hold ids."""


def of_run(ctx: RunContext) -> Record:
    """Return what every line says: which run it belongs to."""
    return {
        "run_id": name(ctx.run_id),
        "thread_id": name(ctx.thread_id),
        "request_id": name(ctx.request_id),
        "agent": ctx.agent,
        "attempt": ctx.attempt,
    }


def of_start(ctx: RunContext, *, content: bool) -> Record:
    """Return what the start line adds."""
    record: Record = {"parent_run_id": name(ctx.parent_run_id)}
    if content:
        record["content"] = wire(ctx.input)
    return record


def of_event(event: BaseEvent, index: int, *, content: bool) -> Record:
    """Return what an event's line adds; ``index`` counts the run's events from 0."""
    ids = {field: name(getattr(event, field, None)) for field in IDS}
    record: Record = {
        "index": index,
        "type": event.type.value,
        "ids": {field: value for field, value in ids.items() if value is not None},
    }
    if content:
        record["content"] = wire(event)
    return record


def of_end(end: EndInfo, tally: Tally, *, content: bool) -> Record:
    """Return what the end line adds.

    Of an exception it tells the code and the class: the message may hold what was said, or a
    secret that a library put into it.
    """
    info = end.info
    failure = info if isinstance(info, ErrorInfo) else None
    record: Record = {
        "outcome": outcome(info),
        "cause": info.cause if isinstance(info, AbortInfo) else None,
        "code": name(failure.code) if failure else None,
        "error": type(failure.error).__name__ if failure else None,
        "duration": round(end.duration, 6),
        "events": tally.events,
        "types": dict(tally.types),
        "tool_calls": tally.tool_calls,
        "usage": dict(tally.usage) or None,
    }
    if content and isinstance(info, AbortInfo):
        record["content"] = info.reason
    elif content:
        record["content"] = str(failure.error) if failure else None
    return record


def outcome(info: FinishInfo | AbortInfo | ErrorInfo) -> str:
    """Return how a run ended: success, interrupt, cancelled, consumer-gone or error."""
    if isinstance(info, FinishInfo):
        return info.outcome
    if isinstance(info, ErrorInfo):
        return "error"
    return "consumer-gone" if info.cause == "consumer-gone" else "cancelled"


def name(text: str | None) -> str | None:
    """Return an id or a code, cut where it is absurdly long."""
    if text is None or len(text) <= LONGEST_NAME:
        return text
    return f"{text[:LONGEST_NAME]}... ({len(text)} characters)"


def wire(model: BaseEvent | RunAgentInput) -> Any:
    """Return an event or an input as it goes over the wire, as JSON values."""
    return json.loads(model.model_dump_json(by_alias=True))
