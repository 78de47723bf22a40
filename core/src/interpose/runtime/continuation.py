"""Several passes as one visible run, for a layer that answers tool calls itself and goes on."""

from __future__ import annotations

from typing import Final

from ag_ui.core import (
    BaseEvent,
    Message,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    TokenUsage,
    ToolCallResultEvent,
    ToolCallStartEvent,
    aggregate_token_usage,
)

from interpose.agui import Transcript
from interpose.errors import MiddlewareError

MOST_ROUNDS: Final = 10
"""Passes that may follow the first; one more fails the run."""


class Continuation:
    """What the passes of one run add up to, as they leave the layer that joins them.

    A success is held back until the layer has ended (then it leaves) or goes on (then it is
    forgotten, and what it used is added up). Any other terminal ends the run.
    """

    __slots__ = (
        "_answered",
        "_calls",
        "_first",
        "_held",
        "_layer",
        "_rounds",
        "_transcript",
        "_usage",
        "over",
    )

    def __init__(self, layer: str, run_input: RunAgentInput) -> None:
        self._layer = layer
        self._first = run_input
        self._transcript = Transcript(run_input.messages, run_input.state)
        self._held: RunFinishedEvent | None = None
        self._usage: list[TokenUsage] = []
        self._calls: dict[str, None] = {}
        self._answered: set[str] = set()
        self._rounds = 0
        self.over = False
        """A terminal that nothing can follow has left: interrupt, cancelled or error."""

    def gives(self, event: BaseEvent) -> None:
        """Take note of an event that the layer is given."""
        if isinstance(event, ToolCallStartEvent):
            self._answered.discard(event.tool_call_id)
        elif isinstance(event, ToolCallResultEvent):
            self._answered.add(event.tool_call_id)
        self._transcript.apply(event)

    def leaves(self, event: BaseEvent) -> BaseEvent | None:
        """Return the event that leaves the layer for ``event``; None while it is held back."""
        if isinstance(event, ToolCallStartEvent):
            self._calls[event.tool_call_id] = None
        elif isinstance(event, ToolCallResultEvent):
            self._calls.pop(event.tool_call_id, None)
            if event.tool_call_id not in self._answered:  # else it came from further in
                self._answered.add(event.tool_call_id)
                self._transcript.apply(event)
        elif isinstance(event, RunFinishedEvent):
            if event.outcome is None or isinstance(event.outcome, RunFinishedSuccessOutcome):
                self._held = event
                self._listed(event)
                return None
            self.over = True
            return event.model_copy(update={"usage": self._added_up(event.usage)})
        elif isinstance(event, RunErrorEvent):
            self.over = True
        return event

    def _listed(self, event: RunFinishedEvent) -> None:
        """Take the agent's word for which calls wait, if it says so: others are its own."""
        if isinstance(event.outcome, RunFinishedSuccessOutcome):
            listed = event.outcome.pending_tool_call_ids
            if listed is not None:
                self._calls = dict.fromkeys(listed)

    def goes_on(self, run_input: RunAgentInput) -> RunAgentInput:
        """Return the input of the next pass: what the layer did not change is carried on."""
        self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            raise MiddlewareError(
                f"layer {self._layer!r} continued the run more than {MOST_ROUNDS} times",
                hint="stop when the agent asks for the same again and again",
            )
        if (run_input.run_id, run_input.thread_id) != (self._first.run_id, self._first.thread_id):
            raise MiddlewareError(
                f"layer {self._layer!r} continued with another run or thread",
                hint="continue with run_input.model_copy(update={'messages': ...})",
            )
        if self._held is not None:
            self._usage += self._held.usage or []
            self._held = None
        carried: dict[str, object] = {}
        if run_input.messages is self._first.messages:
            carried["messages"] = self._messages()
        if run_input.state is self._first.state:
            carried["state"] = self._transcript.state
        return run_input.model_copy(update=carried)

    def _messages(self) -> list[Message]:
        """Return the conversation for the next pass; what only a front end shows is not in it."""
        first = {message.id for message in self._first.messages}
        return [
            message
            for message in self._transcript.messages
            if message.role != "activity" or message.id in first
        ]

    def last(self) -> BaseEvent | None:
        """Return the terminal that was held back, of the whole visible run."""
        held = self._held
        if held is None:
            return None
        outcome = held.outcome
        if self._calls or outcome is not None:
            pending = list(self._calls) or None
            outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=pending)
        update = {"usage": self._added_up(held.usage), "outcome": outcome}
        return held.model_copy(update=update)

    def _added_up(self, usage: list[TokenUsage] | None) -> list[TokenUsage] | None:
        entries = [*self._usage, *(usage or [])]
        return aggregate_token_usage(entries) if entries else None
