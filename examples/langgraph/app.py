"""A LangGraph agent behind Interpose. Its model is a fake one, so this needs no network."""
# LangChain's own types are incomplete:
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import BaseEvent, RunAgentInput
from ag_ui_langgraph import LangGraphAgent
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from interpose import Host, Layer
from interpose_redact import Redact
from interpose_tool_filter import ToolFilter

ANSWER = (
    "Order A-1815 has shipped. We wrote to ada@exam",
    "ple.com, card 4111 1111 ",
    "1111 1111.",
)


class Model(BaseChatModel):
    """Calls the tool, then answers: what a real model would stream."""

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        if messages[-1].type != "tool":
            for name, written in (("lookup_order", ""), (None, '{"number": "A-1815"}')):
                call = tool_call_chunk(name=name, args=written, id="call-1", index=0)
                yield ChatGenerationChunk(
                    message=AIMessageChunk(content="", tool_call_chunks=[call])
                )
            return
        for piece in ANSWER:
            await asyncio.sleep(0.01)
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    def bind_tools(self, *args: Any, **kwargs: Any) -> Any:
        return self

    @property
    def _llm_type(self) -> str:
        return "fake"


@tool
def lookup_order(number: str) -> str:
    """Look an order up."""
    return f"{number}: shipped; ada@example.com; card 4111 1111 1111 1111"


graph = create_agent(Model(), tools=[lookup_order], checkpointer=InMemorySaver())


class AgUi:
    def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        return LangGraphAgent(
            name="chat", graph=graph, emit_raw_events=False, emit_interrupt_outcome=True
        ).run(run_input)


ag_ui_graph = AgUi()


async def main() -> None:
    layers = [Layer(ToolFilter, {"deny": ["lookup_order"]}), Layer(Redact, {"action": "mask"})]
    async with Host(layers, agent=ag_ui_graph) as host:
        async for event in host.run("Where is my order A-1815?"):
            print(f"{event.type.value} {getattr(event, 'delta', '')}".rstrip())


if __name__ == "__main__":
    asyncio.run(main())
