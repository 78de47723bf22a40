# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
"""Microsoft Agent Framework: chat and function middleware of an agent.

``model-run`` (``layers``, ``kind``, ``times``): a run with one model call.
``loop-run`` (the same): a run with 6 model calls and 5 tool calls.
Kinds: ``model`` (``ChatMiddleware``), ``tool`` (``FunctionMiddleware``). The chat client is
scripted, with the layers for middleware and function calls that every client has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Final

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddleware,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    FunctionMiddleware,
    Message,
    tool,
)

from .serving import TOOL_CALLS, Clock, expect, serve, timed


class _Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Asks for one tool call after another, as many as it is told, and then says that it is done."""

    def __init__(self, tool_calls: int) -> None:
        super().__init__()
        self._tool_calls = tool_calls

    async def _inner_get_response(self, *, messages: Sequence[Any], **kwargs: Any) -> Any:
        made = sum(
            content.type == "function_result"
            for message in messages
            for content in message.contents
        )
        said = (
            Content.from_function_call(f"call-{made}", "look", arguments='{"text": "x"}')
            if made < self._tool_calls
            else "done"
        )
        return ChatResponse(messages=[Message(role="assistant", contents=[said])])


@tool(approval_mode="never_require")
async def look(text: str) -> str:
    """Look at a text."""
    return text


class _Model(ChatMiddleware):
    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()


class _Tool(FunctionMiddleware):
    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()


_KINDS: Final = {"model": _Model, "tool": _Tool}


@cache
def _agent(tool_calls: int, kind: str, layers: int) -> Any:
    return Agent(
        client=_Scripted(tool_calls),
        tools=[look],
        middleware=[_KINDS[kind]() for _ in range(layers)],
    )


async def _run(tool_calls: int, kind: str, layers: int, times: int, clock: Clock) -> float:
    agent = _agent(tool_calls, kind, layers)
    messages = 1 + 2 * tool_calls

    async def run() -> None:
        found = await agent.run("Look.")
        expect(len(found.messages), messages)

    return await timed(run, times, clock)


async def model_run(*, layers: int, kind: str, times: int, clock: Clock) -> float:
    """Run with one model call."""
    return await _run(0, kind, layers, times, clock)


async def loop_run(*, layers: int, kind: str, times: int, clock: Clock) -> float:
    """Run with tool calls."""
    return await _run(TOOL_CALLS, kind, layers, times, clock)


if __name__ == "__main__":
    serve({"model-run": model_run, "loop-run": loop_run}, "agent-framework-core")
