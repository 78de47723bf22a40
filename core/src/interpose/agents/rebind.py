"""A recorded run, played as another run: its thread and run ids become this run's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ag_ui.core import BaseEvent, RunErrorEvent, RunFinishedEvent, RunStartedEvent


class Rebound(NamedTuple):
    """The outcome of :func:`rebind`; ``warnings`` say what of the recording is not played."""

    events: tuple[BaseEvent, ...]
    warnings: tuple[str, ...]


def rebind(events: Sequence[BaseEvent], thread_id: str, run_id: str) -> Rebound:
    """Return the first run of a recording with the ids of the run that plays it.

    RUN_STARTED also loses its ``input`` and ``parentRunId``, which belong to the recorded
    conversation. A recording may lack RUN_STARTED or a terminal; nothing is made up. The given
    events are not changed.
    """
    first = _first_run(events)
    rest = events[len(first) :]
    ids = {"thread_id": thread_id, "run_id": run_id}
    bound: list[BaseEvent] = []
    for event in first:
        if isinstance(event, RunStartedEvent):
            bound.append(event.model_copy(update={**ids, "parent_run_id": None, "input": None}))
        elif isinstance(event, RunFinishedEvent):
            bound.append(event.model_copy(update=ids))
        else:
            bound.append(event)
    return Rebound(tuple(bound), _unplayed(rest))


def _first_run(events: Sequence[BaseEvent]) -> Sequence[BaseEvent]:
    started = False
    for position, event in enumerate(events):
        if isinstance(event, RunFinishedEvent | RunErrorEvent):
            return events[: position + 1]
        if isinstance(event, RunStartedEvent):
            if started:
                return events[:position]
            started = True
    return events


def _unplayed(rest: Sequence[BaseEvent]) -> tuple[str, ...]:
    if not rest:
        return ()
    more = sum(isinstance(event, RunStartedEvent) for event in rest)
    if not more:
        return (f"{len(rest)} recorded events after the end of the run are not played",)
    return (f"the recording holds {more + 1} runs; only the first is played",)
