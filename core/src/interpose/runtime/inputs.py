"""From whatever ``host.run`` is called with to a ``RunAgentInput``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import uuid4

from ag_ui.core import Interrupt, Message, ResumeEntry, RunAgentInput, UserMessage
from pydantic import BaseModel

from interpose.agui import check_input, check_resume
from interpose.errors import InputError, UsageError

Asked: TypeAlias = "str | Sequence[Message] | RunAgentInput | Mapping[str, Any]"
"""A question, the messages of a conversation, or a whole input (model, or decoded JSON)."""


Answers: TypeAlias = Mapping[str, Any] | Sequence[ResumeEntry]
"""Answers to interrupts: by id (then all are resolved), or as entries of ``resume``."""


def to_input(asked: Asked, thread_id: str | None) -> tuple[RunAgentInput, tuple[str, ...]]:
    """Return the input of a run, and warnings about what was unknown in it.

    Raises :class:`InputError` listing each wrong field by path, without values.
    """
    if isinstance(asked, RunAgentInput | Mapping):
        if thread_id is not None:
            raise UsageError(
                "thread_id was given beside an input that has its own",
                hint="leave it out, or pass only the messages",
            )
        return check_input(asked)
    if isinstance(asked, str):
        messages: list[Any] = [UserMessage(id=str(uuid4()), content=asked)]
    elif _are_messages(asked):
        messages = list(asked)
    else:
        raise InputError(
            f"A run cannot start from a {type(asked).__name__}.",
            hint="Pass a string, a list of AG-UI messages, or a RunAgentInput.",
        )
    return (
        RunAgentInput(thread_id=thread_id or str(uuid4()), run_id=str(uuid4()), messages=messages),
        (),
    )


def answering(run_input: RunAgentInput, answers: Answers) -> RunAgentInput:
    """Return the input with the answers to the questions that the last run ended with."""
    if run_input.resume:
        raise UsageError(
            "resume was given beside an input that has its own", hint="leave one of them out"
        )
    if isinstance(answers, Mapping) and all(isinstance(interrupt, str) for interrupt in answers):
        entries = [
            ResumeEntry(interrupt_id=interrupt, status="resolved", payload=payload)
            for interrupt, payload in answers.items()
        ]
    elif isinstance(answers, Sequence) and all(isinstance(e, ResumeEntry) for e in answers):
        entries = list(answers)
    else:
        raise UsageError(
            "resume holds something else than answers",
            where="host.run(resume=...)",
            hint="a mapping from interrupt ids to answers, or ag_ui.core.ResumeEntry objects",
        )
    return run_input.model_copy(update={"resume": entries})


def settling(
    run_input: RunAgentInput, pending: Iterable[Interrupt], now: float
) -> tuple[RunAgentInput, tuple[str, ...]]:
    """Return the input without answers to what is not pending, and a warning for each of those.

    Raises :class:`InputError` unless it settles every pending interrupt. ``now``: seconds since
    the epoch.
    """
    entries, warnings = check_resume(pending, run_input.resume, now)
    if not warnings:
        return run_input, ()
    return run_input.model_copy(update={"resume": list(entries) or None}), warnings


def _are_messages(asked: Any) -> bool:
    return isinstance(asked, Sequence) and all(isinstance(item, BaseModel) for item in asked)
