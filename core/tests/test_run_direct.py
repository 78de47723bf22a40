"""Runs that no layer wraps are played in one generator, and do what nested streams do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

from interpose import EndInfo, Host, Layer, Middleware, RunContext, RunResult, Trace, on

Agent = Callable[[RunAgentInput], AsyncGenerator[BaseEvent, None]]
FORMS = pytest.mark.parametrize("traced", [False, True], ids=["direct", "nested"])


def agent_of(*middle: BaseEvent | Exception, after: Callable[[], None] | None = None) -> Agent:
    async def agent(run_input: RunAgentInput) -> AsyncGenerator[BaseEvent, None]:
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        for event in middle:
            if isinstance(event, Exception):
                raise event
            yield event
        if after is not None:
            after()
        yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)

    return agent


def result_of(agent: Agent, *layers: type[Middleware], traced: bool = False) -> RunResult:
    async def main() -> RunResult:
        async with Host([Layer(layer) for layer in layers], agent=agent) as host:
            return await host.run("hi", trace=Trace() if traced else None)

    return asyncio.run(main())


def text(*deltas: str, message: str = "m") -> Sequence[BaseEvent]:
    return [
        TextMessageStartEvent(message_id=message, role="assistant"),
        *(TextMessageContentEvent(message_id=message, delta=delta) for delta in deltas),
        TextMessageEndEvent(message_id=message),
    ]


@FORMS
def test_a_message_without_a_text_stays_what_it_is(traced: bool) -> None:  # noqa: FBT001
    agent = agent_of(
        ToolCallStartEvent(tool_call_id="c", tool_call_name="f", parent_message_id="m"),
        ToolCallArgsEvent(tool_call_id="c", delta='{"a":'),
        ToolCallArgsEvent(tool_call_id="c", delta="1}"),
        ToolCallEndEvent(tool_call_id="c"),
        *text(),
    )
    result = result_of(agent, traced=traced)
    message: Any = result.messages[-1]
    assert message.content is None
    assert message.tool_calls[0].function.arguments == '{"a":1}'


@FORMS
def test_deltas_are_put_together_whatever_comes_between_them(traced: bool) -> None:  # noqa: FBT001
    agent = agent_of(
        TextMessageStartEvent(message_id="one", role="assistant"),
        TextMessageContentEvent(message_id="one", delta="a"),
        TextMessageContentEvent(message_id="one", delta="b"),
        TextMessageStartEvent(message_id="two", role="assistant"),
        TextMessageContentEvent(message_id="two", delta="x"),
        TextMessageContentEvent(message_id="one", delta="ü"),
        CustomEvent(name="n", value=1),
        TextMessageContentEvent(message_id="two", delta="y"),
        TextMessageContentEvent(message_id="one", delta="d"),
        TextMessageEndEvent(message_id="one"),
        TextMessageEndEvent(message_id="two"),
    )
    result = result_of(agent, traced=traced)
    assert [message.content for message in result.messages[1:]] == ["abüd", "xy"]


@FORMS
def test_the_index_counts_all_events_of_the_agent(traced: bool) -> None:  # noqa: FBT001
    seen: list[tuple[str, int]] = []

    class Index(Middleware):
        @on(CustomEvent)
        def custom(self, ctx: RunContext, event: CustomEvent) -> None:
            seen.append(("custom", ctx.event_index))

        @on(RunErrorEvent)
        def failed(self, ctx: RunContext, event: RunErrorEvent) -> None:
            seen.append(("failed", ctx.event_index))

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            seen.append(("end", ctx.event_index))

    many = text(*"0123456789")
    agent = agent_of(*many, CustomEvent(name="n", value=1), *many, ValueError("lost"))
    result_of(agent, Index, traced=traced)
    assert seen == [("custom", 13), ("failed", 26), ("end", 26)]


@FORMS
def test_an_agent_is_closed_when_what_it_sends_is_refused(traced: bool) -> None:  # noqa: FBT001
    went_on: list[str] = []
    agent = agent_of(
        TextMessageContentEvent(message_id="of nothing", delta="x"),
        after=lambda: went_on.append("after the refusal"),
    )
    result = result_of(agent, traced=traced)
    assert result.outcome == "error"
    assert went_on == []


@FORMS
def test_what_a_consumer_throws_is_not_the_agents_failure(traced: bool) -> None:  # noqa: FBT001
    ends: list[str] = []

    class Ends(Middleware):
        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            ends.append(end.kind)

    async def main() -> None:
        async with Host([Ends], agent=agent_of(*text("a", "b", "c"))) as host:
            for number in (1, 3):
                stream: Any = aiter(host.run("hi", trace=Trace() if traced else None))
                for _ in range(number):
                    await anext(stream)
                with pytest.raises(KeyError, match="mine"):
                    await stream.athrow(KeyError("mine"))

    asyncio.run(main())
    assert ends == ["error", "error"]


def test_nothing_is_left_open_when_a_consumer_goes_between_two_events_made_of_one() -> None:
    begun: list[Any] = []

    class Twice(Middleware):
        @on(CustomEvent)
        def custom(self, ctx: RunContext, event: CustomEvent) -> list[BaseEvent]:
            return [event, event.model_copy()]

    async def main() -> list[str]:
        before = sys.get_asyncgen_hooks()
        assert before.firstiter is not None

        def first(generator: Any) -> None:
            begun.append(generator)
            before.firstiter(generator)  # type: ignore[misc]

        layers = [Layer(Twice, id="outer"), Layer(Twice, id="inner")]
        async with Host(layers, agent=agent_of(CustomEvent(name="n", value=1))) as host:
            sys.set_asyncgen_hooks(firstiter=first)
            try:
                async with host.run("hi") as run:
                    stream = aiter(run)
                    for _ in range(3):
                        await anext(stream)
            finally:
                sys.set_asyncgen_hooks(*before)
            return [each.ag_code.co_qualname for each in begun if each.ag_frame is not None]

    assert asyncio.run(main()) == []
