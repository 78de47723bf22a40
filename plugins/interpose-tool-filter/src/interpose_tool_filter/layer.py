"""The middleware: one event hook per carrier of a tool call."""

# ruff: noqa: ARG002 - every hook is given the context

from __future__ import annotations

from typing import Any, TypeVar

from ag_ui.core import (
    BaseEvent,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    RunFinishedEvent,
    RunStartedEvent,
    SubagentStartedEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from interpose import DROP, Middleware, Point, Result, RunContext, Stage, on
from interpose_tool_filter.calls import Calls
from interpose_tool_filter.outcome import shown_outcome
from interpose_tool_filter.settings import ToolFilterSettings

E = TypeVar("E", bound=BaseEvent)


class ToolFilter(Middleware[ToolFilterSettings]):
    """Hide tool calls from the consumer. Not a security control.

    A hidden call leaves no event, no message and no reference. Whether its tool runs is not
    decided here: a back-end tool has already run when its events come by, and a front-end tool
    that the consumer never hears of does not run, although the model still means it.
    """

    stage = Stage.SHAPE
    essential = (Point.EVENTS,)

    def setup(self, ctx: RunContext, /) -> None:
        """Start with no calls known."""
        self.calls = Calls(self.settings)

    @on(RunStartedEvent)
    def run_started(self, ctx: RunContext, event: RunStartedEvent) -> Result:
        """Learn the calls of earlier turns, and clean the input that the agent echoes.

        Here and not in ``on_input``: layers further in may still have added history then.
        """
        self.calls.shown(ctx.input.messages)
        if event.input is None:
            return self._unchanged(event)
        messages = self.calls.shown(event.input.messages)
        if messages is event.input.messages:
            return self._unchanged(event)
        return _changed(event, input=event.input.model_copy(update={"messages": messages}))

    @on(ToolCallStartEvent)
    def call_started(self, ctx: RunContext, event: ToolCallStartEvent) -> Result:
        """Decide about a call. An id that a hidden call had before may be shown now."""
        hidden = self.calls.start(event.tool_call_id, event.tool_call_name)
        return DROP if hidden else self._unchanged(event)

    @on(ToolCallArgsEvent, ToolCallEndEvent)
    def call_continued(
        self, ctx: RunContext, event: ToolCallArgsEvent | ToolCallEndEvent
    ) -> Result:
        """Follow the call's start."""
        return DROP if self.calls.hidden(event.tool_call_id) else self._unchanged(event)

    @on(ToolCallResultEvent)
    def call_answered(self, ctx: RunContext, event: ToolCallResultEvent) -> Result:
        """Follow the call's start; a second result does so, too."""
        hidden = self.calls.result(event.tool_call_id, event.message_id)
        return DROP if hidden else self._unchanged(event)

    @on(ReasoningEncryptedValueEvent)
    def value_encrypted(self, ctx: RunContext, event: ReasoningEncryptedValueEvent) -> Result:
        """Drop the values that belong to a hidden call or to its result."""
        of_call = event.subtype == "tool-call"
        hidden = self.calls.hidden if of_call else self.calls.hidden_result
        return DROP if hidden(event.entity_id) else self._unchanged(event)

    @on(MessagesSnapshotEvent)
    def history_sent(self, ctx: RunContext, event: MessagesSnapshotEvent) -> Result:
        """Take hidden calls and their results out of the history."""
        messages = self.calls.shown(event.messages)
        if messages is event.messages:
            return self._unchanged(event)
        return _changed(event, messages=messages)

    @on(SubagentStartedEvent)
    def subagent_started(self, ctx: RunContext, event: SubagentStartedEvent) -> Result:
        """Show the subagent, without the hidden call that started it."""
        call_id = event.parent_tool_call_id
        if call_id is None or not self.calls.hidden(call_id):
            return self._unchanged(event)
        return _changed(event, parent_tool_call_id=None)

    @on(RunFinishedEvent)
    def run_finished(self, ctx: RunContext, event: RunFinishedEvent) -> Result:
        """Take hidden calls out of the outcome."""
        outcome = shown_outcome(event.outcome, self.calls.hidden)
        if outcome is event.outcome:
            return self._unchanged(event)
        return _changed(event, outcome=outcome)

    def on_event(self, ctx: RunContext, event: BaseEvent, /) -> Result:
        """Pass everything else, without its raw form if so set."""
        if self.settings.drop_raw and isinstance(event, RawEvent):
            return DROP
        return self._unchanged(event)

    def _unchanged(self, event: E) -> E:
        if self.settings.drop_raw and event.raw_event is not None:
            return _changed(event)
        return event


def _changed(event: E, **update: Any) -> E:
    """Return a copy with these fields, without the raw event, which still tells what was hidden."""
    return event.model_copy(update={**update, "raw_event": None})
