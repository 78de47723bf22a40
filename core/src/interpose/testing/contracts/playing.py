"""Playing a stream through the middleware, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from ag_ui.core import BaseEvent, RunAgentInput, RunErrorEvent, RunFinishedEvent
from loguru import logger

from interpose.authoring import Layer, Middleware, Point
from interpose.context import AgentContext
from interpose.host import Host
from interpose.runtime.run import RunResult
from interpose.testing.agents import Part, ScriptedAgent
from interpose.testing.clocks import FakeClock
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import user_input
from interpose.testing.hosts import KitHost, another, make_host

_AGENT: ContextVar[CaseAgent] = ContextVar("_AGENT")
"""The case at hand."""
_CRASHES: Final = frozenset({"middleware-failed", "middleware-contract", "repeat-after-output"})
"""Codes of what ends a run when a layer fails."""
_LINES: ContextVar[list[str] | None] = ContextVar("_LINES", default=None)
"""What the play at hand has been told."""
_WARNING: Final = 30
"""The number of the level from which on the operator is told something."""
_LINE: Final = "{level} {message}\n{exception}"
_EARS: ContextVar[object] = ContextVar("_EARS", default=None)
"""Whose sink it is that tells."""


def _asked() -> RunAgentInput:
    """Return what runs are asked with.

    The ids are the same each time: some layers decide by them, as a fair test of two variants
    does, and plays are compared.
    """
    return user_input(thread_id="thread", run_id="run")


class CaseAgent(ScriptedAgent):
    """Plays a case. It offers every point, so that any middleware may stand around it.

    No hook of a loop is called by it: the streams of a contract are for what handles streams.
    ``inputs``: what it was asked with; ``ended``: whether it came to say its terminal.
    """

    def __init__(self, parts: Iterable[Part], points: Iterable[Point]) -> None:
        super().__init__(parts)
        self.points = tuple(points)
        self.inputs: list[RunAgentInput] = []
        self.ended = False

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play the case; through the layers that rewrite history, if it offers HISTORY."""
        self.inputs.append(run_input)
        events = super().run(run_input, ctx)
        async for event in ctx.rewrite(events) if Point.HISTORY in self.points else events:
            self.ended = isinstance(event, RunFinishedEvent | RunErrorEvent)
            yield event


@dataclass(frozen=True, slots=True)
class Heard:
    """A run as its consumer saw it. ``logged``: what the operator was told, level first.

    ``inputs``: what the agent was asked with. ``complete``: the agent came to say all of it.
    """

    events: tuple[BaseEvent, ...]
    result: RunResult[Any]
    logged: tuple[str, ...] = ()
    inputs: tuple[RunAgentInput, ...] = ()
    complete: bool = True

    @property
    def error(self) -> BaseException | None:
        """The exception that ended the run."""
        return self.result.error

    @property
    def ended_early(self) -> bool:
        """Whether something ended the run before the agent did; the agent itself does not fail."""
        return not self.complete or isinstance(self.events[-1], RunErrorEvent)

    @property
    def crash(self) -> str:
        """What the middleware raised, for a person; ``""`` if it raised nothing but a refusal."""
        last = self.events[-1] if self.events else None
        if not isinstance(last, RunErrorEvent) or last.code not in _CRASHES:
            return ""
        error = self.error
        return f"{type(error).__name__}: {getattr(error, 'message', error)}"


def case_agent(subject: Subject, parts: Iterable[Part]) -> CaseAgent:
    """Return an agent that plays ``parts`` and lets the subject stand around it."""
    points = set(Point) - {Point.HISTORY}
    if Point.HISTORY in subject.declaration.essential:
        points.add(Point.HISTORY)
    return CaseAgent(parts, sorted(points))


class StandIn:
    """The agent of hosts that are prepared once for many cases: it plays the case at hand."""

    def __init__(self, points: Iterable[Point]) -> None:
        self.points = tuple(points)

    def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play the case at hand."""
        return _AGENT.get().run(run_input, ctx)


def host_of(
    subject: Subject,
    agent: object,
    *,
    outside: Sequence[Layer | type[Middleware[Any, Any]]] = (),
    inside: Sequence[Layer | type[Middleware[Any, Any]]] = (),
    layer: Layer | None = None,
    strict: bool = True,
) -> Host:
    """Return a host with the subject's layer, and others nearer the caller or the agent."""
    own = subject.layer() if layer is None else layer
    further_in = [Layer.of(each) for each in inside]
    if subject.declaration.form == "raw":
        further_in = [_raw(each) for each in further_in]
    layers = [*map(Layer.of, outside), own, *further_in]
    for outer, inner in pairwise(layers):
        outer.before = (*outer.before, inner.id)
    return make_host(
        layers,
        agent=agent,
        provide=subject.provide,
        strict=strict,
        clock=FakeClock(jump=True),
        overrides={"host": {"ending_deadline": 1.0}},
    )


def _raw(layer: Layer) -> Layer:
    """Let a layer of the kit stand further in than a raw one: there are only raw ones."""
    if layer.use.form != "raw":
        raw = {"form": "raw", "observes_only": not layer.use.rewrites_history}
        layer.use = type(layer.use.__name__, (layer.use,), raw)
    return layer


def _prepared_host(subject: Subject, agent: CaseAgent, *, strict: bool = True) -> Host:
    """Return a new host, prepared at most once for the subject: that takes most of the time."""
    made: KitHost | None = subject.memo.get("host")
    if made is None:
        made = subject.memo["host"] = make_host(
            [subject.layer()],
            agent=StandIn(agent.points),
            provide=subject.provide,
            overrides={"host": {"ending_deadline": 1.0}},
        )
    _AGENT.set(agent)
    return another(made, strict=strict, clock=FakeClock(jump=True))


async def play(
    subject: Subject,
    parts: Iterable[Part],
    *,
    run_input: RunAgentInput | None = None,
    **options: Any,
) -> Heard:
    """Play one run of ``parts`` through the subject. ``options`` are those of :func:`host_of`."""
    return await play_agent(subject, case_agent(subject, parts), run_input=run_input, **options)


async def play_agent(
    subject: Subject,
    agent: CaseAgent,
    *,
    run_input: RunAgentInput | None = None,
    most: int | None = None,
    **options: Any,
) -> Heard:
    """Play one run of an agent through the subject. ``most``: events after which nobody listens."""
    make = host_of if options.keys() - {"strict"} else _prepared_host
    with listening() as logged:
        async with make(subject, agent, **options) as host:
            events: list[BaseEvent] = []
            async with host.run(_asked() if run_input is None else run_input) as run:
                async for event in run:
                    # As it is now: a real consumer has written it by the time it may change.
                    events.append(event.model_copy())
                    if len(events) == most:
                        break
            result = await run
            # Terminal hooks and deferred work are done by tasks of the host.
            await asyncio.sleep(0)
    return Heard(tuple(events), result, tuple(logged), tuple(agent.inputs), agent.ended)


async def play_bare(
    parts: Iterable[Part], run_input: RunAgentInput | None = None
) -> tuple[BaseEvent, ...]:
    """Return what leaves when nothing stands around the agent."""
    async with make_host([], agent=ScriptedAgent(parts), strict=False) as host:
        run = host.run(_asked() if run_input is None else run_input)
        return tuple([event async for event in run])


@contextmanager
def listening() -> Iterator[list[str]]:
    """Collect what Interpose tells the operator, from WARNING on: ``ERROR the text``."""
    lines: list[str] = []
    hearing = _LINES.set(lines)
    try:
        with ears():
            yield lines
    finally:
        _LINES.reset(hearing)


@contextmanager
def ears() -> Iterator[None]:
    """Let loguru tell whoever is :func:`listening` inside this block.

    To open them takes longer than to play a short case, so a check opens them once.
    """
    if _EARS.get() is not None:
        yield
        return
    mine = object()
    opened = _EARS.set(mine)

    def hear(line: Any) -> None:
        lines = _LINES.get()
        record = line.record
        heard = record["level"].no >= _WARNING and (record["name"] or "").startswith("interpose.")
        if lines is not None and _EARS.get() is mine and heard:
            lines.append(str(line).rstrip("\n"))

    decided: Any = getattr(getattr(logger, "_core", None), "activation_list", ())
    was_silent = ("interpose.", False) in list(decided)
    logger.enable("interpose")
    # From TRACE on: an operator's handler may ask for every line, so every line is built.
    sink = logger.add(
        hear,
        format=lambda record: _LINE if record["level"].no >= _WARNING else "{message}",
        level="TRACE",
        backtrace=False,
        diagnose=False,
    )
    try:
        yield
    finally:
        logger.remove(sink)
        if was_silent:
            logger.disable("interpose")
        _EARS.reset(opened)
