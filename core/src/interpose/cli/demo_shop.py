"""What ``interpose demo --loop`` plays: the tools of a shop, two layers, a scripted clerk."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from ag_ui.core import BaseEvent, Message, ToolMessage

from interpose.authoring import Middleware, Settings
from interpose.context import LifespanContext, RunContext
from interpose.loop import Call, ScriptedModel, Turn, tool
from interpose.loop.execution import MARKER
from interpose.model import Model, ModelContext, ModelFactory
from interpose.payloads import Deny, ModelRequest, ToolCall, ToolCallInfo, TransformArgs

QUESTION: Final = "The lamp of order A-1815 came broken. May I have my money back?"


@tool(effect="read")
def find_order(order: str) -> dict[str, Any]:
    """Look up an order."""
    return {"order": order, "total": 25, "contact": "ada.lovelace@example.com"}


def _question(args: Mapping[str, Any]) -> str:
    return f"Pay {args['amount']:g} {args['currency']} back for order {args['order']}?"


@tool(effect="idempotent", approval=_question)
def refund(order: str, amount: float, currency: str = "") -> str:
    """Pay the price of an order back."""
    return f"paid back {amount:g} {currency} for {order}"


class QuotaSettings(Settings):
    """How many tool calls a conversation may execute."""

    tool_calls: int


class Quota(Middleware[QuotaSettings]):
    """Count tool calls where the count survives a pause: in the metadata of the run."""

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall, /) -> Deny | None:
        """Refuse what is too much."""
        del call
        if ctx.metadata.get("quota", 0) < self.settings.tool_calls:
            return None
        return Deny(f"{self.settings.tool_calls} tool calls are used up")

    def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo, /) -> None:
        """Count what was executed."""
        if info.source == "executed":
            ctx.metadata["quota"] = used = ctx.metadata.get("quota", 0) + 1
            ctx.log.info("{} of {} tool calls used", used, self.settings.tool_calls)


class Currency(Middleware):
    """Fill in the currency of a refund: the model may leave it out."""

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall, /) -> TransformArgs | None:
        """Give the call the argument that it lacks."""
        if call.name != "refund" or call.args.get("currency"):
            return None
        ctx.log.info('gives refund the argument currency = "EUR"')
        return TransformArgs({**call.args, "currency": "EUR"})


class ClerkSettings(Settings):
    """How fast the clerk speaks: ``delay`` is the seconds before each piece of a turn."""

    delay: float = 0.0


class Clerk(ModelFactory[ClerkSettings]):
    """A scripted model whose last turn depends on whether the refund was paid."""

    def __call__(self, settings: ClerkSettings, ctx: LifespanContext, /) -> Model:
        """Return the model."""
        del ctx
        return _ClerkModel(settings.delay)


class _ClerkModel:
    provider = "scripted"
    name = "clerk"

    def __init__(self, delay: float) -> None:
        first = Turn(
            text="Let me look at that order.",
            calls=(Call(name="find_order", args={"order": "A-1815"}),),
            delay=delay,
        )
        second = Turn(
            text="I found it, and write to ada.lovelace@example.com when it is paid.",
            calls=(Call(name="refund", args={"order": "A-1815", "amount": 25}),),
            delay=delay,
        )
        paid = Turn(text="Done: your money is on its way back to you.", delay=delay)
        kept = Turn(text="I am sorry: I could not pay it back.", delay=delay)
        self._paid = ScriptedModel(first, second, paid)
        self._kept = ScriptedModel(first, second, kept)

    def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        """Play the turn that is next in the conversation."""
        model = self._kept if _failed(request.messages[-1]) else self._paid
        return model.stream(request, ctx)


def _failed(message: Message) -> bool:
    if not isinstance(message, ToolMessage):
        return False
    return message.error is not None or MARKER in (message.metadata or {})
