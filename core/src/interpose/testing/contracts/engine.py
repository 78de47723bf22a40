"""A contract: the checks that concern a middleware, to be run one by one or all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, overload

from interpose.errors import StartupError, UsageError, nearest
from interpose.testing.contracts.bounded import run_bounded
from interpose.testing.contracts.finding import ContractViolation, Finding
from interpose.testing.contracts.playing import ears
from interpose.testing.contracts.rule import Named, On_contra, Rule

Status = Literal["passed", "failed", "excused", "spared"]

HANGS: Final = 60.0
"""Seconds after which a check counts as hanging; no check that works comes near it."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of one check. ``said``: the breach, or why it was excused or does not concern."""

    name: str
    status: Status
    said: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a whole contract."""

    subject: str
    results: tuple[CheckResult, ...]

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(result for result in self.results if result.status == "failed")

    def __bool__(self) -> bool:
        """Whether all is well."""
        return not self.failures

    def __str__(self) -> str:
        lines = [f"{self.subject}: {len(self.failures)} of {len(self.results)} checks failed"]
        for result in self.results:
            first, *rest = result.said.splitlines() or [""]
            lines.append(f"  {result.status:7} {result.name}{': ' if first else ''}{first}")
            lines += [f"    {line}" for line in rest if result.status == "failed"]
        return "\n".join(lines)


class Check:
    """One named check of one subject; call it to run it.

    Raises :class:`ContractViolation` (an ``AssertionError``) with the smallest stream that shows
    the breach, what happened, what was expected, and why it matters.
    """

    def __init__(self, rule: Rule[Any], subject: Named) -> None:
        self._rule = rule
        self._subject = subject

    @property
    def name(self) -> str:
        """The name of the check, as ``text-split``."""
        return self._rule.name

    @property
    def why(self) -> str:
        """Why it matters."""
        return self._rule.why

    def __call__(self) -> None:
        """Run the check."""
        __tracebackhide__ = True  # pytest shows the author's own line, not this one
        finding = run_bounded(self._look, HANGS)
        if finding is None:
            return
        raise ContractViolation(self.name, self._subject.name, self.why, finding)

    async def _look(self) -> Finding | None:
        with ears():
            try:
                return await self._rule.look(self._subject)
            except StartupError as error:
                said = "; ".join(problem.message for problem in error.problems)
                return Finding(f"a host with it does not start: {said}", "it starts")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Check {self.name} of {self._subject.name}>"


class Contract(Sequence[Check]):
    """The checks that concern a subject and are not excused, in order. See :func:`contract`."""

    def __init__(
        self, rules: Iterable[Rule[On_contra]], subject: On_contra, excuse: Mapping[str, str]
    ) -> None:
        self._subject = subject
        self._rules = tuple(rules)
        self._excuse = dict(excuse)
        known = [rule.name for rule in self._rules]
        for name, reason in self._excuse.items():
            if name not in known:
                near = nearest(name, known)
                raise UsageError(
                    f"excuse names {name!r}, which is no check",
                    hint=f"did you mean {near!r}?" if near else f"checks: {', '.join(known)}",
                )
            if not reason.strip():
                raise UsageError(f"excuse gives no reason for {name!r}", hint="say why")
        self._checks = tuple(
            Check(rule, subject)
            for rule in self._rules
            if rule.name not in self._excuse and not rule.spared(subject)
        )

    def run(self) -> Report:
        """Run every check, and report; for use without pytest."""
        return Report(self._subject.name, tuple(self._result(rule) for rule in self._rules))

    def _result(self, rule: Rule[Any]) -> CheckResult:
        if rule.name in self._excuse:
            return CheckResult(rule.name, "excused", self._excuse[rule.name])
        spared = rule.spared(self._subject)
        if spared:
            return CheckResult(rule.name, "spared", spared)
        try:
            Check(rule, self._subject)()
        except ContractViolation as violation:
            return CheckResult(rule.name, "failed", str(violation))
        return CheckResult(rule.name, "passed")

    @overload
    def __getitem__(self, index: int) -> Check: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Check]: ...
    def __getitem__(self, index: int | slice) -> Check | Sequence[Check]:
        return self._checks[index]

    def __len__(self) -> int:
        return len(self._checks)

    def __iter__(self) -> Iterator[Check]:
        return iter(self._checks)

    def __repr__(self) -> str:
        return f"<Contract of {self._subject.name}: {len(self)} checks>"


def hung(seconds: float) -> Finding:
    """Return the finding that a check did not come to an end."""
    return Finding(
        f"nothing more happened for {seconds:g} s: a hook waits for ever, or never lets go",
        "every hook comes to an end, and lets itself be cancelled",
    )
