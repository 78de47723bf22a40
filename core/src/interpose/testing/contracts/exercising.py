"""A few runs of every kind: what a declaration is held against."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, Final

from ag_ui.core import BaseEvent, RunAgentInput

from interpose.context import AgentContext
from interpose.host import Host
from interpose.loop.agent import LoopAgent
from interpose.loop.script import Call, Turn
from interpose.loop.scripted import ScriptedModel
from interpose.loop.tools import LoopTool, tool
from interpose.runtime.run import Run
from interpose.testing.agents import Part
from interpose.testing.contracts.material import cases, halves, names, sentences
from interpose.testing.contracts.playing import CaseAgent, Heard, case_agent, host_of, listening
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import failed, text, user_input

_PATIENCE: Final = 3
"""Events after which the consumer of one run leaves."""


_LEFT: Final = "a consumer that leaves"
_CANCELLED: Final = "a run that is cancelled"


class Trouble(Exception):
    """What an agent of the kit fails with."""


class _Any:
    """An agent that plays another case each time; so one host, entered anew, serves all runs."""

    def __init__(self, first: CaseAgent) -> None:
        self.current = first
        self.points = first.points

    def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        return self.current.run(run_input, ctx)


async def exercise(subject: Subject, **options: Any) -> list[tuple[str, Heard]]:
    """Play runs that succeed, fail, are left and are cancelled; return each with what it is.

    Each has a host that has just started. A middleware that uses a loop gets one with tools, too.
    ``options`` are those of ``host_of``.
    """
    parts: dict[str, Sequence[Part]] = {case.name: [case.events] for case in cases(subject)}
    said = sentences(subject)
    parts["an agent that raises"] = [text(said)[:2], Trouble("the agent fails")]
    parts["an agent that sends RUN_ERROR"] = [text(said), failed("The agent fails.")]
    parts[_LEFT] = parts[_CANCELLED] = [text(*halves(said), *said[:20])]
    agent = _Any(case_agent(subject, ()))
    host = host_of(subject, agent, **options)
    found: list[tuple[str, Heard]] = []
    with listening() as logged:
        for name, each in parts.items():
            agent.current = case_agent(subject, each)
            before = len(logged)
            async with host:
                run = await played(host, leave=name == _LEFT, cancel=name == _CANCELLED)
            found.append((name, replace(run, logged=tuple(logged[before:]))))
    if subject.uses_loop:
        found.append(("a loop with tools", await heard(subject, loop(subject), **options)))
    if subject.agent is not None:
        found.append(("the given agent", await heard(subject, subject.agent, **options)))
    return found


async def heard(subject: Subject, agent: object, **options: Any) -> Heard:
    """Play one run, and return it with what was logged, also at the host's start and stop."""
    with listening() as logged:
        async with host_of(subject, agent, **options) as host:
            run = await played(host)
    return replace(run, logged=tuple(logged))


async def played(host: Host, *, leave: bool = False, cancel: bool = False) -> Heard:
    """Play one run of a host; the consumer may leave it, or cancel it."""
    run: Run[Any] = host.run(user_input())
    events = []
    async with run:
        async for event in run:
            events.append(event)
            if len(events) == _PATIENCE and leave:
                break
            if len(events) == _PATIENCE and cancel:
                run.cancel("no longer needed")
    return Heard(tuple(events), await run)


def loop(subject: Subject) -> LoopAgent:
    """Return the built-in loop with a model that thinks, calls each tool, and answers."""
    said = sentences(subject)
    known = names(subject)
    calls = tuple(Call(name=name, args={"query": said}) for name in known)
    model = ScriptedModel(
        Turn(text="Let me look.", calls=calls), Turn(text="And again.", calls=calls), said
    )
    return LoopAgent(model, [_tool(name) for name in known], concurrency=1)


def _tool(name: str) -> LoopTool:
    def run(query: str) -> str:
        return f"{name} says: {query}"

    made: LoopTool = tool(run, name=name, description=f"{name}.", effect="read")
    return made
