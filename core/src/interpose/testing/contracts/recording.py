"""The cases of a contract, and beside them what the author's own agent sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ag_ui.core import BaseEvent, RunErrorEvent, RunFinishedEvent, RunStartedEvent

from interpose.agui import violations
from interpose.testing.contracts.material import Case, cases
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import user_input
from interpose.testing.hosts import make_host

_MOST: Final = 2_000
"""Events of the author's agent that are recorded."""


async def all_cases(subject: Subject) -> Sequence[Case]:
    """Return the kit's cases, and the author's agent's stream where it plays without layers."""
    known: Sequence[Case] | None = subject.memo.get("cases")
    if known is None:
        own = await _own(subject)
        known = subject.memo["cases"] = (*cases(subject), *own)
    return known


async def own_streams(subject: Subject) -> Sequence[tuple[BaseEvent, ...]]:
    """Return what the author's agent sends, without RUN_STARTED and the terminal."""
    return [case.events for case in (await all_cases(subject))[len(cases(subject)) :]]


async def _own(subject: Subject) -> Sequence[Case]:
    if subject.agent is None:
        return ()
    events: list[BaseEvent] = []
    host = make_host([], agent=subject.agent, provide=subject.provide, strict=False)
    async with host:
        async for event in host.run(user_input()):
            events.append(event)
            if len(events) > _MOST:
                return ()
    inner = [e for e in events if not isinstance(e, RunStartedEvent | RunFinishedEvent)]
    if not inner or isinstance(events[-1], RunErrorEvent) or any(violations(events)):
        return ()
    return (Case("what the given agent sends", tuple(inner)),)
