"""The contract of agents finds mistakes, and lets correct ones pass."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    UserMessage,
)
from contracting import failures

from interpose import (
    AgentContext,
    AgentFactory,
    LifespanContext,
    Point,
    Settings,
    StartupError,
)
from interpose.loop import LoopAgent, tool
from interpose.testing import (
    agent_contract,
    finished,
    scripted,
    started,
    text,
    tool_call,
)


@tool(effect="read")
def look_up(order: str = "1") -> str:
    """Look up an order."""
    return f"{order} has shipped"


@pytest.mark.parametrize(
    "check",
    [
        *agent_contract(scripted("Hello ", "world.", tool_call("look_up", {}, result="none"))),
        *agent_contract(LoopAgent("scripted", [look_up])),
    ],
    ids=str,
)
def test_a_correct_agent_passes(check: Callable[[], None]) -> None:
    check()


class EchoSettings(Settings):
    words: str = "Hello."
    """What it says."""


class Echo:
    def __init__(self, words: str = "Hello.") -> None:
        self.words = words

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        if "broken" in json.dumps([m.model_dump(mode="json") for m in run_input.messages]):
            raise RuntimeError("the database is gone")
        for event in text(*self.words, message_id=f"m-{run_input.run_id}"):
            await asyncio.sleep(0)
            yield event
        yield finished(run_input)


class Echoes(AgentFactory[EchoSettings]):
    def __call__(self, settings: EchoSettings, ctx: LifespanContext, /) -> Echo:
        return Echo(settings.words)


def test_a_factory_of_agents_passes_and_its_settings_are_checked() -> None:
    report = agent_contract(Echoes, settings={"words": "Hi."}, failing=["broken"]).run()
    assert report, str(report)
    status = {result.name: result.status for result in report.results}
    assert status["settings-environment"] == status["fails-once"] == "passed"


class TwoTerminals(Echo):
    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield RunErrorEvent(message="It failed.")
        yield finished(run_input)


class FixedIds(Echo):
    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        yield RunStartedEvent(thread_id="thread", run_id="run")
        yield RunFinishedEvent(thread_id="thread", run_id="run")


class Appends(Echo):
    """Writes the history that it keeps into the input."""

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        run_input.messages.append(UserMessage(id="own", content="and one more thing"))
        yield finished(run_input)


class Watches(Echo):
    """Has a heartbeat in the background, which a run that is left does not stop."""

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        async def heartbeat() -> None:
            await asyncio.Event().wait()

        self.task = asyncio.ensure_future(heartbeat())
        async for event in super().run(run_input, ctx):
            yield event
        self.task.cancel()


class Keeps(Echo):
    """Keeps the answer at hand in the agent."""

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        self.said = ""
        yield started(run_input)
        for piece in ("Hel", "lo"):
            self.said += piece
            await asyncio.sleep(0)
        for event in text(self.said):
            yield event
        yield finished(run_input)


class SaysSuccess(Echo):
    """A failure looks like an empty answer."""

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        try:
            async for event in super().run(run_input, ctx):
                yield event
        except RuntimeError:
            yield finished(run_input)


class OffersAll(Echo):
    points = (Point.RUN, Point.EVENTS, Point.STEP, Point.MODEL)


class OffersHistory(Echo):
    points = (Point.RUN, Point.EVENTS, Point.HISTORY)


@pytest.mark.parametrize(
    ("agent", "check", "said"),
    [
        (TwoTerminals(), "stream-valid", "RUN_FINISHED"),
        (
            FixedIds(),
            "run-ids",
            "asked as run-of-1 of thread-of-1, RUN_STARTED says run of thread",
        ),
        (Appends(), "input-untouched", "it changes its input in place"),
        (
            Watches(),
            "left-runs-end",
            "left after 1 events, the task Watches.run.<locals>.heartbeat is still running",
        ),
        (
            Watches(),
            "cancelled-runs-end",
            "cancelled after 1 events, the task Watches.run.<locals>.heartbeat is still running",
        ),
        (Keeps(), "interleaved-runs", "two runs at once: one of them is not what it is alone"),
        (SaysSuccess(), "fails-once", "run 1 of failing ends as success"),
        (OffersAll(), "points-offered", "it offers MODEL, STEP, and no hook there is called"),
        (
            OffersHistory(),
            "points-offered",
            "it offers HISTORY, and a layer that rewrites history never saw",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Echo) else "",
)
def test_an_agent_with_a_mistake_is_found(agent: Echo, check: str, said: str) -> None:
    found = failures(agent_contract(agent, failing=["broken"]))
    assert said in found[check]


def test_what_is_no_agent_is_refused_as_at_startup() -> None:
    with pytest.raises(StartupError):
        agent_contract(object())
