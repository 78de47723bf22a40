"""A layer that answers tool calls itself and goes on: several passes, one visible run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    ActivitySnapshotEvent,
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    StateSnapshotEvent,
    TokenUsage,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from playing import finished, play, say, started

from interpose import CallRun, Middleware, RunContext, middleware, on


class Answers(Middleware):
    """Answers every call of the tool ``mine``, and goes on until there is none."""

    may_continue = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        stream = call_next(run_input)
        while True:
            calls = []
            async for event in stream:
                if isinstance(event, ToolCallStartEvent) and event.tool_call_name == "mine":
                    calls.append(event.tool_call_id)
                yield event
            if not calls:
                return
            for call in calls:
                yield ToolCallResultEvent(message_id=f"r-{call}", tool_call_id=call, content="42")
            stream = call_next(run_input, continues=True)


def calls_then_says(*, rounds: int = 1, other: bool = False) -> tuple[Any, list[RunAgentInput]]:
    """Return an agent that calls ``mine`` in its first passes, then answers; and its inputs."""
    inputs: list[RunAgentInput] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        inputs.append(run_input)
        number = len(inputs)
        yield started(run_input)
        usage = [TokenUsage(model="m", input_tokens=10 * number)]
        if number <= rounds:
            call = f"c{number}"
            yield ToolCallStartEvent(tool_call_id=call, tool_call_name="mine")
            yield ToolCallEndEvent(tool_call_id=call)
            yield StateSnapshotEvent(snapshot={"pass": number})
        else:
            for event in say("done"):
                yield event
            if other:
                yield ToolCallStartEvent(tool_call_id="front", tool_call_name="theirs")
                yield ToolCallEndEvent(tool_call_id="front")
        yield finished(run_input).model_copy(update={"usage": usage})

    return agent, inputs


def last(played: Any) -> RunFinishedEvent:
    event = played.events[-1]
    assert isinstance(event, RunFinishedEvent), event
    return event


def test_the_consumer_sees_one_run_with_everything_added_up() -> None:
    agent, inputs = calls_then_says()
    played = play([Answers], agent)
    assert played.types.count("RUN_STARTED") == 1
    assert played.types.count("RUN_FINISHED") == 1
    assert played.text == "done"
    [usage] = last(played).usage or []
    assert usage.input_tokens == 30
    assert last(played).outcome is None
    assert [message.role for message in inputs[1].messages] == ["user", "assistant", "tool"]
    assert inputs[1].state == {"pass": 1}
    assert inputs[1].run_id == inputs[0].run_id


def test_calls_that_stay_open_are_listed_exactly() -> None:
    agent, _ = calls_then_says(other=True)
    outcome = last(play([Answers], agent)).outcome
    assert isinstance(outcome, RunFinishedSuccessOutcome)
    assert outcome.pending_tool_call_ids == ["front"]


def test_calls_that_the_agent_does_not_list_are_its_own() -> None:
    """A back-end tool without a result in the stream is not the consumer's to answer."""
    passes: list[int] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        passes.append(1)
        yield started(run_input)
        if len(passes) == 1:
            for call, name in (("own", "backend"), ("c", "mine"), ("front", "theirs")):
                yield ToolCallStartEvent(tool_call_id=call, tool_call_name=name)
                yield ToolCallEndEvent(tool_call_id=call)
            outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=["c", "front"])
            yield finished(run_input).model_copy(update={"outcome": outcome})
            return
        yield finished(run_input)

    outcome = last(play([Answers], agent)).outcome
    assert isinstance(outcome, RunFinishedSuccessOutcome)
    assert outcome.pending_tool_call_ids == ["front"]


def test_inner_layers_start_afresh_for_each_pass_and_end_each_once() -> None:
    trace: list[Any] = []

    class Inner(Middleware):
        def setup(self, ctx: RunContext) -> None:
            trace.append(("setup", ctx.attempt))

        def on_end(self, ctx: RunContext, end: Any) -> None:
            trace.append((end.kind, ctx.attempt))

    agent, _ = calls_then_says()
    play([Answers, Inner], agent)
    assert trace == [("setup", 1), ("finish", 1), ("setup", 2), ("finish", 2)]


def test_rounds_are_bounded() -> None:
    agent, inputs = calls_then_says(rounds=99)
    played = play([Answers], agent)
    assert played.error[0] == "middleware-contract"
    assert "continued the run more than 10 times" in str(played.result.error)
    assert len(inputs) == 11


def test_an_interrupt_ends_the_run_and_nothing_goes_on() -> None:
    asked: list[int] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        asked.append(1)
        yield started(run_input)
        yield ToolCallStartEvent(tool_call_id="c", tool_call_name="mine")
        yield ToolCallEndEvent(tool_call_id="c")
        outcome = RunFinishedInterruptOutcome(interrupts=[Interrupt(id="i", reason="ask")])
        yield finished(run_input).model_copy(update={"outcome": outcome})

    played = play([Answers], agent)
    assert played.result.outcome == "interrupt"
    assert asked == [1]


def test_outer_layers_see_one_run_too() -> None:
    seen: list[str] = []

    class Outer(Middleware):
        @on(RunFinishedEvent, ToolCallResultEvent)
        def see(self, ctx: RunContext, event: BaseEvent) -> None:
            seen.append(event.type.value)

    agent, _ = calls_then_says(rounds=2)
    play([Outer, Answers], agent)
    assert seen == ["TOOL_CALL_RESULT", "TOOL_CALL_RESULT", "RUN_FINISHED"]


def test_a_failing_second_pass_is_the_failure_of_the_run() -> None:
    first: list[int] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        if first:
            raise ConnectionError("lost")
        first.append(1)
        yield ToolCallStartEvent(tool_call_id="c", tool_call_name="mine")
        yield ToolCallEndEvent(tool_call_id="c")
        yield finished(run_input)

    played = play([Answers], agent)
    assert played.error[0] == "agent-failed"
    assert played.types.count("RUN_STARTED") == 1


@pytest.mark.parametrize(
    ("may_continue", "early", "said"),
    [(False, False, "set may_continue = True"), (True, True, "that it has not begun")],
)
def test_continuing_without_leave_or_too_early_is_refused(
    may_continue: bool,  # noqa: FBT001
    early: bool,  # noqa: FBT001
    said: str,
) -> None:
    @middleware
    async def goes_on(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        if not early:
            async for event in call_next(run_input):
                if event.type.value != "RUN_FINISHED":
                    yield event
        async for event in call_next(run_input, continues=True):
            yield event

    goes_on.may_continue = may_continue
    agent, _ = calls_then_says()
    assert said in str(play([goes_on], agent).result.error)


def test_a_result_of_the_agents_own_is_carried_on_once_and_activities_are_not() -> None:
    inputs: list[RunAgentInput] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        inputs.append(run_input)
        yield started(run_input)
        if len(inputs) == 1:
            for call in ("own", "c"):
                name = "backend" if call == "own" else "mine"
                yield ToolCallStartEvent(tool_call_id=call, tool_call_name=name)
                yield ToolCallEndEvent(tool_call_id=call)
            yield ToolCallResultEvent(message_id="r", tool_call_id="own", content="1")
            yield ActivitySnapshotEvent(message_id="a", activity_type="x", content={})
        yield finished(run_input)

    play([Answers], agent)
    assert [message.role for message in inputs[1].messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
