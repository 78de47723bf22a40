"""A Pydantic AI agent behind Interpose. Its model is a fake one, so this needs no network."""

import asyncio
from collections.abc import AsyncIterator

from ag_ui.core import BaseEvent, RunAgentInput
from pydantic_ai import Agent, ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter

from interpose import Host, Layer
from interpose_redact import Redact
from interpose_tool_filter import ToolFilter

ANSWER = (
    "Order A-1815 has shipped. We wrote to ada@exam",
    "ple.com, card 4111 1111 ",
    "1111 1111.",
)


async def model(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    """Call the tool, then answer: what a real model would stream."""
    if messages[-1].parts[-1].part_kind != "tool-return":
        yield {0: DeltaToolCall("lookup_order", '{"number": "A-1815"}')}
        return
    for piece in ANSWER:
        await asyncio.sleep(0.01)
        yield piece


agent = Agent(FunctionModel(stream_function=model))


@agent.tool_plain
def lookup_order(number: str) -> str:
    """Look an order up."""
    return f"{number}: shipped; ada@example.com; card 4111 1111 1111 1111"


class AgUi:
    def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        return AGUIAdapter(agent=agent, run_input=run_input).run_stream()


ag_ui_agent = AgUi()


async def main() -> None:
    layers = [Layer(ToolFilter, {"deny": ["lookup_order"]}), Layer(Redact, {"action": "mask"})]
    async with Host(layers, agent=ag_ui_agent) as host:
        async for event in host.run("Where is my order A-1815?"):
            print(f"{event.type.value} {getattr(event, 'delta', '')}".rstrip())


if __name__ == "__main__":
    asyncio.run(main())
