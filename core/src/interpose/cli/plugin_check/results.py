"""The outcome of each check, as data that also travels between two processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from interpose.errors import Problem

Outcome = Literal["ok", "error", "warning", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check that was made, or left out.

    ``says``: what was found where all is well. ``skipped``: why it was not made.
    """

    name: str
    says: str = ""
    problems: tuple[Problem, ...] = ()
    skipped: str = ""

    @property
    def outcome(self) -> Outcome:
        """What it comes to. A note alone is nothing wrong."""
        severities = {problem.severity for problem in self.problems}
        if "error" in severities:
            return "error"
        if self.skipped:
            return "skipped"
        return "warning" if "warning" in severities else "ok"


def checked(name: str, says: str, problems: Iterable[Problem]) -> Check:
    """Return a check that was made; what it finds twice counts once."""
    return Check(name, says, tuple(dict.fromkeys(problems)))


def to_json(check: Check) -> dict[str, Any]:
    """Return a check as JSON has it."""
    return {
        "check": check.name,
        "outcome": check.outcome,
        "message": check.skipped or check.says,
        "problems": [asdict(problem) for problem in check.problems],
    }


def from_json(told: Mapping[str, Any]) -> Check:
    """Return what :func:`to_json` wrote. Raises whatever such a mapping can when it is none."""
    problems = tuple(
        Problem(**{**problem, "where": tuple(problem["where"])}) for problem in told["problems"]
    )
    message = str(told["message"])
    if told["outcome"] == "skipped":
        return Check(str(told["check"]), problems=problems, skipped=message)
    return Check(str(told["check"]), message, problems)
