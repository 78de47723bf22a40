"""The built-in scripted model: offline, and the same every time."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    Message,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)
from pydantic import Field, model_validator

from interpose.authoring import Settings
from interpose.context import LifespanContext
from interpose.errors import UsageError
from interpose.loop.modelcall import PROVIDER_EXECUTED
from interpose.loop.sampling import sample
from interpose.loop.script import Call, Turn, read_script, turns_of
from interpose.loop_errors import InvalidModelRequest
from interpose.model import Ability, Model, ModelContext, ModelFactory, ModelFinished
from interpose.payloads import ModelRequest


class ScriptedModel:
    """Plays turns: the n-th assistant message of a conversation is the n-th turn.

    So a script spans a conversation, over several runs and interrupts. Without turns it answers by
    itself: it calls the first tool once with made-up arguments, then says what it was told.
    """

    provider: ClassVar[str] = "scripted"
    name: ClassVar[str] = "scripted"

    def __init__(
        self,
        *turns: Turn | str | Mapping[str, Any],
        abilities: frozenset[Ability] = frozenset(),
    ) -> None:
        self.abilities = abilities
        self._turns = turns_of(turns, "ScriptedModel(...)") if turns else None
        self._asked: WeakKeyDictionary[Any, dict[int, int]] = WeakKeyDictionary()

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        """Play the turn that is next in the conversation."""
        position = sum(message.role == "assistant" for message in request.messages)
        turn = self._turn(request, ctx, position)
        failure = turn.failure()
        pieces = 0
        for event in _events(turn, position, ctx.message_id):
            if failure is not None and pieces >= turn.error_after:
                raise failure
            if turn.delay:
                await ctx.sleep(turn.delay)
            yield event
            pieces += isinstance(event, TextMessageContentEvent)
        if failure is not None:
            raise failure
        reason = turn.finish_reason or ("tool_calls" if turn.calls else "stop")
        yield ModelFinished(finish_reason=reason, usage=(turn.usage or _usage(request, turn),))

    def _turn(self, request: ModelRequest, ctx: ModelContext, position: int) -> Turn:
        if self._turns is None:
            return _improvised(request)
        if position >= len(self._turns):
            raise InvalidModelRequest(
                f"the script has {len(self._turns)} turns, and the conversation asks for another",
                hint="add a turn: a text, or what the model calls",
            )
        turn = self._turns[position]
        asked = self._asked.setdefault(ctx.run_key, {})
        for _ in range(asked.get(position, 0)):
            turn = turn.retry or turn
        asked[position] = asked.get(position, 0) + 1
        return turn


class ScriptedModelSettings(Settings):
    """What ``[models.<id>] use = "scripted"`` says; with neither, it answers by itself."""

    file: str | None = Field(default=None, description="A JSON file with a list of turns.")
    turns: tuple[str | dict[str, Any], ...] | None = Field(
        default=None, description="The turns: texts, or tables with text, thinking and calls."
    )
    output_with_tools: bool = Field(
        default=False, description="Whether it takes an output schema and tools in one request."
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.file is not None and self.turns is not None:
            raise ValueError("file and turns are both given; keep one of them")
        if self.turns is not None:
            try:
                turns_of(self.turns, "turns")
            except UsageError as error:
                raise ValueError(error.message) from None
        return self


class Scripted(ModelFactory[ScriptedModelSettings]):
    """``use = "scripted"``: try a loop without a provider."""

    def __call__(self, settings: ScriptedModelSettings, ctx: LifespanContext, /) -> Model:
        """Return the model. Raises :class:`UsageError` for a bad script."""
        turns: Sequence[Turn | str | Mapping[str, Any]] = settings.turns or ()
        if settings.file is not None:
            turns = read_script(ctx.folder / settings.file, settings.file)
        native = frozenset({Ability.OUTPUT_WITH_TOOLS} if settings.output_with_tools else ())
        return ScriptedModel(*turns, abilities=native)


def _events(turn: Turn, position: int, message: str) -> Sequence[BaseEvent]:
    events: list[BaseEvent] = []
    if turn.thinking:
        thought = f"{message}-thinking"
        events += [
            ReasoningStartEvent(message_id=thought),
            ReasoningMessageStartEvent(message_id=thought, role="reasoning"),
            *(
                ReasoningMessageContentEvent(message_id=thought, delta=piece)
                for piece in _pieces(turn.thinking)
            ),
            ReasoningMessageEndEvent(message_id=thought),
            ReasoningEndEvent(message_id=thought),
        ]
    if turn.text or turn.error is not None:
        events += [
            TextMessageStartEvent(message_id=message, role="assistant"),
            *(
                TextMessageContentEvent(message_id=message, delta=piece)
                for piece in _pieces(turn.text)
            ),
            TextMessageEndEvent(message_id=message),
        ]
    for number, call in enumerate(turn.calls, start=1):
        events += _call(call, call.id or f"call-{position + 1}-{number}", message)
    return events


def _call(call: Call, ident: str, message: str) -> Sequence[BaseEvent]:
    ours = call.executed_by_provider is None
    text = call.text
    half = len(text) // 2
    events: list[BaseEvent] = [
        ToolCallStartEvent(
            tool_call_id=ident,
            tool_call_name=call.name,
            parent_message_id=message,
            metadata=None if ours else {PROVIDER_EXECUTED: True},
        ),
        *(
            ToolCallArgsEvent(tool_call_id=ident, delta=delta)
            for delta in (text[:half], text[half:])
            if delta
        ),
        ToolCallEndEvent(tool_call_id=ident),
    ]
    if call.executed_by_provider is not None:
        events.append(
            ToolCallResultEvent(
                message_id=f"{ident}-result",
                tool_call_id=ident,
                content=call.executed_by_provider,
                role="tool",
            )
        )
    return events


def _pieces(text: str) -> list[str]:
    return re.findall(r"\s*\S+\s*", text) or ([text] if text else [])


def _usage(request: ModelRequest, turn: Turn) -> TokenUsage:
    """Count words: near enough to tokens for a script, and the same every time."""
    said = " ".join(
        (*request.system_prompts, *(_text(message) for message in request.messages))
    ).split()
    answer = " ".join((turn.thinking, turn.text, *(call.text for call in turn.calls))).split()
    return TokenUsage(
        provider="scripted",
        model="scripted",
        input_tokens=len(said),
        output_tokens=len(answer),
        total_tokens=len(said) + len(answer),
    )


def _improvised(request: ModelRequest) -> Turn:
    last = request.messages[-1] if request.messages else None
    if request.output_schema is not None and not request.tools:
        return Turn(text=json.dumps(sample(request.output_schema)))
    if request.tools and isinstance(last, UserMessage):
        tool = request.tools[0]
        return Turn(calls=(Call(name=tool.name, args=sample(tool.parameters or {})),))
    results = _results(request.messages)
    if results:
        return Turn(text="The tools said: " + " ".join(_text(message) for message in results))
    if request.output_schema is not None:
        return Turn(text=json.dumps(sample(request.output_schema)))
    return Turn(text=f"You said: {'' if last is None else _text(last)}")


def _results(messages: Sequence[Message]) -> Sequence[ToolMessage]:
    found: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage | UserMessage):
            break
        if isinstance(message, ToolMessage):
            found.insert(0, message)
    return found


def _text(message: Message) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return " ".join(getattr(part, "text", "") for part in parts)
