"""Playing a loop through the middleware: a model, tools, people who answer, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Self

from ag_ui.core import BaseEvent, Interrupt, ResumeEntry, RunAgentInput

from interpose.authoring import Layer, Middleware, Point
from interpose.capability import PRINCIPAL, Capability
from interpose.context import AgentContext
from interpose.loop.agent import LoopAgent
from interpose.loop.continuation import TOOL_CALL
from interpose.loop.sampling import sample
from interpose.payloads import ModelRequest
from interpose.testing.clocks import FakeClock
from interpose.testing.contracts.loop_models import (
    Cut,
    KitModel,
    Turns,
    at_hand,
    stand_ins,
)
from interpose.testing.contracts.loop_tools import Executed, Tools
from interpose.testing.contracts.playing import Heard, listening
from interpose.testing.contracts.subject import Person, Subject
from interpose.testing.events import user_input
from interpose.testing.hosts import KitHost, another, make_host

THREAD: Final = "thread-contract"
_HOUR: Final = 3600.0

_LOOP: ContextVar[LoopAgent] = ContextVar("_LOOP")
"""The loop at hand."""

Layers = Sequence[Layer | type[Middleware[Any, Any]]]


@dataclass(frozen=True, slots=True)
class LoopHeard:
    """A turn of a loop: the first run, and those that went on with it after a pause.

    ``executed``: what tools did; ``begun``: also what they began, and then asked people.
    ``requests``: what the model was asked.
    """

    runs: tuple[Heard, ...]
    begun: tuple[Executed, ...]
    executed: tuple[Executed, ...]
    requests: tuple[ModelRequest, ...]

    @property
    def last(self) -> Heard:
        """The run that the turn ended with."""
        return self.runs[-1]

    @property
    def events(self) -> tuple[BaseEvent, ...]:
        """The events of all runs."""
        return tuple(event for run in self.runs for event in run.events)

    def of(self, tool: str) -> tuple[Executed, ...]:
        """Return what a tool did."""
        return tuple(each for each in self.executed if each.tool == tool)


class _OnStage:
    """The agent of hosts that are prepared once for many loops: it plays the loop at hand."""

    points = tuple(Point)

    def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play the loop at hand."""
        return _LOOP.get().run(run_input, ctx)


class Stage:
    """A host with a loop, the middleware and the kit's own model and tools.

    ``bare``: without the middleware, to see what would be. ``later``: seconds that have passed
    since another stage.
    """

    def __init__(
        self,
        subject: Subject,
        turns: Turns,
        *,
        cut: Cut | None = None,
        outside: Layers = (),
        inside: Layers = (),
        bare: bool = False,
        later: float = 0.0,
    ) -> None:
        self.subject = subject
        self.tools = Tools(subject)
        self.clock = FakeClock(1_700_000_000.0 + later, jump=True)
        self._cut = cut
        self.play(turns)
        if outside or inside:
            made = self._made(outside, inside, bare=bare)
        else:
            memo = "bare stage" if bare else "stage"
            known: KitHost | None = subject.memo.get(memo)
            if known is None:
                known = subject.memo[memo] = self._made((), (), bare=bare)
            made = known
        self._host = another(made, strict=True, clock=self.clock)

    def play(self, turns: Turns) -> None:
        """Let later runs play another script."""
        self.model = KitModel(turns, cut=self._cut)
        tools = self.tools.of(call.name for turn in self.model.turns for call in turn.calls)
        self._agent = LoopAgent(self.model, tools, tool_timeout=None)

    def _made(self, outside: Layers, inside: Layers, *, bare: bool) -> KitHost:
        own = () if bare else (self.subject.layer(),)
        layers = [*map(Layer.of, outside), *own, *map(Layer.of, inside)]
        for outer, inner in pairwise(layers):
            outer.before = (*outer.before, inner.id)
        return make_host(
            layers,
            agent=_OnStage(),
            provide=self._provided(),
            overrides={
                "host": {"ending_deadline": 1.0, "signing_key": "of-the-contract"},
                "models": stand_ins(self.subject),
            },
        )

    async def __aenter__(self) -> Self:
        await self._host.__aenter__()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._host.__aexit__(None, None, None)

    @property
    def host(self) -> KitHost:
        """The host, entered."""
        return self._host

    @property
    def tells_users_apart(self) -> bool:
        """Whether a run can be somebody else's."""
        return isinstance(self._provided().get(PRINCIPAL), Person)

    def asked(self, number: int = 1, **fields: Any) -> RunAgentInput:
        """Return the input of the n-th run of the thread."""
        return user_input(**{"thread_id": THREAD, "run_id": f"run-{number}", **fields})

    def options(self, user: str) -> dict[str, Any]:
        """Return what a run of ``user`` is given; it is the one at hand then."""
        _LOOP.set(self._agent)
        at_hand(self.model)
        self.tools.user = user
        if not self.tells_users_apart or user == Person().subject:
            return {}
        return {"provide": {PRINCIPAL: Person(subject=user, tenant=f"{user}-works")}}

    async def run(self, run_input: RunAgentInput, user: str = Person().subject) -> Heard:
        """Play a run to its end."""
        with listening() as logged:
            run = self._host.run(run_input, **self.options(user))
            events = [event async for event in run]
            result = await run
            await asyncio.sleep(0)
        return Heard(tuple(events), result, tuple(logged))

    def _provided(self) -> Mapping[Capability[Any], Any]:
        given = dict(self.subject.provide)
        if PRINCIPAL not in self.subject.declaration.provides:
            given.setdefault(PRINCIPAL, Person())
        return given


async def play_loop(subject: Subject, turns: Turns, **options: Any) -> LoopHeard:
    """Play one run of a loop. ``options`` are those of :class:`Stage`."""
    async with Stage(subject, turns, **options) as stage:
        heard = await stage.run(stage.asked())
    return _heard([heard], [stage])


async def play_turn(
    subject: Subject,
    turns: Turns,
    *,
    new_process: Callable[[], None] | None = None,
    most: int = 5,
    **options: Any,
) -> LoopHeard:
    """Play a run, and go on with it each time that it asks people, who agree to everything.

    An hour passes before each answer. ``new_process``: puts the process back to what it was before
    the run; then each answer is given to another host. At most ``most`` answers are given.
    """
    stages = [Stage(subject, turns, **options)]
    runs: list[Heard] = []
    await stages[0].__aenter__()
    try:
        runs.append(await stages[0].run(stages[0].asked()))
        while runs[-1].result.interrupts and len(runs) <= most:
            if new_process is None:
                await stages[-1].clock.advance(_HOUR)
            else:
                await stages[-1].__aexit__(None, None, None)
                new_process()
                stages.append(Stage(subject, turns, later=_HOUR * len(runs), **options))
                await stages[-1].__aenter__()
            before = runs[-1].result
            asked = stages[-1].asked(
                len(runs) + 1,
                said=before.messages,
                resume=[agreed(each) for each in before.interrupts],
            )
            runs.append(await stages[-1].run(asked))
    finally:
        await stages[-1].__aexit__(None, None, None)
    return _heard(runs, stages)


def agreed(interrupt: Interrupt) -> ResumeEntry:
    """Return the answer of somebody who agrees."""
    payload: Any = True
    if interrupt.reason != TOOL_CALL and interrupt.response_schema is not None:
        payload = sample(interrupt.response_schema)
    return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload=payload)


def calling(*names: str, text: str = "", **args: Any) -> dict[str, Any]:
    """Return a turn of a model that calls these tools."""
    given = args or {"query": "parcel"}
    return {"text": text, "calls": [{"name": name, "args": given} for name in names]}


def _heard(runs: Iterable[Heard], stages: Iterable[Stage]) -> LoopHeard:
    stages = list(stages)
    begun = tuple(each for stage in stages for each in stage.tools.begun)
    executed = tuple(each for stage in stages for each in stage.tools.executed)
    requests = tuple(each for stage in stages for each in stage.model.requests)
    return LoopHeard(tuple(runs), begun, executed, requests)
