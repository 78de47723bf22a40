"""Check of texts that overlap: several subagents, messages and calls at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, TypeAlias

from ag_ui.core import (
    BaseEvent,
    ReasoningMessageStartEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageStartEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import expanded
from interpose.testing.contracts.material import halves, names, sentences
from interpose.testing.contracts.playing import play
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules.stream_rules import no_stream
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import reasoning, text, tool_call

Lane: TypeAlias = tuple[str, str]
"""Kind and id of a text."""

_FEW: Final = 160
"""Characters of each text."""
_TAGGED: Final = (
    TextMessageStartEvent,
    ReasoningMessageStartEvent,
    ToolCallStartEvent,
    ToolCallResultEvent,
    StepStartedEvent,
    StepFinishedEvent,
)
"""Events that say whose they are; what continues a message need not."""


async def subagents(subject: Subject) -> Finding | None:
    """Play texts that overlap; each must be what it is alone, and stay whose it is."""

    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        return await _mixed_up(subject, events)

    for events in _overlapping(subject):
        finding = await smallest(events, look)
        if finding is not None:
            return finding
    return None


def _overlapping(subject: Subject) -> Iterator[Sequence[BaseEvent]]:
    said = sentences(subject)[:_FEW]
    other = said[::-1]
    name, *_ = names(subject)
    ada, bob = "subagent-ada", "subagent-bob"
    args = ('{"que', f'ry": "{ada}', f' of {bob}"}}')
    yield (
        SubagentStartedEvent(subagent_run_id=ada, name="ada"),
        SubagentStartedEvent(subagent_run_id=bob, name="bob"),
        *_mixed(
            (
                *_step(ada),
                *text(*halves(said), message_id="of-ada", subagent_run_id=ada),
                *tool_call(name, args, result=said, tool_call_id="ada-1", subagent_run_id=ada),
            ),
            (
                *_step(bob),
                *text(*halves(other), message_id="of-bob", subagent_run_id=bob),
                *tool_call(name, args, result=other, tool_call_id="bob-1", subagent_run_id=bob),
            ),
            text(*halves(said)),
        ),
        SubagentFinishedEvent(subagent_run_id=ada),
        SubagentFinishedEvent(subagent_run_id=bob),
    )
    yield (
        SubagentStartedEvent(subagent_run_id=bob, name="bob"),
        SubagentStartedEvent(subagent_run_id=ada, name="ada", parent_subagent_run_id=bob),
        *_mixed(
            text(*halves(said), message_id="of-bob", subagent_run_id=bob),
            reasoning(*halves(other), message_id="of-ada", subagent_run_id=ada),
        ),
        SubagentFinishedEvent(subagent_run_id=ada),
        SubagentFinishedEvent(subagent_run_id=bob),
    )
    yield _mixed(  # messages, reasoning and calls may have the same id
        text(*halves(said)),
        reasoning(*halves(other), message_id="message"),
        tool_call(name, args, tool_call_id="message"),
        tool_call(name, ("[", "1", "]"), tool_call_id="second"),
    )


def _mixed(*lanes: Sequence[BaseEvent]) -> tuple[BaseEvent, ...]:
    rows = zip_longest(*lanes)
    return tuple(event for row in rows for event in row if event is not None)


def _step(owner: str) -> Sequence[BaseEvent]:
    return (
        StepStartedEvent(step_name="think", subagent_run_id=owner),
        StepFinishedEvent(step_name="think", subagent_run_id=owner),
    )


async def _mixed_up(subject: Subject, events: Sequence[BaseEvent]) -> Finding | None:
    """Compare what each text is when it overlaps others, after them, and alone.

    What counts over a whole run (the first message only, so many characters) differs already
    between alone and after others, and is no mistake.
    """
    heard = await play(subject, [events], strict=False)
    if heard.ended_early:
        return None
    left = list(expanded(heard.events))
    for said in _of_another(events, left):
        return Finding(said, "what it builds anew belongs to the same subagent")
    mixed = _by_lane(left)
    # Whatever counts beginnings, or ends, finds them in the same order in one of these.
    by_begin = await _said(subject, _in_turn(events, events))
    by_end = await _said(subject, _in_turn(events, events[::-1])[::-1])
    for lane in dict.fromkeys(map(_lane, events)):
        now, once = mixed.get(lane), by_begin.get(lane)
        if now == once or once != by_end.get(lane):
            continue
        alone = [e for e in events if _lane(e) == lane or _lane(e) is None]
        if (await _said(subject, alone)).get(lane) == once:
            return Finding(
                f"{_named(lane)} is {once!r} alone, and {now!r} while others go on",
                "each text has a state of its own, kept by its kind and its id",
            )
    return None


async def _said(subject: Subject, events: Sequence[BaseEvent]) -> dict[Lane | None, str]:
    heard = await play(subject, [events], strict=False)
    return _by_lane(list(expanded(heard.events)))


def _in_turn(events: Sequence[BaseEvent], order: Sequence[BaseEvent]) -> list[BaseEvent]:
    """Return the texts one after the other, in the order in which they come in ``order``.

    ``order`` may be the stream backwards: then the result is, too.
    """
    lanes = dict.fromkeys(filter(None, map(_lane, order)))
    frames = [event for event in order if _lane(event) is None]
    first = [e for e in frames if isinstance(e, SubagentStartedEvent)]
    last = [e for e in frames if not isinstance(e, SubagentStartedEvent)]
    before, after = (first, last) if order is events else (last, first)
    texts = [event for lane in lanes for event in order if _lane(event) == lane]
    return [*before, *texts, *after]


def _lane(event: Any) -> Lane | None:
    """Return the text that an event is part of; None for the frames of subagents."""
    if hasattr(event, "tool_call_id"):
        return ("arguments of call", event.tool_call_id)
    if hasattr(event, "message_id"):
        kind = "reasoning" if "REASONING" in event.type.value else "message"
        return (kind, event.message_id)
    if hasattr(event, "step_name"):
        return ("step", f"{event.subagent_run_id} {event.step_name}")
    return None


def _by_lane(events: Sequence[BaseEvent]) -> dict[Lane | None, str]:
    said: dict[Lane | None, str] = {}
    for event in events:
        lane = _lane(event)
        delta = getattr(event, "delta", "")
        said[lane] = said.get(lane, "") + (delta if isinstance(delta, str) else "")
    return said


def _named(lane: Lane | None) -> str:
    return "it" if lane is None else f"{lane[0]} {lane[1]!r}"


def _of_another(sent: Sequence[BaseEvent], left: Sequence[BaseEvent]) -> Iterator[str]:
    """Yield the events that left as somebody else's."""
    owners: dict[object, Any] = {
        (type(event), _lane(event)): event for event in sent if isinstance(event, _TAGGED)
    }
    for event in left:
        came = owners.get((type(event), _lane(event)))
        now = getattr(event, "subagent_run_id", None)
        if came is not None and came.subagent_run_id != now:
            whose = "the main agent's" if now is None else f"{now!r}'s"
            yield f"{event.type.value} of {came.subagent_run_id!r} left as {whose}"


RULES: Final = (
    Rule(
        "subagents",
        "Subagents and parallel calls stream at the same time. State that is kept for the run "
        "and not for each text mixes them up.",
        subagents,
        no_stream,
    ),
)
