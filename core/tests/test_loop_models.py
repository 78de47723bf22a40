"""What a model's stream may be, and what the loop makes of one that is odd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest
from ag_ui.core import (
    BaseEvent,
    RunErrorEvent,
    TextMessageChunkEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from pydantic import BaseModel

from interpose import (
    CallModel,
    CallStep,
    CallTool,
    Host,
    InterruptDefinition,
    InvalidStream,
    IterationInfo,
    LifespanContext,
    Middleware,
    MiddlewareError,
    ModelContext,
    ModelFactory,
    ModelRequest,
    ModelUnavailable,
    RunContext,
    RunResult,
    ToolCall,
    ToolDecision,
    ToolResult,
    UsageError,
)
from interpose.agui import violations
from interpose.loop import (
    LoopAgent,
    LoopState,
    ScriptedModel,
    ToolContext,
    max_iterations,
    tool,
)


class Plays:
    """A model that gives these events in its first call, and a text in each later one."""

    def __init__(self, *events: Any) -> None:
        self.events = events
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[Any]:
        """Play them."""
        self.requests.append(request)
        if len(self.requests) > 1:
            yield TextMessageChunkEvent(message_id="done", delta="Done.", role="assistant")
            return
        for event in self.events:
            yield event


def run(
    model: Any,
    tools: Sequence[Callable[..., Any]] = (),
    layers: Sequence[type[Middleware]] = (),
) -> tuple[RunResult, list[BaseEvent]]:
    """Run once; every stream has to be valid."""

    async def main() -> tuple[RunResult, list[BaseEvent]]:
        async with Host(layers, agent=LoopAgent(model, tools), strict=True) as host:
            going = host.run("Hello?")
            events = [event async for event in going]
            assert list(violations(events)) == []
            return await going, events

    return asyncio.run(main())


def called(ident: str, args: str, parent: str | None = None) -> list[BaseEvent]:
    """Return a whole call."""
    return [
        ToolCallStartEvent(tool_call_id=ident, tool_call_name="look", parent_message_id=parent),
        ToolCallArgsEvent(tool_call_id=ident, delta=args),
        ToolCallEndEvent(tool_call_id=ident),
    ]


def looking() -> tuple[list[int], Callable[..., Any]]:
    """Return a tool, and what it was called with."""
    seen: list[int] = []

    def look(x: int) -> str:
        """Look."""
        seen.append(x)
        return f"saw {x}"

    return seen, look


def test_two_calls_of_one_id_in_one_answer_are_two_calls() -> None:
    seen, look = looking()
    model = Plays(*called("c1", '{"x": 1}'), *called("c1", '{"x": 2}'))
    result, _ = run(model, [look])
    assert sorted(seen) == [1, 2]
    told = [m for m in model.requests[1].messages if m.role == "tool"]
    assert [message.content for message in told] == ["saw 1", "saw 2"]
    assert len({message.tool_call_id for message in told}) == 2
    assert result.text == "Done."


def test_calls_without_a_parent_are_of_one_message_and_can_be_approved() -> None:
    seen, look = looking()
    asking = tool(look, approval=True)

    async def main() -> RunResult:
        model = Plays(*called("c1", '{"x": 1}'), *called("c2", '{"x": 2}'))
        async with Host(agent=LoopAgent(model, [asking])) as host:
            first = await host.run("Look.")
            [message] = [m for m in first.messages if m.role == "assistant"]
            assert len(message.tool_calls or ()) == 2
            answers = {question.id: True for question in first.interrupts}
            return await host.run(first.messages, thread_id=first.thread_id, resume=answers)

    assert asyncio.run(main()).text == "Done."
    assert sorted(seen) == [1, 2]


def test_layers_around_a_model_call_see_whole_events_of_a_model_that_sends_chunks() -> None:
    types: list[str] = []

    class Looks(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel, /
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(request):
                types.append(event.type.value)
                yield event

    result, _ = run(Plays(TextMessageChunkEvent(message_id="m", delta="Hi")), layers=[Looks])
    assert types == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert result.text == "Hi"


def test_a_layer_may_answer_for_a_step_with_chunks() -> None:
    class Answers(Middleware):
        async def around_step(
            self, ctx: RunContext, call_next: CallStep, /
        ) -> AsyncIterator[BaseEvent]:
            yield TextMessageChunkEvent(message_id="m", delta="Mine", role="assistant")

    result, _ = run(Plays(), layers=[Answers])
    assert (result.outcome, result.text) == ("success", "Mine")


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (("text",), "the model 'model' yielded a str"),
        ((None,), "the model 'model' yielded None"),
        ((), "the model gave nothing"),
        (called("c1", '{"x": 1}')[:2], "ended in the middle of a tool call"),
        ((RunErrorEvent(message="out of order", code="broken"),), "out of order"),
    ],
    ids=["str", "None", "nothing", "cut off", "error"],
)
def test_a_stream_that_is_none_fails_the_run_and_says_why(events: Any, said: str) -> None:
    seen, look = looking()
    result, sent = run(Plays(*events), [look])
    assert result.outcome == "error"
    assert said in str(result.error)
    assert seen == []
    if said == "out of order":
        assert getattr(sent[-1], "code", None) == "broken"


def test_a_call_cut_off_may_be_tried_again() -> None:
    result, _ = run(Plays(*called("c1", '{"x": 1}')[:2]))
    assert isinstance(result.error, ModelUnavailable)


def test_a_stream_that_is_no_generator_is_told() -> None:
    class Returns:
        async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> object:
            return "Hello"

    result, _ = run(Returns())
    assert "the model 'model' gave a coroutine, and no stream" in str(result.error)


def test_chunks_of_calls_need_no_end() -> None:
    seen, look = looking()
    chunk = ToolCallChunkEvent(tool_call_id="c1", tool_call_name="look", delta='{"x": 3}')
    assert run(Plays(chunk), [look])[0].text == "Done."
    assert seen == [3]


def test_arguments_that_a_layer_changes_in_place_reach_nobody() -> None:
    seen, look = looking()

    class Deciding(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall, /) -> ToolDecision | None:
            call.args["x"] = 666  # type: ignore[index]
            return None

    class Around(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool, /
        ) -> ToolResult:
            call.args["x"] = 666  # type: ignore[index]
            return await call_next(call)

    for layer, said in (
        (Deciding, "layer 'deciding' changed the arguments of a call in place"),
        (Around, "layer 'around' called call_next with another call"),
    ):
        result, _ = run(Plays(*called("c1", '{"x": 1}')), [look], [layer])
        assert isinstance(result.error, MiddlewareError)
        assert said in str(result.error)
    assert seen == []


class Trip(BaseModel):
    """What a tool asks about."""

    city: str


WHERE = InterruptDefinition("where", payload=Trip, response=str)


@pytest.mark.parametrize(
    ("status", "told"), [("resolved", "to Oslo"), ("cancelled", "Nobody answered the question")]
)
def test_a_tool_asks_people_and_has_their_answer_when_it_is_called_again(
    status: str, told: str
) -> None:
    from ag_ui.core import ResumeEntry

    began: list[str] = []

    def book(city: str, ctx: ToolContext) -> str:
        """Book a trip."""
        began.append(city)
        return f"to {ctx.ask(WHERE, 'city', f'Really {city}?', Trip(city=city))}"

    async def main() -> RunResult:
        model = ScriptedModel({"calls": [{"name": "book", "args": {"city": "Rome"}}]}, "Done.")
        async with Host(agent=LoopAgent(model, [book])) as host:
            first = await host.run("Book.")
            [question] = first.interrupts
            assert question.message == "Really Rome?"
            payload = "Oslo" if status == "resolved" else None
            entry = ResumeEntry.model_validate(
                {"interruptId": question.id, "status": status, "payload": payload}
            )
            return await host.run(first.messages, thread_id=first.thread_id, resume=[entry])

    result = asyncio.run(main())
    [answer] = [str(message.content) for message in result.messages if message.role == "tool"]
    assert told in answer
    assert began == ["Rome", "Rome"]
    assert result.text == "Done."


def test_two_calls_of_one_tool_may_ask_the_same_and_each_has_its_own_answer() -> None:
    def book(city: str, ctx: ToolContext) -> str:
        """Book a trip."""
        return f"{city}: {ctx.ask(WHERE, 'city', f'Really {city}?', Trip(city=city))}"

    async def main() -> RunResult:
        calls = [{"name": "book", "args": {"city": city}} for city in ("Rome", "Bonn")]
        model = ScriptedModel({"calls": calls}, "Done.")
        async with Host(agent=LoopAgent(model, [book])) as host:
            first = await host.run("Book.")
            answers = {each.id: f"answer to {each.message}" for each in first.interrupts}
            return await host.run(first.messages, thread_id=first.thread_id, resume=answers)

    told = [str(message.content) for message in asyncio.run(main()).messages]
    assert told[2:4] == ["Rome: answer to Really Rome?", "Bonn: answer to Really Bonn?"]


def test_a_strategy_that_could_not_stop_the_loop_is_refused() -> None:
    async def later(state: LoopState) -> bool:
        return False

    with pytest.raises(UsageError, match="'later' is `async def`"):
        LoopAgent(until=cast("Any", later))
    with pytest.raises(UsageError, match="max_iterations was given without its numbers"):
        LoopAgent(until=cast("Any", max_iterations))


class Odd(ModelFactory):
    """Makes models that yield what is no event."""

    def __call__(self, settings: Any, ctx: LifespanContext, /) -> Any:
        """Return one."""
        return Plays("text")


def test_what_a_layers_own_model_call_gets_is_checked_too() -> None:
    class Asks(Middleware):
        async def on_iteration(self, ctx: RunContext, info: IterationInfo, /) -> None:
            try:
                await ctx.model("odd").complete("Hello?")
            except InvalidStream as error:
                said.append(error.message)

    said: list[str] = []

    async def main() -> None:
        overrides = {"models": {"odd": {"use": f"{__name__}:Odd"}}}
        async with Host([Asks], agent=LoopAgent(ScriptedModel("Hi")), overrides=overrides) as host:
            await host.run("Hello")

    asyncio.run(main())
    assert said == ["the model 'odd' yielded a str, and no event of ag_ui.core"]
