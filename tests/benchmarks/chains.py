"""What the in-process workloads share: an agent of prepared events, layers, and nested generators."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final, Self

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from interpose import Host, Layer, Middleware, RunContext, on
from interpose.runtime.pipeline import Pipeline
from interpose.runtime.record import RunRecord
from interpose.runtime.run import record_of

from .measuring import Timed, processor_time

THREAD: Final = "thread"
RUN: Final = "run"
INPUT: Final = RunAgentInput(thread_id=THREAD, run_id=RUN, messages=[])

Events = AsyncGenerator[BaseEvent, None]
Agent = Callable[[RunAgentInput], Events]


class EveryEvent(Middleware):
    """Takes every event, and does nothing."""

    def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
        """Let it pass."""


class EveryText(Middleware):
    """Takes every delta of text, and does nothing."""

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
        """Let it pass."""


class RareEvent(Middleware):
    """Takes a class that does not come."""

    @on(CustomEvent)
    def custom(self, ctx: RunContext, event: CustomEvent) -> None:
        """Let it pass."""


class NoHook(Middleware):
    """Overrides nothing."""


def text_run(deltas: int) -> list[BaseEvent]:
    """Return the events of a run that says one message in so many pieces."""
    return [
        RunStartedEvent(thread_id=THREAD, run_id=RUN),
        TextMessageStartEvent(message_id="message", role="assistant"),
        *(
            TextMessageContentEvent(message_id="message", delta=f"word {number} ")
            for number in range(deltas)
        ),
        TextMessageEndEvent(message_id="message"),
        RunFinishedEvent(thread_id=THREAD, run_id=RUN),
    ]


def agent_of(events: Sequence[BaseEvent]) -> Agent:
    """Return an agent that gives these events, and never waits."""

    async def agent(run_input: RunAgentInput) -> Events:
        for event in events:
            yield event

    return agent


def nested(agent: Agent, layers: int) -> Agent:
    """Return the agent inside so many async generators, which is how one does without a host."""

    def wrapped(inner: Agent) -> Agent:
        async def layer(run_input: RunAgentInput) -> Events:
            async with contextlib.aclosing(inner(run_input)) as events:
                async for event in events:
                    yield event

        return layer

    for _ in range(layers):
        agent = wrapped(agent)
    return agent


class Stage:
    """An event loop with entered hosts, on which the variants of a workload are timed."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._hosts = contextlib.AsyncExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._hosts.aclose())
        self._runner.close()

    def play(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop."""
        return self._runner.run(work)

    def timed(self, work: Callable[[], Coroutine[Any, Any, object]]) -> Timed:
        """Measure a coroutine's processor time."""
        return processor_time(lambda: self._runner.run(work()))

    def host(self, middleware: type[Middleware], layers: int, agent: object) -> Host:
        """Return an entered host with so many layers of a class."""
        host = Host([Layer(middleware, id=f"layer-{n}") for n in range(layers)], agent=agent)
        self.play(self._hosts.enter_async_context(host))
        return host

    def streaming(self, stream: Callable[[], AsyncIterator[BaseEvent]], *, times: int = 1) -> Timed:
        """Measure a consumer of a stream that does nothing; ``times`` streams after another."""

        async def consume() -> None:
            for _ in range(times):
                async for _ in stream():
                    pass

        return self.timed(consume)

    def running(self, host: Host, *, times: int = 1) -> Timed:
        """Measure whole runs, from their input to their end; one that fails is not measured."""

        async def last() -> BaseEvent:
            return [event async for event in host.run(INPUT)][-1]

        ended = self.play(last())
        if not isinstance(ended, RunFinishedEvent):
            raise TypeError(f"a run that is to be measured ended with {ended}")
        return self.streaming(lambda: aiter(host.run(INPUT)), times=times)

    def segment(self, host: Host, agent: Agent) -> Timed:
        """Measure the compiled hooks of a host alone, without the edges of a run."""

        async def prepared() -> RunRecord:
            record = record_of(host.run(INPUT))
            await Pipeline(record).begin()
            return record

        record = self.play(prepared())
        segment = record.program.segments.get(0)
        if segment is None:
            return self.streaming(lambda: agent(INPUT))
        return self.streaming(lambda: segment.stream(record, agent(INPUT)))
