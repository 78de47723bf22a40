"""Whole messages and whole tool calls, built from the events that reach a layer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    DeveloperMessage,
    Message,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    SystemMessage,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TextPart,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)

from interpose.payloads import ToolCall, ToolResult

Whole: TypeAlias = tuple[str, tuple[Any, ...]]
"""The hook to call, and its arguments after the context."""

_ROLES: Mapping[str | None, Callable[..., Message]] = {
    "developer": DeveloperMessage,
    "system": SystemMessage,
    "user": UserMessage,
}


class Assembler:
    """Builds what ``on_message``, ``on_tool_call`` and ``on_usage`` of one layer receive.

    A tool call is reported when its result comes; calls without one are reported, with None, when
    the run ends. ``usage``: whether the terminal's is reported; a loop does it call by call.
    """

    __slots__ = ("_calls", "_texts", "_usage")

    def __init__(self, *, usage: bool = True) -> None:
        self._usage = usage
        self._texts: dict[tuple[str, str], tuple[BaseEvent, list[str]]] = {}
        self._calls: dict[str, tuple[str, list[str]]] = {}

    @classmethod
    def takes(cls, event: type[BaseEvent]) -> bool:
        """Whether events of this class are part of something whole."""
        return event in cls._TAKE

    def push(self, event: BaseEvent) -> Iterator[Whole]:
        """Take the next event and yield what became whole with it."""
        take = self._TAKE.get(event.__class__)
        if take is not None:
            yield from take(self, event)

    def _open_text(
        self, event: TextMessageStartEvent | ReasoningMessageStartEvent
    ) -> Iterator[Whole]:
        kind = "text" if isinstance(event, TextMessageStartEvent) else "reasoning"
        self._texts[kind, event.message_id] = (event, [])
        return iter(())

    def _add_text(
        self, event: TextMessageContentEvent | ReasoningMessageContentEvent
    ) -> Iterator[Whole]:
        kind = "text" if isinstance(event, TextMessageContentEvent) else "reasoning"
        if (kind, event.message_id) in self._texts:
            self._texts[kind, event.message_id][1].append(event.delta)
        return iter(())

    def _end_text(self, event: TextMessageEndEvent | ReasoningMessageEndEvent) -> Iterator[Whole]:
        kind = "text" if isinstance(event, TextMessageEndEvent) else "reasoning"
        found = self._texts.pop((kind, event.message_id), None)
        if found is not None:
            yield "on_message", (_message(found[0], event.message_id, "".join(found[1])),)

    def _open_call(self, event: ToolCallStartEvent) -> Iterator[Whole]:
        self._calls[event.tool_call_id] = (event.tool_call_name, [])
        return iter(())

    def _add_args(self, event: ToolCallArgsEvent) -> Iterator[Whole]:
        if event.tool_call_id in self._calls:
            self._calls[event.tool_call_id][1].append(event.delta)
        return iter(())

    def _settle_call(self, event: ToolCallResultEvent) -> Iterator[Whole]:
        found = self._calls.pop(event.tool_call_id, None)
        if found is not None:
            yield "on_tool_call", (_call(event.tool_call_id, *found), _result(event))

    def _end_run(self, event: RunFinishedEvent | RunErrorEvent) -> Iterator[Whole]:
        for call_id, found in self._calls.items():
            yield "on_tool_call", (_call(call_id, *found), None)
        self._calls.clear()
        usage: list[TokenUsage] = (event.usage or []) if self._usage else []
        for entry in usage:
            yield "on_usage", (entry,)

    _TAKE: ClassVar[Mapping[type[BaseEvent], Callable[[Any, Any], Iterator[Whole]]]] = {
        TextMessageStartEvent: _open_text,
        ReasoningMessageStartEvent: _open_text,
        TextMessageContentEvent: _add_text,
        ReasoningMessageContentEvent: _add_text,
        TextMessageEndEvent: _end_text,
        ReasoningMessageEndEvent: _end_text,
        ToolCallStartEvent: _open_call,
        ToolCallArgsEvent: _add_args,
        ToolCallResultEvent: _settle_call,
        RunFinishedEvent: _end_run,
        RunErrorEvent: _end_run,
    }


def _message(start: BaseEvent, message_id: str, text: str) -> Message:
    if isinstance(start, TextMessageStartEvent):
        build = _ROLES.get(start.role, AssistantMessage)
        return build(id=message_id, content=text, name=start.name)
    return ReasoningMessage(id=message_id, content=text)


def _call(call_id: str, name: str, parts: list[str]) -> ToolCall:
    try:
        args = json.loads("".join(parts) or "{}")
    except ValueError:
        args = {}  # as the protocol's reducer does (AG-UI 1.1, application)
    return ToolCall(call_id, name, args if isinstance(args, dict) else {})


def _result(event: ToolCallResultEvent) -> ToolResult:
    content = event.content
    if not isinstance(content, str):
        content = "\n".join(part.text for part in content if isinstance(part, TextPart))
    metadata = event.metadata or {}
    marker = metadata.get("ag-ui:tool-result")
    error = marker.get("error") if isinstance(marker, dict) else None
    return ToolResult(content, error if isinstance(error, str) else None, metadata)
