"""What the tests of runs share: agents that play fixed events, and one call that plays a chain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from interpose import Host, RunContext

Agent = Callable[[RunAgentInput], AsyncIterator[BaseEvent]]


def say(*deltas: str, message: str = "m") -> list[BaseEvent]:
    """Return a whole text message."""
    return [
        TextMessageStartEvent(message_id=message, role="assistant"),
        *(TextMessageContentEvent(message_id=message, delta=delta) for delta in deltas),
        TextMessageEndEvent(message_id=message),
    ]


def started(run: RunAgentInput | RunContext) -> RunStartedEvent:
    """Return the RUN_STARTED of a run."""
    return RunStartedEvent(thread_id=run.thread_id, run_id=run.run_id)


def finished(run: RunAgentInput | RunContext) -> RunFinishedEvent:
    """Return the RUN_FINISHED of a run."""
    return RunFinishedEvent(thread_id=run.thread_id, run_id=run.run_id)


def agent_of(*events: BaseEvent | BaseException, finish: bool = True) -> Agent:
    """Return an agent that plays events between RUN_STARTED and RUN_FINISHED, or raises."""

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in events:
            await asyncio.sleep(0)
            if isinstance(event, BaseException):
                raise event
            yield event
        if finish:
            yield finished(run_input)

    return agent


class Played:
    """What a consumer saw of a run, and what the run came to."""

    def __init__(self, events: Sequence[BaseEvent], result: Any) -> None:
        self.events = list(events)
        self.result = result

    @property
    def types(self) -> list[str]:
        return [event.type.value for event in self.events]

    @property
    def text(self) -> str:
        return "".join(getattr(e, "delta", "") for e in self.events if "TEXT" in e.type.value)

    @property
    def error(self) -> tuple[str | None, str]:
        last = self.events[-1]
        assert isinstance(last, RunErrorEvent), last
        return last.code, last.message


def play(layers: Sequence[Any], agent: Any = None, **options: Any) -> Played:
    """Play one run of ``agent`` through ``layers`` and return what the consumer saw."""

    async def main() -> Played:
        asked = options.pop("asked", "hi")
        provide = options.pop("run_provide", None)
        async with Host(layers, agent=agent or agent_of(*say("hello")), **options) as host:
            run = host.run(asked, provide=provide)
            events = [event async for event in run]
            return Played(events, await run)

    return asyncio.run(main())
