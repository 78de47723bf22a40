"""What an agent does in one run, told apart from other runs by a word that is in all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ag_ui.core import BaseEvent, CustomEvent, RunAgentInput, StateSnapshotEvent, UserMessage

from interpose.testing.contracts.material import names, sentences
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import reasoning, text, tool_call, user_input

ADA: Final = "zorblat"
"""A word that no middleware has: the mark of a run."""
BOB: Final = "quixnop"
"""The mark of another run."""

Ending = Literal["success", "raises", "run-error", "interrupt", "truncated", "waits"]
"""How an agent ends a run; ``waits``: it does not."""


@dataclass(frozen=True, slots=True)
class Script:
    """What an agent does in one run.

    ``marker`` names the run. ``after``: how many of the ``events`` it sends before it ends as
    ``ending`` says; None: all. ``first``: what it does in the first attempt of the run.
    """

    events: tuple[BaseEvent, ...] = ()
    marker: str = ADA
    ending: Ending = "success"
    after: int | None = None
    first: Script | None = None

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return f"run-{self.marker}"

    @property
    def sent(self) -> tuple[BaseEvent, ...]:
        """The events that it sends."""
        return self.events[: self.after]


def asked(marker: str) -> RunAgentInput:
    """Return the input of a run; its marker is in all of it."""
    return user_input(
        [UserMessage(id=f"user-{marker}", content=f"I am {marker}. Where is my parcel?")],
        thread_id=f"thread-{marker}",
        run_id=f"run-{marker}",
        state={"owner": marker},
    )


def message(marker: str = ADA) -> tuple[BaseEvent, ...]:
    """Return a message in two pieces."""
    return tuple(text(f"Hello {marker}, ", "let me look.", message_id=f"message-{marker}-1"))


def short(marker: str = ADA) -> tuple[BaseEvent, ...]:
    """Return a message, a tool call and a message; the marker is in all texts.

    Some ids are the same in every run, as those of agents that number within a run.
    """
    return (
        *message(marker),
        *tool_call(
            "lookup_order",
            (f'{{"owner": "{marker}", ', '"number": 1}'),
            result=f"The parcel of {marker} is on its way.",
            tool_call_id="call-1",
        ),
        *text(f"It is on its way, {marker}.", message_id="message-2"),
    )


def long(subject: Subject, marker: str = ADA) -> tuple[BaseEvent, ...]:
    """Return events of many kinds, with the middleware's own words and the marker in them."""
    said = sentences(subject)
    half = len(said) // 2
    events: list[BaseEvent] = [
        *reasoning("They are ", f"{marker}.", message_id=f"thought-{marker}"),
        *text(
            f"I am {marker}. ",
            said[:half],
            f"{said[half:]} Still {marker}.",
            message_id=f"message-{marker}-1",
        ),
    ]
    for number, name in enumerate(names(subject)[:3], start=1):
        events += tool_call(
            name,
            (f'{{"owner": "{marker}", ', f'"number": {number}}}'),
            result=f"{said} This is for {marker}.",
            tool_call_id=f"call-{marker}-{number}",
        )
    return (
        *events,
        StateSnapshotEvent(snapshot={"owner": marker}),
        CustomEvent(name="a-name-of-its-own", value={"owner": marker}),
        *text(f"Done, {marker}.", message_id=f"message-{marker}-2"),
    )


def renamed(events: Sequence[BaseEvent], marker: str) -> tuple[BaseEvent, ...]:
    """Return the events with another marker in the place of the first."""
    if marker == ADA:
        return tuple(events)
    return tuple(
        type(event).model_validate_json(event.model_dump_json(by_alias=True).replace(ADA, marker))
        for event in events
    )
