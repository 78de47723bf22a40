"""The check that a middleware stands beside another one of its own class."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ag_ui.core import EventType

from interpose.errors import InvalidStream, StartupError
from interpose.testing.contracts.exercising import exercise
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.playing import Heard
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.subject import Subject

_BEGIN: Final = frozenset(
    {EventType.TEXT_MESSAGE_START, EventType.REASONING_START, EventType.TOOL_CALL_START}
)


async def second_instance(subject: Subject) -> Finding | None:
    """Play with two layers of the class; a run that went well has to go well again."""
    second = subject.layer(f"{subject.layer_id}-second")
    try:
        both = await exercise(subject, inside=[second])
    except StartupError as error:
        said = "; ".join(problem.message for problem in error.problems)
        return Finding(f"a host with two layers of it does not start: {said}", "it starts")
    for (name, alone), (_, doubled) in zip(await exercise(subject), both, strict=True):
        said = _worse(alone, doubled)
        if said:
            return Finding(
                f"{name} goes well with one layer of it; with two, {said}",
                "each layer has its own state, ids and names of its own",
            )
    return None


def _worse(alone: Heard, doubled: Heard) -> str:
    """Say what goes wrong with two that does not with one."""
    clashing = _reopened(doubled) - _reopened(alone)
    if clashing:
        return f"two things of one stream have the id {min(clashing)!r}"
    error = doubled.error
    if isinstance(error, InvalidStream) and not isinstance(alone.error, InvalidStream):
        return f"the stream is not valid: {error.message}"
    if alone.result.outcome == doubled.result.outcome:
        new = len(_failures(doubled)) - 2 * len(_failures(alone))
        return f"the host reports: {_failures(doubled)[0]}" if new > 0 else ""
    told = repr(error) if error is not None else ", ".join(_failures(doubled)) or "no error is told"
    return f"it ends as {doubled.result.outcome}, not {alone.result.outcome}: {told}"


def _reopened(heard: Heard) -> set[str]:
    """Return the ids under which more than one message or call begins."""
    begun = Counter(
        str(getattr(event, "tool_call_id", None) or getattr(event, "message_id", ""))
        for event in heard.events
        if event.type in _BEGIN
    )
    return {ident for ident, times in begun.items() if times > 1}


def _failures(heard: Heard) -> list[str]:
    return [line.splitlines()[0] for line in heard.logged if line.startswith("ERROR")]


def _alone_on_purpose(subject: Subject) -> str:
    declaration = subject.declaration
    single = [capability.name for capability in declaration.provides if capability.single]
    if single:
        return f"only one part may provide {', '.join(single)}"
    if subject.layer_id in declaration.conflicts:
        return "it declares a conflict with itself"
    return ""


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "second-instance",
        "Operators use a middleware twice, with other settings or for other agents; what is kept "
        "under a fixed id or in a module is then shared.",
        second_instance,
        _alone_on_purpose,
    ),
)
