"""The streams that a contract plays: everything that an agent may send, in small cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ag_ui.core import (
    ActivitySnapshotEvent,
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    RawEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    UserMessage,
)

from interpose.testing.contracts.subject import Subject
from interpose.testing.events import reasoning, text, tool_call

PROSE: Final = (
    "The parcel left the depot at 9:30; it weighs 2.5 kg. Ask ada.lovelace@example.com, "
    "or call +44 20 7946 0958. Card 4111 1111 1111 1111, key sk-test-4eC39HqLyjWDarjtT1zdp7dc. "
    "Naïve café, 東京 and 👩‍👩‍👧. See https://example.com/a?b=c&d=e#f, "
    "`code`, **bold** and <b>tags</b>.\n"
)
"""What text in streams is like: figures, addresses, numbers, letters of all kinds, markup."""


@dataclass(frozen=True, slots=True)
class Case:
    """A stream between RUN_STARTED and its terminal, whole and valid. ``name``: what it shows."""

    name: str
    events: tuple[BaseEvent, ...]


def cases(subject: Subject) -> Sequence[Case]:
    """Return the streams for a middleware; its own words are in their texts and names."""
    said = sentences(subject)
    return (
        Case("a text", tuple(text(*halves(said)))),
        Case("two texts", (*text("Well. ", *halves(said)), *text(said, message_id="second"))),
        Case("reasoning, then a text", (*reasoning(*halves(said)), *text(*halves(said)))),
        Case("tool calls", calls(subject)),
        Case("state, steps, activities and more", others(said)),
        Case("two subagents at once", subagents(said)),
        Case("a snapshot of the messages", snapshot(said)),
    )


def sentences(subject: Subject) -> str:
    """Return a text with the middleware's own words: alone, doubled, in capitals, in a word."""
    words = subject.words[:20]
    said = "".join(f"So {word} it is, {word}{word}, {word.upper()}! x{word}x. " for word in words)
    return f"{said}{PROSE}"


def names(subject: Subject) -> tuple[str, ...]:
    """Return names for tools: words of the settings that could be one, and a common one."""
    fitting = [word for word in subject.words if word.replace("_", "").replace("-", "").isalnum()]
    return (*fitting[:5], "lookup_order")


def calls(subject: Subject) -> tuple[BaseEvent, ...]:
    """Return a call of each tool, with its arguments in pieces and a result."""
    said = sentences(subject)
    events: list[BaseEvent] = []
    for number, name in enumerate(names(subject), start=1):
        args = f'{{"query": "{number} ada@example.com", "nested": {{"list": [1, true, "x"]}}}}'
        events += tool_call(
            name, (args[:7], args[7:20], args[20:]), result=said, tool_call_id=f"call-{number}"
        )
    return (*text("Let me look."), *events, *text("There it is.", message_id="after"))


def others(said: str) -> tuple[BaseEvent, ...]:
    """Return events of all the other kinds; names and types that no middleware can know."""
    return (
        StepStartedEvent(step_name="think"),
        StateSnapshotEvent(snapshot={"notes": [said], "count": 1, "deep": {"er": None}}),
        StateDeltaEvent(delta=[{"op": "replace", "path": "/count", "value": 2}]),  # type: ignore[list-item]
        ActivitySnapshotEvent(
            message_id="activity", activity_type="a-kind-of-its-own", content={"title": said}
        ),
        CustomEvent(name="a-name-of-its-own", value={"any": ["thing", 1, None]}),
        RawEvent(event={"from": "the provider"}, source="provider"),
        StepFinishedEvent(step_name="think"),
        *text("Done."),
    )


def subagents(said: str) -> tuple[BaseEvent, ...]:
    """Return two subagents that speak at the same time, and the main agent between them."""
    ada, bob = ("subagent-ada", "subagent-bob")
    first = text(*halves(said), message_id="of-ada", subagent_run_id=ada)
    second = text(*halves(said[::-1]), message_id="of-bob", subagent_run_id=bob)
    mixed = [event for pair in zip(first, second, strict=True) for event in pair]
    return (
        SubagentStartedEvent(subagent_run_id=ada, name="ada"),
        SubagentStartedEvent(subagent_run_id=bob, name="bob"),
        *mixed,
        SubagentFinishedEvent(subagent_run_id=ada),
        SubagentFinishedEvent(subagent_run_id=bob),
        *text("Both have answered."),
    )


def snapshot(said: str) -> tuple[BaseEvent, ...]:
    """Return a message, then a snapshot of the conversation that says the same."""
    return (
        *text(*halves(said)),
        MessagesSnapshotEvent(
            messages=[
                UserMessage(id="user", content="hi"),
                AssistantMessage(id="message", content=said),
            ]
        ),
    )


def halves(said: str) -> tuple[str, ...]:
    """Return a text in uneven pieces."""
    middle = max(13, len(said) // 2)
    pieces = (said[:5], said[5:13], said[13:middle], said[middle:])
    return tuple(piece for piece in pieces if piece)
