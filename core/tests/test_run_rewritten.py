"""What a layer yields by itself can be passed through the layers that rewrite history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunAgentInput,
    TextMessageChunkEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from playing import finished, play, say, started

from interpose import CallRun, Covers, Middleware, PatternTransform, RunContext, on


class Masks(PatternTransform):
    rewrites_history = True
    covers = Covers.ALL
    patterns = ("secret",)
    replacement = "***"


class Answers(Middleware):
    """Answers a call, and goes on, with what the rewriters make of its answer."""

    may_continue = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            yield event
        result = ToolCallResultEvent(message_id="r", tool_call_id="c", content="a secret")
        for event in await ctx.rewrite(result):
            yield event
        async for event in call_next(run_input, continues=True):
            yield event


class Watches(Middleware):
    """Stands further out, and must see an event once."""

    @on(ToolCallResultEvent)
    def result(self, ctx: RunContext, event: ToolCallResultEvent) -> None:
        seen.append(event.content)


seen: list[Any] = []


@pytest.mark.parametrize("strict", [True, False])
def test_the_agent_and_the_consumer_have_the_rewritten_result(*, strict: bool) -> None:
    seen.clear()
    inputs: list[RunAgentInput] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        inputs.append(run_input)
        yield started(run_input)
        if len(inputs) == 1:
            yield ToolCallStartEvent(tool_call_id="c", tool_call_name="mine")
            yield ToolCallEndEvent(tool_call_id="c")
        else:
            for event in say("done"):
                yield event
        yield finished(run_input)

    played = play([Watches, Answers, Masks], agent, strict=strict)

    [result] = [event for event in played.events if isinstance(event, ToolCallResultEvent)]
    assert result.content == "a ***"
    assert seen == ["a ***"]
    assert inputs[1].messages[-1].content == "a ***"
    assert "secret" not in str(played.events)


def test_a_rewriter_that_fails_fails_the_run_and_nothing_of_the_event_leaves() -> None:
    class Fails(Middleware):
        rewrites_history = True

        @on(CustomEvent)
        def custom(self, ctx: RunContext, event: CustomEvent) -> CustomEvent:
            raise ValueError("no")

    class Sends(Middleware):
        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(run_input):
                for out in await ctx.rewrite(CustomEvent(name="n", value="secret")):
                    yield out
                yield event

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield finished(run_input)

    played = play([Sends, Fails], agent)
    assert played.types[-1] == "RUN_ERROR"
    assert "secret" not in str(played.events)


def test_without_rewriters_an_event_stays_as_it_is_and_chunks_are_refused() -> None:
    event = CustomEvent(name="n", value=1)
    found: list[Any] = []

    class Tries(Middleware):
        async def setup(self, ctx: RunContext) -> None:
            found.append(await ctx.rewrite(event))
            await ctx.rewrite(TextMessageChunkEvent(message_id="m", delta="x"))

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield finished(run_input)

    played = play([Tries], agent)
    [[same]] = found
    assert same is event
    assert played.error[0] == "middleware-contract"
