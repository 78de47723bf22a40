"""The run that is encoded and served: an agent that speaks, and layers that look at every event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from interpose import Layer, Middleware, RunContext

FRAME: Final = 4
"""How many events a run has besides its deltas."""

_WORDS: Final = ("Your order ", "A-1815 ", "has shipped ", "to München, ", "as agreed. ")
_DELTAS: Final = tuple(TextMessageContentEvent(message_id="message-1", delta=w) for w in _WORDS)


async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    """Say as much as forwardedProps ask for: ``deltas``; ``wakes``: let the loop turn for each."""
    asked: dict[str, Any] = run_input.forwarded_props or {}
    wakes = asked["wakes"]
    ids: dict[str, Any] = {"thread_id": run_input.thread_id, "run_id": run_input.run_id}
    yield RunStartedEvent(**ids)
    yield TextMessageStartEvent(message_id="message-1", role="assistant")
    for number in range(asked["deltas"]):
        if wakes:
            await asyncio.sleep(0)
        yield _DELTAS[number % len(_DELTAS)]
    yield TextMessageEndEvent(message_id="message-1")
    yield RunFinishedEvent(**ids)


def asking(run_id: str, *, deltas: int, wakes: bool = False) -> RunAgentInput:
    """Return the input of a run, as a client of AG-UI 1.0 sends it."""
    return RunAgentInput(
        thread_id="thread-1",
        run_id=run_id,
        messages=[],
        protocol_version="1.0",
        forwarded_props={"deltas": deltas, "wakes": wakes},
    )


class Looks(Middleware):
    """Looks at every event, and passes it on."""

    def on_event(self, ctx: RunContext, event: BaseEvent) -> BaseEvent:
        """Pass the event on."""
        return event


def layers(many: int) -> list[Layer]:
    """Return layers that look at every event."""
    return [Layer(Looks, id=f"looks-{number}") for number in range(many)]
