"""Checks that the hooks take whatever is legal: optional fields are not there, runs end early."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import (
    ActivitySnapshotEvent,
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextInputContent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)

from interpose.testing.agents import Part
from interpose.testing.contracts.blaming import own_failure
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.loop_models import Turns
from interpose.testing.contracts.loop_playing import calling, play_loop, play_turn
from interpose.testing.contracts.playing import Heard, play
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.subject import Subject
from interpose.testing.contracts.troubles import ACTS, QUESTION, Notes, trouble
from interpose.testing.events import failed, finished, text, user_input

_BARE: Final = (
    TextMessageStartEvent(message_id="empty", role="assistant"),
    TextMessageEndEvent(message_id="empty"),
    ToolCallStartEvent(tool_call_id="bare", tool_call_name="look_up"),
    ToolCallEndEvent(tool_call_id="bare"),
    ToolCallResultEvent(message_id="late", tool_call_id="of-an-earlier-run", content=""),
    StateSnapshotEvent(snapshot=None),
    StateSnapshotEvent(snapshot=[1, "two"]),
    StateDeltaEvent(delta=[]),
    CustomEvent(name="nothing", value=None),
    ActivitySnapshotEvent(message_id="activity", activity_type="x", content={}),
    MessagesSnapshotEvent(messages=[]),
    MessagesSnapshotEvent(messages=[AssistantMessage(id="silent")]),
)
"""Events whose optional fields are not there, and whose texts are empty."""


def _ending(**fields: Any) -> RunFinishedEvent:
    return finished(None, **fields)


@dataclass(frozen=True, slots=True)
class Unusual:
    """A stream of the agent that is legal, and not what one has in mind."""

    what: str
    parts: tuple[Part, ...] = ()
    asked: dict[str, Any] | None = None


_STREAMS: Final = (
    Unusual("events without their optional fields", _BARE),
    Unusual("an empty run"),
    Unusual("an input without messages", asked={"said": []}),
    Unusual(
        "a message of the user in parts, and one without text",
        asked={
            "said": [
                UserMessage(id="u1", content=[TextInputContent(type="text", text="hi")]),
                AssistantMessage(id="a1", content=None),
                UserMessage(id="u2", content=""),
            ]
        },
    ),
    Unusual("usage without numbers", (_ending(usage=[TokenUsage()]),)),
    Unusual("no usage", (_ending(usage=[]),)),
    Unusual("an outcome that says success", (_ending(outcome=RunFinishedSuccessOutcome()),)),
    Unusual(
        "a pending call of the client",
        (
            ToolCallStartEvent(tool_call_id="bare", tool_call_name="pick"),
            ToolCallEndEvent(tool_call_id="bare"),
            _ending(outcome=RunFinishedSuccessOutcome(pending_tool_call_ids=["bare"])),
        ),
    ),
    Unusual("a cancelled run", (_ending(outcome=RunFinishedCancelledOutcome()),)),
    Unusual(
        "a run that waits for people",
        (_ending(outcome=RunFinishedInterruptOutcome(interrupts=[QUESTION])),),
    ),
    Unusual("RUN_ERROR without a code", (failed("It broke."),)),
    Unusual("an agent that raises", (RuntimeError("It broke."),)),
)


_TOLD_BY_LOOPS: Final = frozenset({"on_usage", "on_finish", "on_end"})
"""Hooks that an agent with a loop tells more than others do."""


async def unusual_payloads(subject: Subject) -> Finding | None:
    """Play what is legal and rare; no hook of the middleware may fail by it."""
    for unusual in _STREAMS:
        finding = await _in_a_stream(subject, unusual)
        if finding is not None:
            return finding
    for what, playing in _endings(subject):
        said = own_failure(subject, await playing)
        if said:
            return _found(what, said)
    of_loops = _TOLD_BY_LOOPS & set(subject.facts.hooks)
    return await _in_a_loop(subject) if subject.uses_loop or of_loops else None


async def _in_a_stream(subject: Subject, unusual: Unusual) -> Finding | None:
    async def look(events: Sequence[Part]) -> Finding | None:
        asked = user_input(**(unusual.asked or {}))
        said = own_failure(subject, await play(subject, events, run_input=asked))
        stream = [event for event in events if isinstance(event, BaseEvent)]
        return _found(unusual.what, said, stream) if said else None

    found = await look(unusual.parts)
    if found is None or unusual.parts != _BARE:
        return found
    return await smallest(_BARE, look) or found


def _endings(subject: Subject) -> Iterator[tuple[str, Coroutine[Any, Any, Heard]]]:
    for act in ACTS:
        inside = [trouble(subject, "on_event", act, Notes())]
        parts = [*text("Well.")]
        yield f"a layer that {act.name}", play(subject, parts, inside=inside)
    yield "a consumer that goes", play(subject, text("Well, ", "hello."), most=1)


async def _in_a_loop(subject: Subject) -> Finding | None:
    scripts: Sequence[tuple[str, Turns]] = (
        ("calls that cannot be executed, or fail, and empty answers", _ODD_CALLS),
        ("a call of the client", [calling("pick")]),
        ("a call that ends the run", [calling("give_up", "look_up")]),
        ("a loop at its limit", [calling("look_up")] * 12),
        ("a model that fails", [{"error": "refused"}]),
    )
    for what, turns in scripts:
        heard = await play_loop(subject, turns)
        said = own_failure(subject, heard.last)
        if said:
            return _found(what, said)
    asked = await play_turn(subject, [calling("approved", "ask_first", "look_up"), "Done."])
    for run in asked.runs:
        said = own_failure(subject, run)
        if said:
            return _found("calls that wait for people", said)
    return None


_ODD_CALLS: Final[Turns] = (
    {
        "calls": [
            {"name": "nobody-has-it", "args": {}},
            {"name": "look_up", "args": '{"query": '},
            {"name": "look_up", "args": "[1]"},
            {"name": "look_up", "args": ""},
        ]
    },
    calling("refuse", "crash"),
    {"text": "", "usage": {}},
)


def _found(what: str, said: str, stream: Sequence[BaseEvent] = ()) -> Finding:
    return Finding(
        f"{what}: {said}",
        "each hook takes what is legal, with optional fields absent and texts empty",
        stream,
    )


RULES: Final = (
    Rule(
        "unusual-payloads",
        "What is rare in tests is daily bread in production: a run without text, a call without "
        "arguments, an ending that is no success. A hook that fails there fails the run, or is "
        "missing from the log.",
        unusual_payloads,
    ),
)
