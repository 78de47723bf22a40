"""Checks of agents: one valid stream for each run, which ends when nobody listens any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    ToolCallResultEvent,
)

from interpose.agui import CHUNKS, Expander, Verifier, to_json
from interpose.authoring import Agent, Layer, Middleware, Point
from interpose.context import AgentContext, RunContext
from interpose.errors import InvalidStream, TruncatedStream
from interpose.events import Result, on
from interpose.runtime.run import Run, RunResult
from interpose.startup.adapting import AgentSource
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import difference, fold
from interpose.testing.contracts.parts import AgentSubject
from interpose.testing.contracts.playing import listening
from interpose.testing.contracts.remaining import Leftovers
from interpose.testing.contracts.rule import Rule
from interpose.testing.events import user_input

_MOST_STOPS: Final = 12
_PATIENCE: Final = 1.0
"""Seconds that an agent may take to end after its terminal event."""
_ENDED: Final = "a run that is left ends, with all that belongs to it"


@dataclass(slots=True)
class Taken:
    """What an agent did itself: its events, before the host saw them."""

    events: list[BaseEvent] = field(default_factory=list)
    input_changed: bool = False


def recorded(subject: AgentSubject) -> tuple[AgentSubject, list[Taken]]:
    """Return the subject with its agent's runs written down."""
    runs: list[Taken] = []
    source: AgentSource = subject.part.target

    def make(settings: Any, ctx: Any) -> Agent:
        return _Recorded(source.make(settings, ctx), runs)

    part = replace(subject.part, target=replace(source, make=make))
    return replace(subject, part=part), runs


class _Recorded:
    def __init__(self, agent: Agent, runs: list[Taken]) -> None:
        self._agent = agent
        self._runs = runs

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        taken = Taken()
        self._runs.append(taken)
        before = run_input.model_dump_json()
        stream: Any = self._agent.run(run_input, ctx)
        try:
            async for event in stream:
                taken.events.append(event)
                yield event
        finally:
            taken.input_changed = run_input.model_dump_json() != before
            if _is_terminal(taken.events):
                await _one_more(stream, taken)
            if hasattr(stream, "aclose"):
                await stream.aclose()

    async def aclose(self) -> None:
        close = getattr(self._agent, "aclose", None)
        closing = close() if callable(close) else None
        if isawaitable(closing):
            await closing


async def _one_more(stream: AsyncIterator[BaseEvent], taken: Taken) -> None:
    """Take what comes after the terminal: the host asks for nothing more, others do."""
    with suppress(Exception):
        async with asyncio.timeout(_PATIENCE):
            taken.events.append(await anext(stream))


async def valid(subject: AgentSubject) -> Finding | None:
    """Play one run; what the agent itself sends must be one whole run."""
    own, runs = recorded(subject)
    async with own.host(strict=False) as host:
        result = await host.run(subject.asked)
    if not runs:
        return Finding(f"the run never reached it: {result.error!r}", "a run")
    events = runs[0].events
    said = broken(events)
    if said and result.error is not None and not _is_terminal(events):
        said = f"it fails: {result.error!r}"
    return Finding(said, "RUN_STARTED, valid events, and one terminal", events) if said else None


def broken(events: Sequence[BaseEvent]) -> str:
    """Say which rule of AG-UI a run breaks, chunks or not."""
    expander, verifier = Expander(), Verifier()
    try:
        for event in events:
            for part in expander.push(event) if event.__class__ in CHUNKS else (event,):
                verifier.check(part)
        verifier.finish()
    except (InvalidStream, TruncatedStream) as error:
        return error.message
    return ""


def _is_terminal(events: Sequence[BaseEvent]) -> bool:
    return bool(events) and isinstance(events[-1], RunFinishedEvent | RunErrorEvent)


async def ids(subject: AgentSubject) -> Finding | None:
    """Play two runs with ids of their own; the agent must say the ids that it was asked with."""
    own, runs = recorded(subject)
    async with own.host(strict=False) as host:
        for number in (1, 2):
            ident = {"thread_id": f"thread-of-{number}", "run_id": f"run-of-{number}"}
            await host.run(subject.asked.model_copy(update=ident))
    for number, taken in enumerate(runs, start=1):
        for event in taken.events:
            if isinstance(event, RunStartedEvent | RunFinishedEvent):
                found = (event.thread_id, event.run_id)
                if found != (f"thread-of-{number}", f"run-of-{number}"):
                    return Finding(
                        f"asked as run-of-{number} of thread-of-{number}, {event.type.value} says "
                        f"{found[1]} of {found[0]}",
                        "thread_id and run_id of the input",
                        [event],
                    )
    return None


async def untouched(subject: AgentSubject) -> Finding | None:
    """Compare the input before and after a run."""
    own, runs = recorded(subject)
    async with own.host() as host:
        await host.run(subject.asked)
    if any(taken.input_changed for taken in runs):
        return Finding("it changes its input in place", "the input stays as it is")
    return None


async def left(subject: AgentSubject) -> Finding | None:
    """Leave the run after each of its first events."""
    return await _stopped(subject, "left", lambda _run: None)


async def cancelled(subject: AgentSubject) -> Finding | None:
    """Cancel the run after each of its first events."""
    return await _stopped(subject, "cancelled", lambda run: run.cancel("no longer needed"))


async def _stopped(
    subject: AgentSubject, how: str, stop: Callable[[Run[Any]], None]
) -> Finding | None:
    host = subject.host()
    for count in range(1, _MOST_STOPS):
        with listening() as logged:
            async with host:
                before = Leftovers()
                taken = await _take(host.run(subject.asked), count, how, stop)
                remains = await before.told()
        after = f"{how} after {count} events"
        if remains:
            return Finding(f"{after}, {remains}", _ENDED)
        errors = [line for line in logged if line.startswith("ERROR")]
        if errors and taken == count:
            return Finding(f"{after}, the host reports: {errors[0].splitlines()[0]}", _ENDED)
        if taken < count:
            return None
    return None


async def _take(run: Run[Any], count: int, how: str, stop: Callable[[Run[Any]], None]) -> int:
    """Take so many events, then stop the run; return how many there were before that."""
    taken = 0
    async with run:
        async for _ in run:
            taken += 1
            if taken == count:
                stop(run)
                if how == "left":
                    break
    return min(taken, count)


async def interleaved(subject: AgentSubject) -> Finding | None:
    """Play two runs, event by event in turn; each must be what it is alone."""
    async with subject.host() as host:
        alone, again = [await _heard(host.run(_anew(subject.asked))) for _ in range(2)]
        if difference(fold(alone), fold(again)):
            return None  # an agent that answers anew each time cannot be compared
        runs = [aiter(host.run(_anew(subject.asked))) for _ in range(2)]
        both: list[list[BaseEvent]] = [[], []]
        going = [0, 1]
        while going:
            for index in list(going):
                try:
                    both[index].append(await anext(runs[index]))
                except StopAsyncIteration:
                    going.remove(index)
    for events in both:
        said = difference(fold(alone), fold(events))
        if said:
            return Finding(
                f"two runs at once: one of them is not what it is alone: {said}",
                "runs have nothing to do with each other",
            )
    return None


def _anew(asked: RunAgentInput) -> RunAgentInput:
    fresh = user_input()
    return asked.model_copy(update={"thread_id": fresh.thread_id, "run_id": fresh.run_id})


async def _heard(run: Run[Any]) -> list[BaseEvent]:
    return [event async for event in run]


async def fails(subject: AgentSubject) -> Finding | None:
    """Play the runs that cannot be answered: they end as an error, once."""
    for number, asked in enumerate(subject.failing, start=1):
        own, runs = recorded(subject)
        async with own.host() as host:
            before = Leftovers()
            result: RunResult[Any] = await host.run(asked)
            remains = await before.told()
        what = f"run {number} of failing"
        if result.outcome != "error":
            return Finding(
                f"{what} ends as {result.outcome}", "RUN_ERROR, or an exception, for what failed"
            )
        if isinstance(result.error, InvalidStream):
            return Finding(f"{what}: {result.error.message}", "a valid stream up to the failure")
        if remains:
            return Finding(f"after {what}, {remains}", _ENDED)
        sent = [event for taken in runs for event in taken.events]
        if any(isinstance(event, RunFinishedEvent) for event in sent):
            return Finding(f"{what} sends RUN_FINISHED, and fails", "one terminal", sent)
    return None


class _Probe(Middleware):
    """Has a hook at each point, and counts how often it is called."""

    def setup(self, ctx: RunContext, /) -> None:
        self.called: set[str] = ctx.attributes["contract.called"]

    def on_config(self, ctx: RunContext, config: Any, /) -> None:  # noqa: ARG002 - a hook
        self.called.add("MODEL")

    def on_iteration(self, ctx: RunContext, info: Any, /) -> None:  # noqa: ARG002 - a hook
        self.called.add("STEP")

    def on_after_tool_call(self, ctx: RunContext, info: Any, /) -> None:  # noqa: ARG002 - a hook
        self.called.add("TOOLS")

    def on_interrupt_boundary(self, ctx: RunContext, /) -> None:  # noqa: ARG002 - a hook
        self.called.add("INTERRUPTS")


_MARK: Final = "\N{WHITE SQUARE}"


class _Rewriter(Middleware):
    """Rewrites history, so that nobody could miss it."""

    rewrites_history = True

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:  # noqa: ARG002 - a hook
        return event.model_copy(update={"delta": f"{_MARK}{event.delta}"})

    def on_event(self, ctx: RunContext, event: BaseEvent, /) -> Result:  # noqa: ARG002 - a hook
        return event


async def points(subject: AgentSubject) -> Finding | None:
    """Stand at each point that it offers, and see whether the hooks are called."""
    offered = set(subject.part.target.points)
    called: set[str] = set()
    async with subject.host(layers=[Layer(_Probe, id="contract-probe")]) as host:
        run = host.run(subject.asked, attributes={"contract.called": called})
        events = await _heard(run)
    wanted = {Point.MODEL, Point.STEP} & offered
    if Point.TOOLS in offered and any(isinstance(e, ToolCallResultEvent) for e in events):
        wanted.add(Point.TOOLS)
    silent = sorted(point for point in wanted if point.value not in called)
    if silent:
        return Finding(
            f"it offers {', '.join(silent)}, and no hook there is called",
            "the entries of ctx.loop are used for each point that is offered",
        )
    return await _history(subject) if Point.HISTORY in offered else None


async def _history(subject: AgentSubject) -> Finding | None:
    async with subject.host(layers=[Layer(_Rewriter, id="contract-rewriter")]) as host:
        events = await _heard(host.run(subject.asked))
    for event in events:
        if isinstance(event, TextMessageContentEvent) and _MARK not in event.delta:
            return Finding(
                f"it offers HISTORY, and a layer that rewrites history never saw {to_json(event)}",
                "the events of each model call go through ctx.rewrite",
            )
    return None


def _no_failing(subject: AgentSubject) -> str:
    return "" if subject.failing else "failing= gives no input that cannot be answered"


def _no_points(subject: AgentSubject) -> str:
    more = set(subject.part.target.points) - {Point.RUN, Point.EVENTS}
    return "" if more else "it offers RUN and EVENTS alone, which the host sees to"


RULES: Final[tuple[Rule[AgentSubject], ...]] = (
    Rule("stream-valid", "Consumers refuse a stream that breaks the rules of AG-UI.", valid),
    Rule("run-ids", "Clients tell runs apart, and find their thread again, by these ids.", ids),
    Rule("input-untouched", "Layers, retries and the application use the input again.", untouched),
    Rule("left-runs-end", "What goes on when nobody listens costs money and memory.", left),
    Rule(
        "cancelled-runs-end",
        "A run that cannot be cancelled keeps the host from stopping.",
        cancelled,
    ),
    Rule("interleaved-runs", "One agent serves many runs at once.", interleaved),
    Rule(
        "fails-once",
        "A run ends exactly once, and a failure must not look like a success.",
        fails,
        _no_failing,
    ),
    Rule(
        "points-offered",
        "Guards and redaction rely on the points; one that is offered and not used lets all pass.",
        points,
        _no_points,
    ),
)
