"""Builders of AG-UI events: short to write, valid as they come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    Message,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)


class HasRunIds(Protocol):
    """A ``RunAgentInput``, a ``RunContext``, a ``Run``: what names a run."""

    @property
    def thread_id(self) -> str:
        """The conversation."""

    @property
    def run_id(self) -> str:
        """The run."""


def started(run: HasRunIds | None = None) -> RunStartedEvent:
    """Return the RUN_STARTED of ``run``; without it, of thread ``"thread"`` and run ``"run"``."""
    thread_id, run_id = _ids(run)
    return RunStartedEvent(thread_id=thread_id, run_id=run_id)


def finished(run: HasRunIds | None = None, **fields: Any) -> RunFinishedEvent:
    """Return its RUN_FINISHED; ``fields``: ``result``, ``outcome``, ``usage``."""
    thread_id, run_id = _ids(run)
    return RunFinishedEvent(thread_id=thread_id, run_id=run_id, **fields)


def failed(message: str = "It failed.", code: str | None = None) -> RunErrorEvent:
    """Return a RUN_ERROR, as an agent sends it."""
    return RunErrorEvent(message=message, code=code)


def text(
    *deltas: str, message_id: str = "message", subagent_run_id: str | None = None
) -> list[BaseEvent]:
    """Return a whole message of the assistant, in these pieces."""
    ids: dict[str, Any] = {"message_id": message_id, "subagent_run_id": subagent_run_id}
    return [
        TextMessageStartEvent(role="assistant", **ids),
        *(TextMessageContentEvent(delta=delta, **ids) for delta in deltas),
        TextMessageEndEvent(**ids),
    ]


def reasoning(
    *deltas: str, message_id: str = "thought", subagent_run_id: str | None = None
) -> list[BaseEvent]:
    """Return a whole piece of reasoning, in these pieces."""
    ids: dict[str, Any] = {"message_id": message_id, "subagent_run_id": subagent_run_id}
    return [
        ReasoningStartEvent(**ids),
        ReasoningMessageStartEvent(role="reasoning", **ids),
        *(ReasoningMessageContentEvent(delta=delta, **ids) for delta in deltas),
        ReasoningMessageEndEvent(**ids),
        ReasoningEndEvent(**ids),
    ]


def tool_call(
    name: str,
    args: Mapping[str, Any] | str | Sequence[str] = "{}",
    *,
    result: str | None = None,
    tool_call_id: str = "call",
    subagent_run_id: str | None = None,
) -> list[BaseEvent]:
    """Return a whole tool call, and its result if there is one.

    ``args``: an object, the text that the model writes, or that text in pieces.
    """
    ids: dict[str, Any] = {"tool_call_id": tool_call_id, "subagent_run_id": subagent_run_id}
    call: list[BaseEvent] = [
        ToolCallStartEvent(tool_call_name=name, **ids),
        *(ToolCallArgsEvent(delta=delta, **ids) for delta in _pieces(args) if delta),
        ToolCallEndEvent(**ids),
    ]
    if result is not None:
        message_id = f"{tool_call_id}-result"
        call.append(ToolCallResultEvent(message_id=message_id, content=result, role="tool", **ids))
    return call


def usage(input_tokens: int = 1, output_tokens: int = 1, **fields: Any) -> TokenUsage:
    """Return what a model call used, in tokens; for ``finished(usage=[...])``."""
    total = input_tokens + output_tokens
    return TokenUsage(
        input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=total, **fields
    )


def user_input(said: str | Iterable[Message] = "hi", **fields: Any) -> RunAgentInput:
    """Return the input of a run: what the user says, or a conversation.

    ``fields``: ``thread_id``, ``run_id``, ``state``, ``tools``, ``context``, ``resume``, …
    """
    messages: list[Message]
    messages = [UserMessage(id="user", content=said)] if isinstance(said, str) else list(said)
    ids = {"thread_id": f"thread-{uuid4()}", "run_id": f"run-{uuid4()}"}
    return RunAgentInput(messages=messages, **{**ids, **fields})


def _ids(run: HasRunIds | None) -> tuple[str, str]:
    return ("thread", "run") if run is None else (run.thread_id, run.run_id)


def _pieces(args: Mapping[str, Any] | str | Sequence[str]) -> Sequence[str]:
    if isinstance(args, str):
        return (args,)
    return (json.dumps(args),) if isinstance(args, Mapping) else args
