"""The story of a run of the loop: what the model did, what the layers made of it, what it cost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final, TypeAlias

from ag_ui.core import (
    BaseEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from interpose.authoring import CallModel, CallTool, Layer, Middleware, Stage
from interpose.context import RunContext
from interpose.payloads import IterationInfo, ModelRequest, ToolCall, ToolResult

Tell: TypeAlias = Callable[[str, str], None]
"""Tells one line of the story: who, and what."""

INSIDE: Final = "story-inside"
OUTSIDE: Final = "story-outside"


class Story:
    """Two layers, inside and outside all others, that tell what happens between them.

    What a model or a tool gave is told when it has come through the layers, which may have changed
    it. Neither layer changes anything.
    """

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self._given: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self.model_calls = 0
        self.tool_calls = 0
        self.tokens = 0
        self.layers = (
            Layer(self._outside(), id=OUTSIDE, stage=Stage.EDGE),
            Layer(self._inside(), id=INSIDE, stage=Stage.CALL),
        )

    def _inside(self) -> type[Middleware]:
        story, given = self, self._given

        class Inside(Middleware):
            """Remember what the model and the tools gave."""

            observes_only = True

            async def around_model_call(
                self, ctx: RunContext, request: ModelRequest, call_next: CallModel, /
            ) -> AsyncIterator[BaseEvent]:
                """Remember the text."""
                del ctx
                async for event in call_next(request):
                    if isinstance(event, TextMessageContentEvent):
                        given[event.message_id] = given.get(event.message_id, "") + event.delta
                    yield event

            async def around_tool_call(
                self, ctx: RunContext, call: ToolCall, call_next: CallTool, /
            ) -> ToolResult:
                """Remember the result."""
                del ctx
                story.tool_calls += 1
                result = await call_next(call)
                given[call.id] = result.content
                return result

        return Inside

    def _outside(self) -> type[Middleware]:
        story = self

        class Outside(Middleware):
            """Tell what reaches the consumer."""

            observes_only = True

            def on_iteration(self, ctx: RunContext, info: IterationInfo, /) -> None:
                """Tell that the loop begins anew."""
                del ctx
                story.tell("", f"Iteration {info.index + 1}")

            def on_usage(self, ctx: RunContext, usage: TokenUsage, /) -> None:
                """Tell what a model call cost."""
                del ctx
                story.model_calls += 1  # the scripted model reports one usage a call
                story.tokens += usage.total_tokens or 0
                said = f"{usage.input_tokens or 0} tokens in, {usage.output_tokens or 0} out"
                story.tell("usage", said)

            def on_event(self, ctx: RunContext, event: BaseEvent, /) -> None:
                """Tell what an event completes."""
                del ctx
                story.hear(event)

        return Outside

    @property
    def cost(self) -> str:
        """What all of it cost."""
        calls = "1 tool call" if self.tool_calls == 1 else f"{self.tool_calls} tool calls"
        return f"{self.model_calls} model calls, {calls}, {self.tokens} tokens"

    def hear(self, event: BaseEvent) -> None:
        """Take an event that has come through all layers."""
        match event:
            case TextMessageContentEvent():
                self._add(event.message_id, event.delta)
            case TextMessageEndEvent():
                self._arrived("the model says", event.message_id)
            case ToolCallStartEvent():
                self._names[event.tool_call_id] = event.tool_call_name
            case ToolCallArgsEvent():
                self._add(event.tool_call_id, event.delta)
            case ToolCallEndEvent():
                args = self._texts.pop(event.tool_call_id, "{}")
                self.tell("the model calls", f"{self._names[event.tool_call_id]} {args}")
            case ToolCallResultEvent(content=str(content)):
                self._texts[event.tool_call_id] = content
                name = self._names.get(event.tool_call_id, "the call")
                self._arrived(f"{name} gives", event.tool_call_id)
            case _:
                pass

    def _add(self, key: str, delta: str) -> None:
        self._texts[key] = self._texts.get(key, "") + delta

    def _arrived(self, said: str, key: str) -> None:
        seen = self._texts.pop(key, "")
        was = self._given.pop(key, seen)
        self.tell(said, was)
        if seen != was:
            self.tell("after the layers", seen)
