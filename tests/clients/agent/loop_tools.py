"""The tools and the layers of the loops that the real clients talk to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator

from ag_ui.core import CustomEvent, RunFinishedEvent
from pydantic import BaseModel

from interpose import (
    EndInfo,
    InterruptDefinition,
    Middleware,
    Resolutions,
    Result,
    RunContext,
    Stage,
    ToolError,
    on,
)
from interpose.loop import LoopAgent, ScriptedModel, ToolContext, agent_tool, tool
from interpose.payloads import InterruptDecision

SENT: Counter[str] = Counter()
"""How often each letter was sent, by idempotency key."""
ENDED: defaultdict[str, list[str]] = defaultdict(list)
"""How the runs of each thread ended."""


@tool(effect="read")
def weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: Where.
    """
    return f"18 degrees in {city}"


@tool(effect="read")
async def count(to: int) -> AsyncIterator[object]:
    """Count, and report each number."""
    for number in range(1, to + 1):
        yield number


@tool
def refuses(what: str) -> str:
    """Refuse, and say why."""
    raise ToolError(f"There is no {what} of yours.")


@tool
def breaks() -> str:
    """Fail with a text that nobody is to see."""
    raise RuntimeError("password is hunter2")


@tool(approval="Send it?")
def send(ctx: ToolContext, to: str, copies: int = 1) -> str:
    """Send a letter."""
    SENT[ctx.idempotency_key] += 1
    return f"sent {copies} to {to}, time {SENT[ctx.idempotency_key]}"


@tool
def stops(ctx: ToolContext) -> str:
    """End the run."""
    ctx.abort("that is enough")


@tool(lazy=True, effect="read")
def archive(year: int) -> str:
    """Look into the archive."""
    return f"a letter of {year}"


scout = agent_tool(
    LoopAgent(
        ScriptedModel(
            {"calls": [{"name": "weather", "args": {"city": "Rome"}}]}, "I found it in Rome."
        ),
        [weather],
    ),
    "scout",
    "Finds things.",
)


class Amount(BaseModel):
    """What is asked about."""

    euros: int


class Verdict(BaseModel):
    """What the answer has to be."""

    paid: bool


REFUND = InterruptDefinition("refund", payload=Amount, response=Verdict)


class Asks(Middleware):
    """Asks before the first model call, and tells what people said."""

    def on_interrupt_boundary(self, ctx: RunContext) -> None:
        """Ask, once for each run that resumes nothing."""
        if ctx.phase == "before_model" and not ctx.input.resume:
            ctx.interrupt(REFUND.interrupt("order-7", "Refund 25 EUR?", Amount(euros=25)))

    def on_interrupt_resolution(
        self, ctx: RunContext, resolutions: Resolutions
    ) -> InterruptDecision:
        """Go on, unless nobody wants it."""
        verdict = resolutions.get(REFUND, "order-7")
        said = "nothing" if verdict is None else f"paid {verdict.paid}"
        ctx.emit(CustomEvent(name="tests.verdict", value=said))
        return "continue" if verdict is not None else "stop"


class Notes(Middleware):
    """Notes how each run ended, and tells of the thread named in the input."""

    stage = Stage.OBSERVE

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        """Note it."""
        if "thread" not in (ctx.input.forwarded_props or {}):
            ENDED[ctx.thread_id].append(f"run ended: {end.kind}")


class Tells(Middleware):
    """Tells what was noted of another thread, before the end of a run that asks for it."""

    @on(RunFinishedEvent)
    def end(self, ctx: RunContext, event: RunFinishedEvent) -> Result:
        """Tell it."""
        thread = (ctx.input.forwarded_props or {}).get("thread")
        if thread is None:
            return event
        return [CustomEvent(name="tests.seen", value=ENDED[thread]), event]
