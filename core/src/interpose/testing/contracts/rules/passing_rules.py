"""Check of what is none of a middleware's business: it passes, with all that it carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    CustomEvent,
    ReasoningMessageContentEvent,
    RunAgentInput,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    ToolCallArgsEvent,
)
from pydantic import BaseModel

from interpose.testing.contracts.bystanders import PIECE, bystanders, endings, full_input
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.playing import play, play_bare
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import user_input

_CONTENTS: Final = (TextMessageContentEvent, ReasoningMessageContentEvent, ToolCallArgsEvent)
"""A middleware may hold these back, join them and drop them."""
_NOBODYS: Final = (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    CustomEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
)
"""What passes whoever sees every event, too: nobody can know these names, kinds and keys."""
_IDS: Final = (
    "message_id",
    "tool_call_id",
    "step_name",
    "entity_id",
    "name",
    "subagent_run_id",
)
_FREE: Final = frozenset({"raw_event", "type"})


async def passes_others(subject: Subject) -> Finding | None:
    """Play what concerns nobody, and compare with what leaves where no layer stands."""
    for ending in endings():

        async def look(events: Sequence[BaseEvent], ending: BaseEvent = ending) -> Finding | None:
            parts = [*events, ending]
            asked = user_input()
            heard = await play(subject, parts, run_input=asked, strict=False)
            if heard.ended_early:
                return None
            lost = next(_lost(subject, await play_bare(parts, asked), heard.events), "")
            return Finding(lost, _EXPECTED, parts) if lost else None

        finding = await smallest(bystanders(), look)
        if finding is not None:
            return finding
    return await _input_arrives(subject)


_EXPECTED: Final = "what it does not name passes, and what it builds anew keeps the rest"


def _lost(subject: Subject, sent: Sequence[BaseEvent], left: Sequence[BaseEvent]) -> Iterator[str]:
    """Yield what of the events has not left."""
    for event, other in _paired(sent, left):
        name = event.type.value
        if other is None:
            if _must_leave(subject, event):
                yield f"{name} did not leave, and {_unnamed(subject)}"
        elif not isinstance(event, _CONTENTS):
            changed = " and ".join(_changed(subject, event, other))
            if changed:
                yield f"{name} left {changed}"
        elif not any(_key(each) == _key(event) and _has_piece(each) for each in left):
            yield f"{name} left without the metadata that it came with"


def _paired(
    sent: Sequence[BaseEvent], left: Sequence[BaseEvent]
) -> list[tuple[BaseEvent, BaseEvent | None]]:
    """Pair each event with the one that left of its kind and id, else with a spare of its kind."""
    waiting: dict[tuple[object, ...], list[BaseEvent]] = {}
    for event in left:
        waiting.setdefault(_key(event), []).append(event)
    first = [(event, _next(waiting, _key(event))) for event in sent]
    spare: dict[type[BaseEvent], list[BaseEvent]] = {}
    for others in waiting.values():
        for event in others:
            spare.setdefault(type(event), []).append(event)
    return [
        (event, spare[type(event)].pop(0) if other is None and spare.get(type(event)) else other)
        for event, other in first
    ]


def _next(waiting: dict[tuple[object, ...], list[BaseEvent]], key: tuple[object, ...]) -> Any:
    found = waiting.get(key)
    return found.pop(0) if found else None


def _key(event: BaseEvent) -> tuple[object, ...]:
    return (type(event), *(getattr(event, name, None) for name in _IDS))


def _sees_all(subject: Subject) -> bool:
    return bool({"on_event", "around_run"} & set(subject.facts.hooks))


def _names(subject: Subject, event: BaseEvent) -> bool:
    return subject.facts.on_method(type(event)) is not None


def _unnamed(subject: Subject) -> str:
    return "nobody can know it" if _sees_all(subject) else "no hook of it names it"


def _must_leave(subject: Subject, event: BaseEvent) -> bool:
    if _names(subject, event):
        return False
    return isinstance(event, _NOBODYS) if _sees_all(subject) else True


def _has_piece(event: BaseEvent) -> bool:
    """Tell whether the metadata of a piece, or of several that were joined, is there."""
    return PIECE in (event.metadata or {})


def _changed(subject: Subject, event: BaseEvent, other: BaseEvent) -> Iterator[str]:
    """Yield what an event lost: any field at all if it has been taken by a hook, else a value."""
    taken = _names(subject, event) or (_sees_all(subject) and not isinstance(event, _NOBODYS))
    for field, value in event:
        if field in _FREE or value is None:
            continue
        now = getattr(other, field)
        if now is None:
            yield f"without its {field}"
        elif field == "metadata" and not contains(value, now):
            yield "without the metadata that it came with"
        elif not taken and not contains(value, now):
            yield f"with another {field}"


async def _input_arrives(subject: Subject) -> Finding | None:
    if not {"on_input", "around_run"} & set(subject.facts.hooks):
        return None
    given = full_input(subject)
    heard = await play(subject, [], run_input=given, strict=False)
    if not heard.inputs:
        return None
    for lost in _missing(given, heard.inputs[-1]):
        return Finding(
            f"the agent was not asked with what the run was asked with: {lost}",
            "what it does not change in the input reaches the agent",
        )
    return None


def _missing(given: RunAgentInput, got: RunAgentInput) -> Iterator[str]:
    for field in ("state", "forwarded_props", "parent_run_id"):
        if not contains(getattr(given, field), getattr(got, field)):
            yield f"{field} is lost"
    for field in ("tools", "context", "messages"):
        # Some may be taken away on purpose, but not all of them.
        before, after = getattr(given, field), getattr(got, field) or []
        kept = [(one, two) for one in before for two in after if _same(one, two)]
        if not kept:
            yield f"all {field} are lost"
        for one, two in kept:
            for name in ("name", "metadata"):
                value = getattr(one, name, None)
                if value is not None and not contains(value, getattr(two, name, None)):
                    yield f"{name} of one of the {field} is lost"


def _same(one: Any, two: Any) -> bool:
    for name in ("id", "name", "description"):
        if hasattr(one, name):
            return bool(getattr(one, name) == getattr(two, name, None))
    return bool(one == two)


def contains(wanted: Any, found: Any) -> bool:
    """Tell whether all of ``wanted`` is in ``found``, which may hold more."""
    if isinstance(wanted, BaseModel):
        return isinstance(found, BaseModel) and contains(wanted.model_dump(), found.model_dump())
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            key in found and contains(value, found[key])
            for key, value in wanted.items()
            if value is not None
        )
    if isinstance(wanted, list | tuple):
        return isinstance(found, list | tuple) and all(
            any(contains(value, other) for other in found) for value in wanted
        )
    return bool(wanted == found)


def _no_touch(subject: Subject) -> str:
    touches = subject.touches_stream or "on_input" in subject.facts.hooks
    return "" if touches else "neither events nor input pass through it"


RULES: Final = (
    Rule(
        "passes-others",
        "A run is made of more than one middleware knows: newer events, other layers' metadata, "
        "the application's own values. What is swallowed is missed by somebody far away.",
        passes_others,
        _no_touch,
    ),
)
