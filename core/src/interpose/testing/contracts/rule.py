"""One check of the contract, as data: its name, why it matters, and how to look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.subject import Subject


def always(_: Subject) -> str:
    """Say that a rule concerns every middleware."""
    return ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check. ``look`` returns what it found, None if all is well.

    ``why``: why it matters, in a sentence or two, for the author who reads the failure.
    ``spared``: returns the reason why the rule does not concern a middleware, or ``""``.
    """

    name: str
    why: str
    look: Callable[[Subject], Awaitable[Finding | None]]
    spared: Callable[[Subject], str] = always
