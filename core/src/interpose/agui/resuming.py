"""Answering interrupts: what the next run's ``resume`` has to say of those that are pending.

Rules: AG-UI 1.1, interrupts. That a ``resume`` covers every pending interrupt is the consumer's
check; a producer ignores entries that it does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ag_ui.core import Interrupt, ResumeEntry

from interpose.agui.tracking import quote
from interpose.errors import InputError, UsageError

_FIX = "Answer every pending interrupt in `resume`; resume_entries(...) builds the entries."


class CheckedResume(NamedTuple):
    """The outcome of :func:`check_resume`: the entries that answer something, and warnings."""

    entries: tuple[ResumeEntry, ...]
    warnings: tuple[str, ...]


def is_expired(interrupt: Interrupt, now: float) -> bool:
    """Tell whether an interrupt can no longer be resolved, only cancelled.

    ``now``: seconds since the epoch. A time without an offset is UTC; an ``expiresAt`` that is no
    ISO 8601 time never comes.
    """
    if interrupt.expires_at is None:
        return False
    try:
        moment = datetime.fromisoformat(interrupt.expires_at)
    except ValueError:
        return False
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() <= now


def resume_entries(
    interrupts: Iterable[Interrupt],
    resolved: Mapping[str, Any] | None = None,
    cancelled: Collection[str] = (),
) -> list[ResumeEntry]:
    """Return the ``resume`` of the next run, in the order of the interrupts.

    ``resolved``: payloads by interrupt id (None: resolved without one); ``cancelled``: ids of those
    that get no answer. Raises UsageError unless each interrupt is in exactly one of the two, and
    nothing else is.

    Example::

        entries = resume_entries(result.interrupts, {"approve-1": {"approved": True}})
        host.run(run_input.model_copy(update={"resume": entries}), pending=result.interrupts)
    """
    answers = resolved or {}
    ids = [interrupt.id for interrupt in interrupts]
    given = Counter([*answers, *set(cancelled)])
    _refuse("have no answer", [id_ for id_ in ids if id_ not in given])
    _refuse("are not pending", [id_ for id_ in given if id_ not in ids])
    _refuse("are both resolved and cancelled", [id_ for id_, times in given.items() if times > 1])
    return [
        ResumeEntry(interrupt_id=id_, status="resolved", payload=answers[id_])
        if id_ in answers
        else ResumeEntry(interrupt_id=id_, status="cancelled")
        for id_ in ids
    ]


def check_resume(
    pending: Iterable[Interrupt], resume: Iterable[ResumeEntry] | None, now: float
) -> CheckedResume:
    """Check that ``resume`` settles every pending interrupt. ``now``: seconds since the epoch.

    Raises InputError when an interrupt is not covered, is answered twice, or has expired and is
    not cancelled. Entries of other interrupts are left out, each with a warning.
    """
    interrupts = {interrupt.id: interrupt for interrupt in pending}
    entries = list(resume or ())
    times = Counter(entry.interrupt_id for entry in entries)
    wrong = [f"{quote(id_)} is not answered" for id_ in interrupts if not times[id_]]
    wrong += [
        f"{quote(id_)} is answered {times[id_]} times" for id_ in interrupts if times[id_] > 1
    ]
    wrong += [
        f"{quote(entry.interrupt_id)} has expired, and can only be cancelled"
        for entry in entries
        if entry.status != "cancelled"
        and entry.interrupt_id in interrupts
        and is_expired(interrupts[entry.interrupt_id], now)
    ]
    if wrong:
        raise InputError(
            "The run does not settle the interrupts that are pending.\n" + "\n".join(wrong),
            hint=_FIX,
        )
    known = tuple(entry for entry in entries if entry.interrupt_id in interrupts)
    unknown = [id_ for id_ in times if id_ not in interrupts]
    return CheckedResume(
        known,
        tuple(f"ignored the answer to {quote(id_)}, which is not pending" for id_ in unknown),
    )


def _refuse(why: str, ids: list[str]) -> None:
    if ids:
        raise UsageError(
            f"these interrupts {why}: {', '.join(map(quote, ids))}",
            hint="resolve or cancel each pending interrupt, and no other",
        )
