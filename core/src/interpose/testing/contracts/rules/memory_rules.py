"""Check that what is held back, and what is kept, does not grow with what a run says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final, TypeAlias

from ag_ui.core import BaseEvent, RunAgentInput, TextMessageContentEvent, TextMessageEndEvent

from interpose.authoring import Layer, Middleware
from interpose.context import AgentContext, RunContext
from interpose.events import on
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.playing import CaseAgent, case_agent, play_agent
from interpose.testing.contracts.retained import kept_by
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules.stream_rules import no_stream
from interpose.testing.contracts.subject import Subject
from interpose.testing.contracts.watching import watched
from interpose.testing.events import text
from interpose.text import TextTransform

Note: TypeAlias = Callable[[BaseEvent], None]

MOST_HELD: Final = 4_096
"""Characters that may be held back."""
_PIECES: Final = 160
_PIECE: Final = 80
_MESSAGES: Final = 30
_LONG: Final = 4_000
_SHARE: Final = 4
"""More than a quarter of what was said is content; ids and counts are less."""
_FILLER: Final = "The parcel is on its way. "


async def bounded_memory(subject: Subject) -> Finding | None:
    """Play one endless message, and many messages, and count characters and bytes."""
    # A text transform holds no more than its max_hold, by construction.
    for events in () if issubclass(subject.cls, TextTransform) else _endless(subject):
        finding = await _held_back(subject, events)
        if finding is not None:
            return finding
    return await _kept(subject)


def _endless(subject: Subject) -> Iterator[list[BaseEvent]]:
    """Yield long messages: one that never concerns it, and some that nearly do all the time."""
    nearly = [word[:-1] for word in subject.words[:3] if len(word) > 1]
    for said in (_FILLER, *nearly, "4111 1111 1111 111", "( [ { < « “ \" ' ` * _ http://"):
        repeated = f"{said} " if said in nearly else said + _FILLER
        whole = (repeated * (_PIECES * _PIECE // len(repeated) + 1))[: _PIECES * _PIECE]
        yield text(*(whole[at : at + _PIECE] for at in range(0, len(whole), _PIECE)))


async def _held_back(subject: Subject, events: Sequence[BaseEvent]) -> Finding | None:
    """Count what leaves only once the message ends."""
    counter = _Counter()
    at_end: list[int] = []

    def note(event: BaseEvent) -> None:
        if isinstance(event, TextMessageEndEvent):
            at_end.append(counter.characters)

    agent = _Noting(subject, events, note)
    heard = await play_agent(subject, agent, outside=[counter.layer()], strict=False)
    if heard.ended_early or not at_end:
        return None
    held = counter.characters - at_end[0]
    if held <= MOST_HELD:
        return None
    return Finding(
        f"it held back {held} of {_PIECES * _PIECE} characters until the message ended",
        f"it holds back at most {MOST_HELD}, and lets go of the rest; what must be seen whole has "
        f"a bound of its own",
        [*events[:3], events[-1]],
    )


async def _kept(subject: Subject) -> Finding | None:
    """Weigh it after each third of many messages."""
    events = [event for number in range(_MESSAGES) for event in _long_message(number)]
    marks = [len(events) * third // 3 for third in (1, 2, 3)]
    seen, instances = watched(subject)
    generators = any(name.startswith("around_") for name in subject.facts.hooks)
    sizes: list[int] = []
    count = -1  # RUN_STARTED

    def note(_: BaseEvent) -> None:
        nonlocal count
        if count in marks and instances:
            sizes.append(kept_by(instances[-1], generators=generators))
        count += 1

    heard = await play_agent(seen, _Noting(seen, events, note), strict=False)
    if heard.ended_early or len(sizes) != len(marks):
        return None
    said = _MESSAGES * _LONG // 3
    grown = min(sizes[1] - sizes[0], sizes[2] - sizes[1])
    if grown * _SHARE <= said:
        return None
    return Finding(
        f"after {_MESSAGES} messages of {_LONG} characters it keeps {sizes[2] - sizes[0]} bytes "
        f"more than after {_MESSAGES // 3} of them: it remembers what was said",
        "it keeps ids and counts, and of texts what it still needs",
        _long_message(0),
    )


def _long_message(number: int) -> list[BaseEvent]:
    said = (f"This is message {number}. " + _FILLER * (_LONG // len(_FILLER)))[:_LONG]
    half = _LONG // 2
    return text(said[:half], said[half:], message_id=f"message-{number}")


class _Noting(CaseAgent):
    """Calls ``note`` before each event: by then the layers are done with the one before."""

    def __init__(self, subject: Subject, events: Sequence[BaseEvent], note: Note) -> None:
        super().__init__([events], case_agent(subject, ()).points)
        self._note = note

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play the case, and say so before each event."""
        async for event in super().run(run_input, ctx):
            self._note(event)
            yield event


class _Counter:
    """Counts the characters that leave."""

    def __init__(self) -> None:
        self.characters = 0

    def layer(self) -> Layer:
        """Return the layer that counts."""
        counter = self

        class Count(Middleware):
            @on(TextMessageContentEvent)
            def count(self, _: RunContext, event: TextMessageContentEvent) -> None:
                counter.characters += len(event.delta)

        return Layer(Count, id="counter")


def _sees_nothing(subject: Subject) -> str:
    return "" if {"on_message", "on_tool_call"} & set(subject.facts.hooks) else no_stream(subject)


RULES: Final = (
    Rule(
        "bounded-memory",
        "Models write for minutes, and servers serve for months. Text that is held is text that "
        "nobody reads yet; text that is kept is memory that never comes back.",
        bounded_memory,
        _sees_nothing,
    ),
)
