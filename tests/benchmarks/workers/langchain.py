# mypy: disable-error-code="import-not-found, misc"
"""LangChain: layers around model and tool calls of an agent of ``create_agent``.

``model-run`` (``layers``, ``kind``, ``times``): a run with one model call.
``loop-run`` (the same): a run with 6 model calls and 5 tool calls.
Kinds: ``model`` (``awrap_model_call``), ``tool`` (``awrap_tool_call``), ``before-model``
(``abefore_model``). The model is scripted, asynchronous by itself; tracing is off.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from .serving import TOOL_CALLS, Clock, expect, serve, timed


class _Scripted(BaseChatModel):
    """Asks for one tool call after another, as many as it is told, and then says that it is done."""

    tool_calls: int

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> _Scripted:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        made = sum(isinstance(message, ToolMessage) for message in messages)
        call = {"name": "look", "args": {"text": "x"}, "id": f"call-{made}", "type": "tool_call"}
        said = (
            AIMessage(content="", tool_calls=[call])
            if made < self.tool_calls
            else AIMessage(content="done")
        )
        return ChatResult(generations=[ChatGeneration(message=said)])

    async def _agenerate(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> ChatResult:
        return self._generate(messages)


@tool
async def look(text: str) -> str:
    """Look at a text."""
    return text


class _Layer(AgentMiddleware):
    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    @property
    def name(self) -> str:
        return f"layer-{self._number}"  # two of one name are refused


class _Model(_Layer):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class _Tool(_Layer):
    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class _BeforeModel(_Layer):
    async def abefore_model(self, state: Any, runtime: Any) -> None:
        return None


_KINDS: Final = {"model": _Model, "tool": _Tool, "before-model": _BeforeModel}


@cache
def _agent(tool_calls: int, kind: str, layers: int) -> Any:
    return create_agent(
        _Scripted(tool_calls=tool_calls),
        tools=[look],
        middleware=[_KINDS[kind](number) for number in range(layers)],
    )


async def _run(tool_calls: int, kind: str, layers: int, times: int, clock: Clock) -> float:
    agent = _agent(tool_calls, kind, layers)
    asked = {"messages": [{"role": "user", "content": "Look."}]}
    messages = 2 + 2 * tool_calls
    limits = {"recursion_limit": 10_000}

    async def run() -> None:
        found = await agent.ainvoke(asked, limits)
        expect(len(found["messages"]), messages)

    return await timed(run, times, clock)


async def model_run(*, layers: int, kind: str, times: int, clock: Clock) -> float:
    """Run with one model call."""
    return await _run(0, kind, layers, times, clock)


async def loop_run(*, layers: int, kind: str, times: int, clock: Clock) -> float:
    """Run with tool calls."""
    return await _run(TOOL_CALLS, kind, layers, times, clock)


if __name__ == "__main__":
    serve({"model-run": model_run, "loop-run": loop_run}, "langchain", "langgraph")
