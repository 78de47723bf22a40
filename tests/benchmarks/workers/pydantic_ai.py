# mypy: disable-error-code="import-not-found, misc"
"""Pydantic AI: capabilities around model requests and tools, and over the stream of events.

``model-run`` (``layers``, ``kind``, ``times``): a run with one model call.
``loop-run`` (the same): a run with 6 model calls and 5 tool calls.
Kinds: ``model`` (``wrap_model_request``), ``tool`` (``wrap_tool_execute``), ``empty`` (overrides
nothing).

``events`` (``layers``, ``kind``, ``events``): one run whose model streams that many pieces of text.
Kinds: ``wrap`` (``wrap_run_event_stream``), ``observe`` (``@on_event`` of all events).

The model is a ``FunctionModel``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from typing import Any, Final

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability, on_event
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from .serving import TOOL_CALLS, Clock, expect, serve, timed


class _Model(AbstractCapability[None]):
    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        return await handler(request_context)


class _Tool(AbstractCapability[None]):
    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        return await handler(args)


class _Empty(AbstractCapability[None]):
    pass


class _Wrap(AbstractCapability[None]):
    async def wrap_run_event_stream(self, ctx: Any, *, stream: Any) -> AsyncIterator[Any]:
        async for event in stream:
            yield event


class _Observe(AbstractCapability[None]):
    @on_event
    async def seen(self, ctx: Any, event: Any) -> None:
        pass


_KINDS: Final[dict[str, type[AbstractCapability[None]]]] = {
    "model": _Model,
    "tool": _Tool,
    "empty": _Empty,
    "wrap": _Wrap,
    "observe": _Observe,
}


def _scripted(tool_calls: int) -> FunctionModel:
    """Ask for one tool call after another, and then say that it is done."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        made = sum(
            isinstance(part, ToolReturnPart) for message in messages for part in message.parts
        )
        if made < tool_calls:
            return ModelResponse([ToolCallPart("look", {"text": "x"}, f"call-{made}")])
        return ModelResponse([TextPart("done")])

    return FunctionModel(answer)


def _layers(kind: str, layers: int) -> list[AbstractCapability[None]]:
    return [_KINDS[kind]() for _ in range(layers)]


@cache
def _agent(tool_calls: int, kind: str, layers: int) -> Agent[None, str]:
    agent = Agent(_scripted(tool_calls), capabilities=_layers(kind, layers))

    @agent.tool_plain
    async def look(text: str) -> str:
        """Look at a text."""
        return text

    return agent


async def _run(tool_calls: int, kind: str, layers: int, times: int, clock: Clock) -> float:
    agent = _agent(tool_calls, kind, layers)
    messages = 2 + 2 * tool_calls

    async def run() -> None:
        found = await agent.run("Look.")
        expect(len(found.all_messages()), messages)

    return await timed(run, times, clock)


async def model_run(*, layers: int, kind: str, times: int, clock: Clock) -> float:
    """Run with one model call."""
    return await _run(0, kind, layers, times, clock)


async def loop_run(*, layers: int, kind: str, times: int, clock: Clock) -> float:
    """Run with tool calls."""
    return await _run(TOOL_CALLS, kind, layers, times, clock)


@cache
def _streaming(pieces: int, kind: str, layers: int) -> Agent[None, str]:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for _ in range(pieces):
            yield "x"

    return Agent(FunctionModel(stream_function=stream), capabilities=_layers(kind, layers))


async def events(*, layers: int, kind: str, events: int, clock: Clock) -> float:
    """Run with a stream of events."""
    agent = _streaming(events, kind, layers)

    async def run() -> None:
        seen = 0
        async with agent.run_stream_events("Look.") as found:
            async for event in found:
                seen += isinstance(event, PartDeltaEvent)
        expect(seen, events - 1)  # the first piece starts the part

    return await timed(run, 1, clock)


if __name__ == "__main__":
    serve({"model-run": model_run, "loop-run": loop_run, "events": events}, "pydantic-ai-slim")
