"""The tool calls that one pass of an agent leaves open."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from ag_ui.core import (
    BaseEvent,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)


@dataclass(slots=True)
class WrittenCall:
    """A call as the agent's model wrote it."""

    id: str
    name: str
    subagent_run_id: str | None = None
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The arguments."""
        return "".join(self.parts)


class OpenCalls:
    """Follows one pass. Only what the agent says in it counts: a history is the client's word."""

    def __init__(self) -> None:
        self._calls: dict[str, WrittenCall] = {}
        self._ended_well = False
        self._pending: Container[str] | None = None

    def note(self, event: BaseEvent) -> None:
        """Take an event of the pass."""
        if isinstance(event, ToolCallStartEvent):
            self._calls[event.tool_call_id] = WrittenCall(
                event.tool_call_id, event.tool_call_name, event.subagent_run_id
            )
        elif isinstance(event, ToolCallArgsEvent):
            if event.tool_call_id in self._calls:
                self._calls[event.tool_call_id].parts.append(event.delta)
        elif isinstance(event, ToolCallResultEvent):
            self._calls.pop(event.tool_call_id, None)
        elif isinstance(event, RunFinishedEvent):
            outcome = event.outcome
            self._ended_well = outcome is None or isinstance(outcome, RunFinishedSuccessOutcome)
            if isinstance(outcome, RunFinishedSuccessOutcome):
                self._pending = outcome.pending_tool_call_ids

    def open(self) -> list[WrittenCall]:
        """Return the calls that wait for a result, in order; none if the run waits for people."""
        if not self._ended_well:
            return []
        pending = self._pending
        return [call for call in self._calls.values() if pending is None or call.id in pending]
