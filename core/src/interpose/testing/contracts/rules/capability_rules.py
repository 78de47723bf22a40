"""Checks of capabilities: what is read is declared, what is declared is provided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from interpose.authoring import Layer, Middleware
from interpose.capability import Capability
from interpose.context import RunContext
from interpose.errors import CapabilityError, StartupError
from interpose.testing.contracts.exercising import exercise, heard
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.offering import offer_finding
from interpose.testing.contracts.playing import Heard, case_agent
from interpose.testing.contracts.protocols import protocol_faults
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import text

_UNDECLARED: Final = "without declaring it"
"""What the host says of a capability that is read all the same."""


async def reads(subject: Subject) -> Finding | None:
    """Play with everything that it declares; it must ask for nothing else."""
    for name, run in await exercise(subject):
        said = _undeclared(run)
        if said:
            return Finding(f"in {name}, {said}", "requires or optional_requires name what is read")
    return None


def _undeclared(run: Heard) -> str:
    error = run.error
    if isinstance(error, CapabilityError):
        return error.message
    lines = (line.partition(" ")[2].splitlines()[0] for line in run.logged if _UNDECLARED in line)
    return next(lines, "")


async def optional(subject: Subject) -> Finding | None:
    """Play once with the optional capabilities, and once without."""
    spare = subject.declaration.optional_requires
    poor = replace(subject, provide={c: v for c, v in subject.provide.items() if c not in spare})
    named = ", ".join(capability.name for capability in spare)
    try:
        without = await exercise(poor)
    except StartupError as error:
        said = "; ".join(problem.message for problem in error.problems)
        return Finding(f"without {named} it does not start: {said}", "it starts")
    for (name, before), (_, after) in zip(await exercise(subject), without, strict=True):
        new = [
            line for line in after.logged if line.startswith("ERROR") and line not in before.logged
        ]
        if before.result.outcome != after.result.outcome or (new and not before.logged):
            told = repr(after.error) if after.error else new[0] if new else after.result.outcome
            return Finding(
                f"without {named}, {name} ends otherwise: {told}",
                "what is optional may be absent: ctx.get(CAPABILITY) is None then",
            )
    return None


async def provides(subject: Subject) -> Finding | None:
    """Start, play one run, and read what it provides, as a layer would that requires it."""
    wanted = subject.declaration.provides
    given: dict[Capability[Any], Any] = {}
    try:
        run = await heard(
            subject, case_agent(subject, [text("Hello.")]), inside=[reader(wanted, given)]
        )
    except StartupError as error:
        said = "; ".join(problem.message for problem in error.problems)
        return Finding(f"the host does not start: {said}", "lifespan provides what is declared")
    missing = [capability.name for capability in wanted if capability not in given]
    if missing:
        said = f": {run.error}" if run.error is not None else ""
        return Finding(
            f"it declares {', '.join(missing)}, and a layer that requires it gets no value{said}",
            "lifespan gives values of host scope, setup those of run scope",
        )
    for capability, value in given.items():
        faults = protocol_faults(capability, value)
        if faults:
            return Finding(
                f"what it provides as {capability.name} is no {_protocol(capability)}: {faults[0]}",
                "a value that every reader of the capability can use",
            )
    return None


def reader(wanted: tuple[Capability[Any], ...], given: dict[Capability[Any], Any]) -> Layer:
    """Return a layer that requires capabilities, and writes down what it gets."""

    class Reader(Middleware):
        """Requires what the middleware under contract provides."""

        requires = wanted

        def setup(self, ctx: RunContext, /) -> None:
            given.update({capability: ctx[capability] for capability in wanted})

    return Layer(Reader, id="contract-reader")


def _protocol(capability: Capability[Any]) -> str:
    return getattr(capability.value_type, "__name__", "valid value")


async def offers(subject: Subject) -> Finding | None:
    """Hold the static index of the installed distribution against what its plugin provides."""
    return offer_finding(subject.cls)


def _no_optional(subject: Subject) -> str:
    spare = subject.declaration.optional_requires
    if not spare:
        return "it declares no optional capability"
    given: Mapping[Capability[Any], Any] = subject.provide
    return "" if any(c in given for c in spare) else "provide= gives none of its optional ones"


def _provides_nothing(subject: Subject) -> str:
    return "" if subject.declaration.provides else "it provides no capability"


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "capabilities-declared",
        "The host starts providers first, and refuses to start without them, by what is declared; "
        "what is read in secret is there by luck.",
        reads,
    ),
    Rule(
        "capabilities-optional",
        "An optional capability is absent wherever nobody installed its provider.",
        optional,
        _no_optional,
    ),
    Rule(
        "capabilities-provided",
        "Others start because of what is declared here, and fail in the middle of a run without.",
        provides,
        _provides_nothing,
    ),
    Rule(
        "capabilities-offered",
        "The host suggests an installed plugin by its offers, without importing it; one that is "
        "not true sends operators the wrong way.",
        offers,
    ),
)
