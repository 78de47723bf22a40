"""An agent of another kind as a tool; and what layers make of the texts of subagents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunErrorEvent,
    StepStartedEvent,
    SubagentStartedEvent,
    TextMessageStartEvent,
)
from looping import Spy, asking, calls, loop, results, seen, within
from playing import agent_of, say, started

from interpose import (
    EndInfo,
    Middleware,
    PatternTransform,
    RunContext,
    ToolError,
)
from interpose.loop import (
    LoopAgent,
    LoopTool,
    agent_tool,
    tool,
)


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


def helper(*turns: Any, name: str = "ask_helper", tools: Any = (look,)) -> tuple[LoopTool, Spy]:
    """Return an agent of our own as a tool, and its model."""
    model = Spy(*turns)
    return agent_tool(LoopAgent(model, tools), name, "Ask the helper."), model


def task(name: str = "ask_helper", what: str = "do it") -> tuple[str, dict[str, str]]:
    return name, {"task": what}


def lane(event: BaseEvent) -> str | None:
    return getattr(event, "subagent_run_id", None)


# -- other agents -------------------------------------------------------------------------------


def test_g37_another_agents_events_pass_the_layers_that_look_at_events() -> None:
    """An agent that is no loop: its text is the result, its events are in a lane and seen by layers."""
    said: list[tuple[str, bool]] = []

    class Watches(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            if event.type.value == "TEXT_MESSAGE_CONTENT":
                said.append((event.delta, lane(event) is not None))  # type: ignore[attr-defined]

    class Foreign:
        def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
            return agent_of(*say("from elsewhere"))(run_input)

    ask = agent_tool(Foreign(), "ask_helper", "Ask.")  # type: ignore[arg-type] # fine, too
    outer = Spy(calls(task()), "done")

    played = loop([Watches], outer, [ask])

    assert outer.told() == ["from elsewhere"]
    assert said == [("from elsewhere", True), ("done", False)]
    assert played.types.count("RUN_STARTED") == 1


@pytest.mark.parametrize("way", ["run error", "raises"])
def test_another_agent_that_fails_is_a_failed_call(way: str) -> None:
    """RUN_ERROR or an exception: an error result without the foreign text."""

    class Foreign:
        async def run(self, run_input: RunAgentInput, ctx: Any) -> AsyncIterator[BaseEvent]:
            yield started(run_input)
            if way == "raises":
                raise OSError("password=hunter2")
            yield RunErrorEvent(message="password=hunter2")

    ask = agent_tool(Foreign(), "ask_helper", "Ask.")
    outer = Spy(calls(task()), "sorry")

    played = loop([], outer, [ask])

    assert played.result.outcome == "success"
    assert played.result.text == "sorry"
    assert "hunter2" not in str(played.events)
    assert "failed" in outer.told()[0]


def test_another_agent_is_closed_when_the_run_is_cancelled() -> None:
    """It hangs: its generator is closed before the run has ended."""
    waits = asyncio.Event()
    log: list[str] = []

    class Foreign:
        async def run(self, run_input: RunAgentInput, ctx: Any) -> AsyncIterator[BaseEvent]:
            try:
                yield started(run_input)
                waits.set()
                await asyncio.Event().wait()
            finally:
                log.append("closed")

    class Ends(Middleware):
        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            log.append(end.kind)

    async def use(host: Any) -> None:
        run = host.run(asking())
        playing = asyncio.create_task(seen(run))
        await waits.wait()
        run.cancel()
        assert (await playing).result.outcome == "cancelled"

    agent = LoopAgent(Spy(calls(task())), [agent_tool(Foreign(), "ask_helper", "Ask.")])
    within([Ends], agent, use)

    assert log == ["closed", "abort"]


# -- redaction ----------------------------------------------------------------------------------


class Mask(PatternTransform):
    patterns = (r"s3cr3t\d*",)
    replacement = "[gone]"
    rewrites_history = True


def test_redaction_covers_subagents_side_by_side_and_their_failures() -> None:
    """Secrets of two interleaved subagents, of their tools and of a failure: none leaves."""
    barrier = asyncio.Barrier(2)

    @tool
    async def tell() -> str:
        """Tell."""
        await barrier.wait()
        return "it is s3cr3t7"

    @tool
    async def fail() -> str:
        """Fail."""
        await barrier.wait()
        raise ToolError("not with s3cr3t8")

    one, one_model = helper(calls("tell"), "one has s3cr3t1 now", name="one", tools=[tell])
    two, two_model = helper(calls("fail"), "two has s3cr3t2 now", name="two", tools=[fail])
    outer = Spy(calls(task("one"), task("two")), "all of s3cr3t3")

    played = loop([Mask], outer, [one, two])

    assert "s3cr3t" not in str(played.events)
    assert "s3cr3t" not in str(played.result.messages)
    assert one_model.told() == ["it is [gone]"]
    assert two_model.told() == ["not with [gone]"]
    assert outer.told() == ["one has [gone] now", "two has [gone] now"]
    assert played.result.text == "all of [gone]"


def test_another_agent_that_stops_in_the_middle_leaves_nothing_open() -> None:
    """It fails with a text, a step and a subagent of its own open: its lane is closed, the run goes on."""

    class Foreign:
        async def run(self, run_input: RunAgentInput, ctx: Any) -> AsyncIterator[BaseEvent]:
            yield started(run_input)
            yield StepStartedEvent(step_name="iteration-1")
            yield SubagentStartedEvent(subagent_run_id="deep", name="deep")
            yield TextMessageStartEvent(message_id="m", role="assistant", subagent_run_id="deep")
            raise OSError("gone")

    played = loop([], Spy(calls(task()), "sorry"), [agent_tool(Foreign(), "ask_helper", "Ask.")])

    assert played.result.outcome == "success"
    assert played.result.text == "sorry"
    assert played.types.count("SUBAGENT_ERROR") == 2


def test_two_other_agents_side_by_side_may_choose_the_same_ids() -> None:
    class Foreign:
        def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
            return agent_of(*say("one", message="m"))(run_input)

    foreign: Any = Foreign()
    tools = [agent_tool(foreign, name, "Ask.") for name in ("ask_one", "ask_other")]
    played = loop([], Spy(calls(task("ask_one"), task("ask_other")), "Done."), tools)

    assert played.result.outcome == "success"
    assert list(results(played).values()) == ["one", "one"]
    opened = [e for e in played.events if e.type.value == "TEXT_MESSAGE_START" and lane(e)]
    assert len({event.message_id for event in opened}) == 2  # type: ignore[attr-defined]
