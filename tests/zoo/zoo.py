"""The zoo: small middlewares with mistakes that people really made, and correct twins.

Each mistake says where it was reported, and which check of the contract is to find it. A twin does
the same job without the mistake, and passes every check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interpose import Capability, Middleware


@dataclass(frozen=True, slots=True, kw_only=True)
class Animal:
    """A middleware, and what its contract is made with."""

    cls: type[Middleware[Any, Any]]
    settings: Mapping[str, Any] | None = None
    samples: Sequence[str] = ()
    agent: object = None
    provide: Mapping[Capability[Any], Any] = field(default_factory=dict)
    excuse: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of ``contract``."""
        return {
            "settings": self.settings,
            "samples": self.samples,
            "agent": self.agent,
            "provide": self.provide,
            "excuse": self.excuse,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug(Animal):
    """A middleware with a mistake. ``check`` finds it; ``mistake``: what is wrong, in a sentence.

    ``reported``: where users of this field reported the kind, as ``langchain#35011 (a guard that
    streaming goes around)``.
    """

    check: str
    mistake: str
    reported: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin(Animal):
    """A correct middleware; no check may fail. ``does``: its job, in a few words."""

    does: str
