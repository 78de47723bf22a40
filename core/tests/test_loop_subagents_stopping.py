"""Agents as tools that take too long or break off: the call fails, the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
)
from looping import Hanging, Spy, calls, host_of, loop, seen
from playing import Played, finished, started
from tooling import DrivenClock, until

from interpose import PatternTransform
from interpose.loop import LoopAgent, LoopTool, agent_tool

TASK = calls(("ask_helper", {"task": "do it"}))


class Mask(PatternTransform):
    """Holds back text that may still become a secret."""

    patterns = (r"s3cr3t\d+",)
    replacement = "[gone]"
    rewrites_history = True


class Foreign:
    """An agent of another kind that plays these events, ``then`` ends, breaks off or hangs."""

    def __init__(self, *events: BaseEvent, then: str) -> None:
        self._events = events
        self._then = then
        self.waits = asyncio.Event()
        self.closed = 0

    async def run(self, run_input: RunAgentInput, ctx: Any) -> AsyncIterator[BaseEvent]:
        try:
            yield started(run_input)
            for event in self._events:
                yield event
            if self._then == "hangs":
                self.waits.set()
                await asyncio.Event().wait()
            if self._then == "ends":
                yield finished(run_input)
        finally:
            self.closed += 1


def chunk(text: str) -> BaseEvent:
    return TextMessageChunkEvent(message_id="m", role="assistant", delta=text)


def opened(text: str) -> tuple[BaseEvent, BaseEvent]:
    return (
        TextMessageStartEvent(message_id="m", role="assistant"),
        TextMessageContentEvent(message_id="m", delta=text),
    )


def late(ask: LoopTool, outer: Spy, waits: asyncio.Event, layers: Any = ()) -> Played:
    """Play a run, and move the host's clock by a minute once the agent hangs."""

    async def main() -> Played:
        clock = DrivenClock()
        async with host_of(layers, LoopAgent(outer, [ask]), clock=clock) as host:
            playing = asyncio.create_task(seen(host.run("hi")))
            await until(waits.is_set)
            clock.advance(60)
            return await asyncio.wait_for(playing, 20)

    return asyncio.run(main())


@pytest.mark.parametrize("kind", ["loop", "foreign"])
def test_an_agent_that_takes_too_long_by_the_hosts_clock_is_a_failed_call(kind: str) -> None:
    """It is closed with what it left open, and the model hears that it may have had its effect."""
    inner = Hanging() if kind == "loop" else Foreign(*opened("Well"), then="hangs")
    agent = LoopAgent(inner) if isinstance(inner, Hanging) else inner
    outer = Spy(TASK, "sorry")

    played = late(agent_tool(agent, "ask_helper", "Ask.", timeout=60), outer, inner.waits)

    assert (played.result.outcome, played.result.text) == ("success", "sorry")
    late_by = "The agent 'ask_helper' took longer than 60 s and was given up."
    assert outer.told() == [f"{late_by} It may have had its effect all the same."]
    assert inner.closed == 1
    assert played.types.count("SUBAGENT_ERROR") == 1
    assert "SUBAGENT_FINISHED" not in played.types


def test_an_agent_that_only_reads_has_had_no_effect_when_it_takes_too_long() -> None:
    inner = Foreign(then="hangs")
    outer = Spy(TASK, "sorry")

    late(agent_tool(inner, "ask_helper", "Ask.", effect="read", timeout=60), outer, inner.waits)

    assert outer.told() == ["The agent 'ask_helper' took longer than 60 s and was given up."]


def test_an_agent_has_no_timeout_of_its_own() -> None:
    """``tool_timeout`` is not for agents: one that takes longer is waited for."""

    class Slow:
        async def run(self, run_input: RunAgentInput, ctx: Any) -> AsyncIterator[BaseEvent]:
            yield started(run_input)
            await ctx.sleep(100)
            yield chunk("at last")
            yield finished(run_input)

    async def main() -> None:
        clock = DrivenClock()
        agent = LoopAgent(Spy(TASK, "done"), [agent_tool(Slow(), "ask_helper", "Ask.")])
        async with host_of([], agent, clock=clock) as host:
            playing = asyncio.create_task(seen(host.run("hi")))
            await until(lambda: any(due == 100 for due, _ in clock.sleepers))
            assert [due for due, _ in clock.sleepers if due == agent.parts.tool_timeout] == []
            clock.advance(100)
            played = await asyncio.wait_for(playing, 20)
        assert [m.content for m in played.result.messages if m.role == "tool"] == ["at last"]

    asyncio.run(main())


def test_a_cancelled_run_is_cancelled_also_while_an_agent_has_a_timeout() -> None:
    inner = Foreign(then="hangs")
    outer = Spy(TASK, "never")

    async def main() -> Played:
        ask = agent_tool(inner, "ask_helper", "Ask.", timeout=60)
        async with host_of([], LoopAgent(outer, [ask]), clock=DrivenClock()) as host:
            run = host.run("hi")
            playing = asyncio.create_task(seen(run))
            await until(inner.waits.is_set)
            run.cancel()
            return await asyncio.wait_for(playing, 20)

    assert asyncio.run(main()).result.outcome == "cancelled"
    assert len(outer.requests) == 1
    assert inner.closed == 1


@pytest.mark.parametrize("as_chunks", [True, False])
def test_an_agent_that_stops_without_a_terminal_has_failed(*, as_chunks: bool) -> None:
    """A stream that broke off is no success, whatever it said before."""
    said = (chunk("half"),) if as_chunks else opened("half")
    outer = Spy(TASK, "sorry")

    played = loop([], outer, [agent_tool(Foreign(*said, then="breaks off"), "ask_helper", "Ask.")])

    assert (played.result.outcome, played.result.text) == ("success", "sorry")
    assert outer.told() == ["The agent ask_helper broke off before its end."]
    assert played.types.count("SUBAGENT_ERROR") == 1


def test_an_agent_that_speaks_in_chunks_is_heard_to_the_end() -> None:
    """RUN_FINISHED ends its message; what a layer held back of it belongs to the result."""
    ask = agent_tool(Foreign(chunk("well s3cr3t1 s3cr"), then="ends"), "ask_helper", "Ask.")
    outer = Spy(TASK, "done")

    played = loop([Mask], outer, [ask])

    assert played.result.outcome == "success"
    assert outer.told() == ["well [gone] s3cr"]
    assert played.text == "well [gone] s3crdone"
    assert "SUBAGENT_FINISHED" in played.types


@pytest.mark.parametrize("kind", ["breaks off", "hangs", "loop"])
def test_text_that_a_layer_held_back_is_given_when_an_agent_stops_in_the_middle(kind: str) -> None:
    """A layer sees the end of a message that the agent left open, as of any other."""
    said = "well s3cr3t1 s3cr"
    outer = Spy(TASK, "sorry")

    if kind == "loop":
        model = Hanging(said)
        ask = agent_tool(LoopAgent(model), "ask_helper", "Ask.", timeout=60)
        played = late(ask, outer, model.waits, [Mask])
    else:
        inner = Foreign(*opened(said), then=kind)
        ask = agent_tool(inner, "ask_helper", "Ask.", timeout=60)
        played = (
            late(ask, outer, inner.waits, [Mask]) if kind == "hangs" else loop([Mask], outer, [ask])
        )

    assert played.result.outcome == "success"
    assert played.text == "well [gone] s3crsorry"
