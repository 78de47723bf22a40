"""One check of the contract, as data: its name, why it matters, and how to look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol

from typing_extensions import TypeVar

from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.subject import Subject


class Named(Protocol):
    """What can be under contract: a middleware, a provider, a model or an agent."""

    @property
    def name(self) -> str:
        """Its name, for messages."""


On_contra = TypeVar("On_contra", bound=Named, default=Subject, contravariant=True)


def always(_: object) -> str:
    """Say that a rule concerns everybody."""
    return ""


@dataclass(frozen=True, slots=True)
class Rule(Generic[On_contra]):
    """A check of a middleware, or of whatever is under contract.

    ``look`` returns what it found, None if all is well. ``why``: why it matters, in a sentence or
    two, for the author who reads the failure. ``spared``: returns the reason why the rule does not
    concern a subject, or ``""``.
    """

    name: str
    why: str
    look: Callable[[On_contra], Awaitable[Finding | None]]
    spared: Callable[[On_contra], str] = always
