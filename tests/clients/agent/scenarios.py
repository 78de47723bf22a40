"""An agent that plays what its last user message names, and the layers that stand around it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import EventType, RunAgentInput, TextMessageContentEvent
from streams import STREAMS, Events, event, finish, started

from interpose import EndInfo, Middleware, Reject, RunContext, Stage, on

TERMINALS = (EventType.RUN_FINISHED, EventType.RUN_ERROR)
SEEN: defaultdict[str, list[str]] = defaultdict(list)
"""What agent and layers noted of each thread; the scenario "seen" tells it."""


def seen(run_input: RunAgentInput) -> Events:
    """Tell what was noted of another thread."""
    thread = (run_input.forwarded_props or {})["thread"]
    yield event("CUSTOM", name="tests.seen", value=SEEN[thread])


SCENARIOS = {**STREAMS, "seen": seen}
"""What ends by itself, at once."""


# What takes its time, or ends only when it is stopped --------------------------------------------------------------
async def silent(_: RunAgentInput) -> AsyncIterator[Any]:
    yield event("TEXT_MESSAGE_START", message_id="m1")
    yield event("TEXT_MESSAGE_CONTENT", message_id="m1", delta="Thinking")
    await asyncio.sleep(60)


async def mute(_: RunAgentInput) -> AsyncIterator[Any]:
    """Say nothing at all: not even that the run has started."""
    await asyncio.sleep(60)
    yield event("TEXT_MESSAGE_START", message_id="m1")


async def chatty(_: RunAgentInput) -> AsyncIterator[Any]:
    yield event("TEXT_MESSAGE_START", message_id="m1")
    for number in range(6000):
        yield event("TEXT_MESSAGE_CONTENT", message_id="m1", delta=f"{number} ")
        await asyncio.sleep(0.01)


async def pausing(_: RunAgentInput) -> AsyncIterator[Any]:
    """Ends by itself, but after a while."""
    yield event("TEXT_MESSAGE_START", message_id="m1")
    yield event("TEXT_MESSAGE_CONTENT", message_id="m1", delta="Thinking")
    await asyncio.sleep(0.5)
    yield event("TEXT_MESSAGE_END", message_id="m1")


SLOW = {"silent": silent, "mute": mute, "chatty": chatty, "pausing": pausing}


async def _events(run_input: RunAgentInput, name: str) -> AsyncIterator[Any]:
    if name in SLOW:
        async for item in SLOW[name](run_input):
            yield item
    else:
        for item in SCENARIOS[name](run_input):
            yield item


async def agent(run_input: RunAgentInput) -> AsyncIterator[Any]:
    """Play the scenario that the last user message names."""
    users = [message for message in run_input.messages if message.role == "user"]
    notes = SEEN[run_input.thread_id]
    notes.append("agent started")
    try:
        name = str(users[-1].content)
        if name not in ("echoed input", "mute"):  # which begin by themselves
            yield started(run_input)
        ended = False
        async for item in _events(run_input, name):
            if item is None:
                return
            yield item
            ended = ended or getattr(item, "type", None) in TERMINALS
        if not ended:
            yield finish(run_input)
    finally:
        notes.append("agent closed")


class Witness(Middleware):
    """Notes how each run ended."""

    stage = Stage.OBSERVE

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        """Note it."""
        if "thread" not in (ctx.input.forwarded_props or {}):
            SEEN[ctx.thread_id].append(f"run ended: {end.kind}")


class Guard(Middleware):
    """Refuses runs, before they start or in the middle."""

    stage = Stage.EDGE

    def setup(self, ctx: RunContext) -> None:
        """Refuse before anything is said."""
        asked = ctx.input.messages[-1].content
        if asked == "refused":
            raise Reject("not-for-you", "This is not for you.")
        if asked == "busy":
            raise Reject("quota", "Your quota is used up.", status=429, retry_after=7)

    @on(TextMessageContentEvent)
    def listen(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
        """Refuse what has begun."""
        if "bad" in event.delta:
            raise Reject("bad-word", "That was a bad word.", status=422)
