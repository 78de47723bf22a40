"""What the application promises: host-scope values now, run-scope values with each run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interpose.capability import Capability
from interpose.errors import Problem, described


def check_application(
    provide: Mapping[Capability[Any], Any], provides: Sequence[Capability[Any]]
) -> Iterator[Problem]:
    """Yield what is wrong with ``Host(provide=...)`` and ``Host(provides=...)``."""
    for capability, value in provide.items():
        missing = capability.missing_members(value)
        if capability.scope == "run":
            yield _problem(
                f"The capability {capability.name} belongs to a run, but Host(provide=...) gives "
                f"it to the whole host.",
                "Promise it with Host(provides=[...]), and give it to each run: "
                "host.run(..., provide={...}).",
            )
        elif missing:
            yield _problem(
                f"Host(provide=...) gives {capability.name} {described(value)} that lacks "
                f"{', '.join(missing)}.",
                "Give it a value with these members.",
            )
    for capability in provides:
        if capability.scope == "host" and capability not in provide:
            yield _problem(
                f"Host(provides=...) promises {capability.name}, which belongs to the host.",
                "Give its value: Host(provide={...}).",
            )


def _problem(message: str, hint: str) -> Problem:
    return Problem("application", message, ("Host(...)",), hint)
