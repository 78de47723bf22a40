"""What RUN_FINISHED tells about calls: the pending ones, and those that interrupts refer to."""

from __future__ import annotations

from collections.abc import Callable

from ag_ui.core import (
    Interrupt,
    RunFinishedInterruptOutcome,
    RunFinishedOutcome,
    RunFinishedSuccessOutcome,
)


def shown_outcome(
    outcome: RunFinishedOutcome | None, hidden: Callable[[str], bool]
) -> RunFinishedOutcome | None:
    """Return the outcome without references to hidden calls; the same object if it has none.

    An interrupt stays when its call is hidden, without the reference: the run waits for an answer
    to it, and nobody can answer a question that was never asked.
    """
    if isinstance(outcome, RunFinishedSuccessOutcome):
        pending = outcome.pending_tool_call_ids or []
        shown = [call_id for call_id in pending if not hidden(call_id)]
        if len(shown) == len(pending):
            return outcome
        return outcome.model_copy(update={"pending_tool_call_ids": shown or None})
    if isinstance(outcome, RunFinishedInterruptOutcome):
        interrupts = [_shown_interrupt(interrupt, hidden) for interrupt in outcome.interrupts]
        if all(new is old for new, old in zip(interrupts, outcome.interrupts, strict=True)):
            return outcome
        return outcome.model_copy(update={"interrupts": interrupts})
    return outcome


def _shown_interrupt(interrupt: Interrupt, hidden: Callable[[str], bool]) -> Interrupt:
    call_id = interrupt.tool_call_id
    if call_id is None or not hidden(call_id):
        return interrupt
    return interrupt.model_copy(update={"tool_call_id": None})
