"""The answer as it arrives: from the parts of ``pydantic_ai`` to AG-UI's events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic_ai.messages import (
    BaseToolCallPart,
    ModelResponsePart,
    ModelResponseStreamEvent,
    NativeToolCallPart,
    NativeToolReturnPart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPartDelta,
)

from interpose_models.history import PROVIDER_EXECUTED, REASONING
from interpose_models.sealed import seal_call, seal_thinking


@dataclass(slots=True)
class _Call:
    """A call that is open. ``provider_id``: how the provider calls it."""

    id: str
    provider_id: str
    part: BaseToolCallPart[Any]
    spoken: bool = False


class Translation:
    """Turns one answer into the events of the message ``message_id``.

    Text and calls belong to that message; each stretch of reasoning is one of its own. A call is
    ended with the answer, not before: fragments of several calls may come mixed, and a call of an
    answer that was cut off is never whole.

    ``left_out``: the kinds of parts that AG-UI has no place for.
    """

    def __init__(self, message_id: str) -> None:
        self.left_out: set[str] = set()
        self._message_id = message_id
        self._text = False
        self._reasoning: int | None = None
        self._stretches = 0
        self._results = 0
        self._calls: dict[int, _Call] = {}
        self._ids: set[str] = set()

    def push(self, event: ModelResponseStreamEvent) -> Iterator[BaseEvent]:
        """Return the events that one event of the provider comes to."""
        if isinstance(event, PartStartEvent):
            yield from self._start(event.index, event.part)
        elif isinstance(event, PartDeltaEvent):
            delta = event.delta
            if isinstance(delta, TextPartDelta):
                yield from self._speak(delta.content_delta)
            elif isinstance(delta, ThinkingPartDelta):
                yield from self._think(event.index, delta.content_delta)
            elif isinstance(delta, ToolCallPartDelta):
                yield from self._args(event.index, delta.args_delta)
        elif isinstance(event, PartEndEvent):
            yield from self._end(event.index, event.part, event.canonical_system)

    def close(self, parts: Sequence[ModelResponsePart]) -> Iterator[BaseEvent]:
        """Return what ends the answer, which came to these parts."""
        yield from self._silence()
        for index in list(self._calls):
            part = parts[index]
            if isinstance(part, BaseToolCallPart):
                self._calls[index].part = part
            yield from self._end_call(index)

    # -- text and reasoning ------------------------------------------------------------------------

    def _start(self, index: int, part: ModelResponsePart) -> Iterator[BaseEvent]:
        if isinstance(part, TextPart):
            yield from self._speak(part.content)
        elif isinstance(part, ThinkingPart):
            yield from self._think(index, part.content)
        elif isinstance(part, BaseToolCallPart):
            yield from self._start_call(index, part)
        elif isinstance(part, NativeToolReturnPart):
            yield from self._result(part)
        else:
            self.left_out.add(part.part_kind)

    def _speak(self, delta: str) -> Iterator[BaseEvent]:
        if not delta:
            return
        yield from self._stop_thinking()
        if not self._text:
            self._text = True
            yield TextMessageStartEvent(message_id=self._message_id, role="assistant")
        yield TextMessageContentEvent(message_id=self._message_id, delta=delta)

    def _think(self, index: int, delta: str | None) -> Iterator[BaseEvent]:
        if not delta:
            return
        yield from self._begin_thinking(index)
        yield ReasoningMessageContentEvent(message_id=self._reasoning_id, delta=delta)

    def _begin_thinking(self, index: int) -> Iterator[BaseEvent]:
        if self._reasoning == index:
            return
        yield from self._silence()
        self._reasoning = index
        self._stretches += 1
        yield ReasoningStartEvent(message_id=self._reasoning_id)
        yield ReasoningMessageStartEvent(message_id=self._reasoning_id, role="reasoning")

    def _end(
        self, index: int, part: ModelResponsePart, canonical_system: str | None
    ) -> Iterator[BaseEvent]:
        if isinstance(part, ThinkingPart):
            sealed = seal_thinking(part, canonical_system)
            if sealed is not None:
                # Reasoning that the provider keeps to itself has no text, and is wanted back too.
                yield from self._begin_thinking(index)
            if self._reasoning == index:
                yield from self._stop_thinking(sealed)
        elif isinstance(part, BaseToolCallPart) and index in self._calls:
            self._calls[index].part = part

    def _stop_thinking(self, sealed: str | None = None) -> Iterator[BaseEvent]:
        if self._reasoning is None:
            return
        self._reasoning = None
        yield ReasoningMessageEndEvent(message_id=self._reasoning_id)
        if sealed is not None:
            yield ReasoningEncryptedValueEvent(
                subtype="message", entity_id=self._reasoning_id, encrypted_value=sealed
            )
        yield ReasoningEndEvent(message_id=self._reasoning_id)

    def _silence(self) -> Iterator[BaseEvent]:
        """End what is being said or thought."""
        yield from self._stop_thinking()
        if self._text:
            self._text = False
            yield TextMessageEndEvent(message_id=self._message_id)

    @property
    def _reasoning_id(self) -> str:
        return f"{self._message_id}{REASONING}{self._stretches}"

    # -- calls -------------------------------------------------------------------------------------

    def _start_call(self, index: int, part: BaseToolCallPart[Any]) -> Iterator[BaseEvent]:
        if index in self._calls:  # the part in another form; its arguments are told at the end
            self._calls[index].part = part
            return
        yield from self._silence()
        known = part.tool_call_id
        call = _Call(str(uuid4()) if not known or known in self._ids else known, known, part)
        self._calls[index] = call
        self._ids.add(call.id)
        native = isinstance(part, NativeToolCallPart)
        yield ToolCallStartEvent(
            tool_call_id=call.id,
            tool_call_name=part.tool_name,
            parent_message_id=self._message_id,
            metadata={PROVIDER_EXECUTED: True} if native else None,
        )
        yield from self._args(index, part.args)

    def _args(self, index: int, delta: str | dict[str, Any] | None) -> Iterator[BaseEvent]:
        # Arguments that come as a value are told at the end, when it is whole.
        call = self._calls.get(index)
        if call is not None and isinstance(delta, str) and delta:
            call.spoken = True
            yield ToolCallArgsEvent(tool_call_id=call.id, delta=delta)

    def _end_call(self, index: int) -> Iterator[BaseEvent]:
        call = self._calls.pop(index)
        if not call.spoken:
            args = call.part.args or {}
            text = args if isinstance(args, str) else json.dumps(args)
            yield ToolCallArgsEvent(tool_call_id=call.id, delta=text)
        sealed = seal_call(call.part)
        if sealed is not None:
            yield ReasoningEncryptedValueEvent(
                subtype="tool-call", entity_id=call.id, encrypted_value=sealed
            )
        yield ToolCallEndEvent(tool_call_id=call.id)

    def _result(self, part: NativeToolReturnPart) -> Iterator[BaseEvent]:
        for index, call in self._calls.items():
            if call.provider_id == part.tool_call_id:
                self._results += 1
                yield from self._silence()
                yield from self._end_call(index)
                yield ToolCallResultEvent(
                    message_id=f"{self._message_id}-result-{self._results}",
                    tool_call_id=call.id,
                    content=part.model_response_str(),
                )
                return
