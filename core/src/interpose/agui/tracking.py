"""What one run has opened so far, and who owns it: the verifier's memory."""

from __future__ import annotations

from collections.abc import Iterable

from ag_ui.core import (
    BaseEvent,
    Message,
    ReasoningEndEvent,
    ReasoningMessageEndEvent,
    RunStartedEvent,
    StepFinishedEvent,
    SubagentErrorEvent,
    TextMessageEndEvent,
    ToolCallEndEvent,
)

Owners = dict[str, str | None]
"""Who opened an id: a ``subagentRunId``, or None for the run itself."""

_LONGEST_ID = 80


class Opened:
    """The open and once opened things of one run.

    The open tables map an id to the number of its opening, which gives the order to close in.
    Owners outlive the close: a later continuation or reopening must still agree with them. Each
    kind has its own namespace, so a message and a tool call may share an id, and so may a
    reasoning span and the message in it.
    """

    __slots__ = (
        "activity_owners", "call_owners", "calls", "closed_subagents", "message_owners",
        "openings", "reasoning", "reasoning_owners", "run_id", "spans", "steps", "subagents",
        "texts", "thread_id",
    )  # fmt: skip

    def __init__(self, started: RunStartedEvent | None) -> None:
        self.thread_id = started.thread_id if started else None
        self.run_id = started.run_id if started else None
        self.openings = 0
        self.texts: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.reasoning: dict[str, int] = {}
        self.spans: dict[str, int] = {}
        self.steps: dict[tuple[str | None, str], int] = {}
        self.subagents: dict[str, int] = {}
        self.closed_subagents: dict[str, None] = {}
        self.message_owners: Owners = {}
        self.call_owners: Owners = {}
        self.reasoning_owners: Owners = {}
        self.activity_owners: Owners = {}
        if started and started.input:
            self.seed(started.input.messages, overwrite=False)

    def opening(self) -> int:
        """Return the number of the next opening."""
        self.openings += 1
        return self.openings

    def seed(self, messages: Iterable[Message], *, overwrite: bool) -> None:
        """Take ownership from messages; a snapshot overrules what openers said."""
        for message in messages:
            if message.role == "reasoning":
                owners = self.reasoning_owners
            elif message.role == "activity":
                owners = self.activity_owners
            else:
                owners = self.message_owners
            if overwrite or message.id not in owners:
                owners[message.id] = message.subagent_run_id
            for call in getattr(message, "tool_calls", None) or ():
                if overwrite or call.id not in self.call_owners:
                    self.call_owners[call.id] = message.subagent_run_id

    @property
    def is_anything_open(self) -> bool:
        """Whether something still has to be closed."""
        return bool(
            self.texts or self.calls or self.reasoning or self.spans or self.steps or self.subagents
        )

    def names(self) -> list[str]:
        """Name what is open, for a person."""
        return [
            *(f"step {quote(name)}" for _, name in self.steps),
            *(f"text message {quote(id_)}" for id_ in self.texts),
            *(f"reasoning message {quote(id_)}" for id_ in self.reasoning),
            *(f"reasoning span {quote(id_)}" for id_ in self.spans),
            *(f"tool call {quote(id_)}" for id_ in self.calls),
            *(f"subagent {quote(id_)}" for id_ in self.subagents),
        ]

    def closing_events(self) -> list[BaseEvent]:
        """Return the events that close what is open, the last opened first."""
        closing: list[tuple[int, BaseEvent]] = []
        for id_, order in self.texts.items():
            owner = self.message_owners.get(id_)
            closing.append((order, TextMessageEndEvent(message_id=id_, subagent_run_id=owner)))
        for id_, order in self.calls.items():
            owner = self.call_owners.get(id_)
            closing.append((order, ToolCallEndEvent(tool_call_id=id_, subagent_run_id=owner)))
        for id_, order in self.reasoning.items():
            owner = self.reasoning_owners.get(id_)
            closing.append((order, ReasoningMessageEndEvent(message_id=id_, subagent_run_id=owner)))
        for id_, order in self.spans.items():
            owner = self.reasoning_owners.get(id_)
            closing.append((order, ReasoningEndEvent(message_id=id_, subagent_run_id=owner)))
        for (owner, name), order in self.steps.items():
            closing.append((order, StepFinishedEvent(step_name=name, subagent_run_id=owner)))
        for id_, order in self.subagents.items():
            ended = SubagentErrorEvent(
                subagent_run_id=id_,
                message="The run ended before this subagent did.",
                code="run-ended",
            )
            closing.append((order, ended))
        closing.sort(key=lambda entry: entry[0], reverse=True)
        return [event for _, event in closing]


def quote(id_: str) -> str:
    """Quote an id for a message: printable, and cut, because a stranger chose it."""
    return repr(id_ if len(id_) <= _LONGEST_ID else id_[:_LONGEST_ID] + "...")
