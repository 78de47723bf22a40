"""The agents that play scripts: one that sends their events, and one that is the built-in loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
)

from interpose.authoring import Point
from interpose.context import AgentContext
from interpose.loop.agent import LoopAgent
from interpose.loop.script import Call, Turn
from interpose.loop.scripted import ScriptedModel
from interpose.loop.streams import owned
from interpose.loop_errors import ModelUnavailable
from interpose.model import ModelContext
from interpose.payloads import ModelRequest
from interpose.testing.contracts.loop_tools import Tools
from interpose.testing.contracts.playing import case_agent
from interpose.testing.contracts.scripts import Script
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import failed, finished, started


class AgentGone(ConnectionError):
    """What the kit's agent raises."""


class Player(Protocol):
    """An agent that plays a script for each run.

    ``said`` tells messages where it plays. ``scripts``: by run id. ``heard``: what reached it in
    each attempt of a run, call by call, as JSON. ``over``: the runs whose terminal it has sent.
    """

    points: tuple[Point, ...]
    said: str
    scripts: dict[str, Script]
    heard: dict[str, list[list[str]]]
    over: set[str]

    def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play the script of the run."""


class StreamPlayer:
    """Sends the events of the scripts."""

    said = ""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.points = case_agent(subject, ()).points
        self.scripts: dict[str, Script] = {}
        self.heard: dict[str, list[list[str]]] = {}
        self.over: set[str] = set()

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play the script of the run."""
        heard = self.heard.setdefault(run_input.run_id, [])
        script = _attempt(self.scripts[run_input.run_id], len(heard))
        heard.append([run_input.model_dump_json(by_alias=True)])
        parts: list[Any] = [started(run_input), *script.sent]
        if script.ending == "run-error":
            parts.append(failed("The agent says so.", "from-the-agent"))
        elif script.ending in ("raises", "waits", "truncated"):
            parts.append(AgentGone("the agent is gone"))  # in the place of a RUN_FINISHED
        elif script.ending == "interrupt":
            question = Interrupt(id=f"question-{script.marker}", reason="kit")
            outcome = RunFinishedInterruptOutcome(interrupts=[question])
            parts.append(finished(run_input, outcome=outcome))
        try:
            async with owned(case_agent(self._subject, parts).run(run_input, ctx)) as events:
                async for event in events:
                    if isinstance(event, RunFinishedEvent | RunErrorEvent):
                        self.over.add(run_input.run_id)
                    yield event
        except AgentGone:
            if script.ending == "waits":
                await asyncio.Event().wait()
            if script.ending == "raises":
                raise


class LoopPlayer:
    """The built-in loop, with a model and tools that speak of the run's marker."""

    said = " with the built-in loop"
    points = LoopAgent.points

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.scripts: dict[str, Script] = {}
        self.heard: dict[str, list[list[str]]] = {}
        self.over: set[str] = set()

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play the script of the run."""
        run_id = run_input.run_id
        attempts = self.heard.setdefault(run_id, [])
        script = _attempt(self.scripts[run_id], len(attempts))
        attempts.append([])
        tools = Tools(self._subject, user=script.marker)
        wanted = ("look_up", "place_order", *tools.own_names)
        model = _Model(_turns(script.marker, wanted), script, attempts[-1])
        loop = LoopAgent(model, tools.of(wanted), tool_timeout=None)
        async with owned(loop.run(run_input, ctx)) as events:
            async for event in events:
                if isinstance(event, RunFinishedEvent | RunErrorEvent):
                    self.over.add(run_id)
                yield event


class _Model(ScriptedModel):
    """Fails, or waits, after as many events as the script says."""

    def __init__(self, turns: Sequence[Turn], script: Script, heard: list[str]) -> None:
        super().__init__(*turns, *(["Done."] * 20))
        self._script = script
        self._heard = heard
        self._left = script.after

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        """Play the turn that is next in the conversation."""
        self._heard.append("\n".join(each.model_dump_json() for each in request.messages))
        async for event in super().stream(request, ctx):
            if self._left is not None and self._script.ending != "success":
                if self._left <= 0:
                    await self._end()
                self._left -= 1
            await asyncio.sleep(0)
            yield event

    async def _end(self) -> None:
        if self._script.ending == "waits":
            await asyncio.Event().wait()
        raise ModelUnavailable("the provider is gone")


def _turns(marker: str, tools: Sequence[str]) -> tuple[Turn, ...]:
    calls = tuple(Call(name=name, args={"query": marker, "amount": 1}) for name in tools)
    return Turn(text=f"Let me look, {marker}.", calls=calls), Turn(text=f"Done, {marker}.")


def _attempt(script: Script, before: int) -> Script:
    return script.first if script.first is not None and not before else script


def players(subject: Subject) -> list[Player]:
    """Return the agents around which a middleware can do all that it does."""
    found: list[Player] = [StreamPlayer(subject)]
    if subject.uses_loop:
        found.append(LoopPlayer(subject))
    return found
