"""The shop's agents in Pydantic AI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import shop
from ag_ui.core import BaseEvent, CustomEvent, RunAgentInput, StateDeltaEvent, StateSnapshotEvent
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelMessage, RunContext, ToolReturn
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)
from pydantic_ai.ui import StateDeps
from pydantic_ai.ui.ag_ui import AGUIAdapter


class Progress(BaseModel):
    """The state of a conversation."""

    steps: list[str] = []


def model(script: shop.Script) -> FunctionModel:
    """Return a model that follows a script."""

    async def stream(
        messages: list[ModelMessage], _info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls | DeltaThinkingCalls]:
        answered = messages[-1].parts[-1].part_kind == "tool-return"
        for index, piece in enumerate(script.turn(answered=answered)):
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, shop.Say):
                yield piece.text
            elif isinstance(piece, shop.Think):
                yield {0: DeltaThinkingPart(content=piece.text)}
            else:
                yield {index: DeltaToolCall(piece.tool, tool_call_id=piece.ident)}
                for written in piece.arguments:
                    yield {index: DeltaToolCall(json_args=written)}

    return FunctionModel(stream_function=stream)


def lookup_order(number: str, email: str) -> dict[str, Any]:
    """Look an order up."""
    return {**shop.ORDERS[number], "asked by": email}


def track_parcel(parcel: str, email: str) -> dict[str, Any]:
    """Tell where a parcel is."""
    return {**shop.PARCEL, "parcel": parcel, "asked by": email}


def track_with_state(
    _ctx: RunContext[StateDeps[Progress]], parcel: str, email: str
) -> ToolReturn[str]:
    """Tell where a parcel is, and keep it in the state."""
    steps = {"steps": [f"tracked {parcel} for {email}"]}
    return ToolReturn(
        return_value="in Rotterdam",
        metadata=[
            StateSnapshotEvent(snapshot=steps),
            StateDeltaEvent.model_validate(
                {"delta": [{"op": "add", "path": "/steps/-", "value": f"paid with {shop.CARD}"}]}
            ),
            CustomEvent(name="shop.note", value={"for": shop.EMAIL}),
        ],
    )


def refund(card: str) -> str:
    """Give the money back."""
    return f"refunded {card}"


def agent(script: shop.Script) -> Agent[None, str]:
    """Return an agent with the shop's tools."""
    return Agent(model(script), tools=[lookup_order, track_parcel])


def approving(script: shop.Script) -> Agent[None, str | DeferredToolRequests]:
    """Return an agent that asks before it refunds."""
    made: Agent[None, str | DeferredToolRequests] = Agent(
        model(script), output_type=[str, DeferredToolRequests]
    )
    made.tool_plain(requires_approval=True)(refund)
    return made


def with_state(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    """Run an agent whose tool changes the state."""
    made = Agent(model(shop.STATE), deps_type=StateDeps[Progress])
    made.tool(name="track_parcel")(track_with_state)
    adapter = AGUIAdapter(agent=made, run_input=run_input)
    return adapter.run_stream(deps=StateDeps(Progress()))


def plain(made: Agent[None, Any], run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    """Run an agent that has no state."""
    return AGUIAdapter(agent=made, run_input=run_input).run_stream()


def recordings() -> Mapping[str, AsyncIterator[BaseEvent]]:
    """Return the streams to record, by name."""
    asked = shop.asked()
    return {
        "text": plain(agent(shop.TEXT), asked),
        "reasoning": plain(agent(shop.REASONING), asked),
        "tool": plain(agent(shop.TOOL), asked),
        "parallel-tools": plain(agent(shop.PARALLEL), asked),
        "front-end-tool": plain(agent(shop.FRONT_END), shop.asked(shop.SHOW_MAP)),
        "state": with_state(shop.asked(state={"steps": []})),
        "error": plain(agent(shop.ERROR), asked),
        "interrupt": plain(approving(shop.REFUND), asked),
    }
