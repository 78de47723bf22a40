"""What a check finds, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ag_ui.core import BaseEvent

from interpose.agui import to_json
from interpose.errors import InvalidStream

_MOST_EVENTS: Final = 40
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach of the contract.

    ``happened`` and ``expected`` are sentences; ``stream``: the smallest stream of the agent that
    shows it, where a stream does.
    """

    happened: str
    expected: str
    stream: Sequence[BaseEvent] = ()


class ContractViolation(AssertionError):
    """A middleware breaks its contract. ``check``: the name of the check; ``finding``: how."""

    def __init__(self, check: str, subject: str, why: str, finding: Finding) -> None:
        self.check = check
        self.subject = subject
        self.why = why
        self.finding = finding
        super().__init__(self.told())

    def told(self) -> str:
        """Return the breach for a person: what happened, what was expected, why, and the stream."""
        lines = [
            f"{self.subject} breaks its contract: {self.check}",
            f"  happened: {_indented(self.finding.happened)}",
            f"  expected: {_indented(self.finding.expected)}",
            f"  why it matters: {_indented(self.why)}",
        ]
        if self.finding.stream:
            lines.append("  the smallest stream that shows it:")
            lines += [f"    {_shown(event)}" for event in self.finding.stream[:_MOST_EVENTS]]
            left = len(self.finding.stream) - _MOST_EVENTS
            if left > 0:
                lines.append(f"    ... and {left} more events")
        return "\n".join(lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")


def _shown(event: BaseEvent) -> str:
    try:
        shown = to_json(event)
    except InvalidStream:  # half a character, as a model may send it
        shown = repr(event)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}... ({len(shown)} characters)"
