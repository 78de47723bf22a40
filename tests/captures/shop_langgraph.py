"""The shop's agents in LangGraph."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any

import shop
from ag_ui.core import BaseEvent, RunAgentInput
from ag_ui_langgraph import LangGraphAgent
from langchain.tools import tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt


class Model(BaseChatModel):
    """A model that follows a script; ``whole`` gives each tool call in one piece."""

    script: shop.Script
    whole: bool = False

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        answered = messages[-1].type == "tool"
        ident = f"message-{len(messages)}"
        for index, piece in enumerate(self.script.turn(answered=answered)):
            if isinstance(piece, Exception):
                raise piece
            for chunk in self._chunks(piece, index):
                yield ChatGenerationChunk(message=AIMessageChunk(id=ident, **chunk))

    def _chunks(
        self, piece: shop.Say | shop.Think | shop.Call, index: int
    ) -> Sequence[dict[str, Any]]:
        if isinstance(piece, shop.Say):
            # A model that thinks sends its text in blocks, too.
            thinks = any(isinstance(other, shop.Think) for other in self.script.first)
            blocks = [{"type": "text", "text": piece.text, "index": 1}]
            return [{"content": blocks if thinks else piece.text}]
        if isinstance(piece, shop.Think):
            return [{"content": [{"type": "thinking", "thinking": piece.text, "index": 0}]}]
        written = ["".join(piece.arguments)] if self.whole else ["", *piece.arguments]
        named = [(piece.tool, piece.ident), *[(None, None)] * (len(written) - 1)]
        return [
            {
                "content": "",
                "tool_call_chunks": [tool_call_chunk(name=name, id=ident, args=part, index=index)],
            }
            for (name, ident), part in zip(named, written, strict=True)
        ]

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    @property
    def _llm_type(self) -> str:
        return "shop"


@tool
async def lookup_order(number: str, email: str) -> dict[str, Any]:
    """Look an order up."""
    return {**shop.ORDERS[number], "asked by": email}


@tool
async def track_parcel(parcel: str, email: str) -> dict[str, Any]:
    """Tell where a parcel is."""
    await asyncio.sleep(0.02)  # after the order, when both are called at once
    return {**shop.PARCEL, "parcel": parcel, "asked by": email}


class Progress(MessagesState):
    """The state of a conversation."""

    steps: Annotated[list[str], operator.add]


def graph(script: shop.Script, *, whole: bool = False) -> Any:
    """Return a graph: a model, and the shop's tools."""
    model = Model(script=script, whole=whole)

    async def chat(state: Progress) -> dict[str, Any]:
        said = await model.ainvoke(state["messages"])
        return {"messages": [said], "steps": [f"asked the model for {shop.EMAIL}"]}

    built = StateGraph(Progress)
    built.add_node("chat", chat)
    built.add_node("tools", ToolNode([lookup_order, track_parcel]))
    built.add_edge(START, "chat")
    # A call of any other tool is the front end's, and ends the run.
    built.add_conditional_edges("chat", _ours)
    built.add_edge("tools", "chat")
    return built.compile(checkpointer=InMemorySaver())


def _ours(state: Progress) -> str:
    last = state["messages"][-1]
    calls = last.tool_calls if isinstance(last, AIMessage) else []
    theirs = any(call["name"] == shop.SHOW_MAP.name for call in calls)
    return "__end__" if theirs else tools_condition(dict(state))


def asking() -> Any:
    """Return a graph that interrupts itself with a question."""

    async def ask(state: MessagesState) -> dict[str, Any]:
        answer = interrupt(shop.QUESTION)
        return {"messages": [AIMessage(f"You said {answer}. {shop.CARD} it is.", id="answer")]}

    built = StateGraph(MessagesState)
    built.add_node("ask", ask)
    built.add_edge(START, "ask")
    return built.compile(checkpointer=InMemorySaver())


def quiet(made: Any, run_input: RunAgentInput, **options: Any) -> AsyncIterator[BaseEvent]:
    """Run a graph without RAW events."""
    return LangGraphAgent(name="shop", graph=made, emit_raw_events=False, **options).run(run_input)


def recordings() -> Mapping[str, AsyncIterator[BaseEvent]]:
    """Return the streams to record, by name."""
    asked = shop.asked()
    return {
        "text": quiet(graph(shop.TEXT), asked),
        "reasoning": quiet(graph(shop.REASONING), asked),
        "tool": quiet(graph(shop.TOOL), asked),
        "tool-in-one-piece": quiet(graph(shop.TOOL, whole=True), asked),
        "parallel-tools": quiet(graph(shop.PARALLEL), asked),
        "front-end-tool": quiet(graph(shop.FRONT_END), shop.asked(shop.SHOW_MAP)),
        "state": quiet(graph(shop.STATE), shop.asked(state={"steps": [f"hello {shop.EMAIL}"]})),
        "error": quiet(graph(shop.ERROR), asked),
        "interrupt": quiet(asking(), asked, emit_interrupt_outcome=True),
        "interrupt-as-custom": quiet(asking(), asked),
        "raw": LangGraphAgent(name="shop", graph=graph(shop.TEXT)).run(asked),
    }
