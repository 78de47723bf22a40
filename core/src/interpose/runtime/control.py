"""How a run is ended on purpose: ``ctx.finish``, ``ctx.interrupt``, ``ctx.abort``, ``run.cancel``.

Each leaves a *verdict* on the run's record; what a hook raises after that only carries it out of
the hook quickly. The record counts, so swallowing the exception does not help.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from interpose.errors import RunError


@dataclass(frozen=True, slots=True)
class Finish:
    """End as a success, with a message of ``text`` if there is one."""

    layer: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Pause:
    """End with the interrupt outcome."""

    layer: str
    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """End with the cancelled outcome."""

    reason: str
    cause: Literal["abort", "cancelled", "consumer-gone"]


@dataclass(frozen=True, slots=True)
class Fail:
    """End with a RUN_ERROR for ``error``, as when a deadline is over; layers see it cancelled."""

    error: RunError


Verdict: TypeAlias = Finish | Pause | Stop | Fail


COLLECTOR: ContextVar[list[Interrupt] | None] = ContextVar("interpose_collector", default=None)
"""Where ``ctx.interrupt`` puts its questions while a loop gathers a batch; never over a yield."""


class EndRun(BaseException):
    """Leave the hook: the run has a verdict. No ``except Exception`` of an author catches it."""


def ending(verdict: Finish | Pause | Stop, thread_id: str, run_id: str) -> Sequence[BaseEvent]:
    """Return the events with which a verdict ends a stream; what is open is closed elsewhere."""
    if isinstance(verdict, Pause):
        outcome = RunFinishedInterruptOutcome(interrupts=list(verdict.interrupts))
        return [RunFinishedEvent(thread_id=thread_id, run_id=run_id, outcome=outcome)]
    if isinstance(verdict, Stop):
        return [
            RunFinishedEvent(
                thread_id=thread_id, run_id=run_id, outcome=RunFinishedCancelledOutcome()
            )
        ]
    finished = RunFinishedEvent(thread_id=thread_id, run_id=run_id)
    if verdict.text is None:
        return [finished]
    message = str(uuid4())
    return [
        TextMessageStartEvent(message_id=message, role="assistant"),
        TextMessageContentEvent(message_id=message, delta=verdict.text),
        TextMessageEndEvent(message_id=message),
        finished,
    ]
