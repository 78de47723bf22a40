"""``call_next`` of a loop's around hooks: how often, with what, and whose failure it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, TypeAlias

import pytest
from ag_ui.core import BaseEvent
from looping import Spy, calls, host_of, loop, results
from playing import Played
from sequences import Sequence, recorder
from tooling import DrivenClock

from interpose import (
    CallTool,
    EndInfo,
    Layer,
    Middleware,
    ModelContext,
    ModelRequest,
    RunContext,
    ToolCall,
    ToolCallInfo,
    ToolResult,
    Transient,
)
from interpose.loop import LoopAgent, tool

Again: TypeAlias = Callable[[], AsyncIterator[BaseEvent]]
Body: TypeAlias = Callable[[RunContext, Again], AsyncIterator[BaseEvent]]
STREAMS: Final = ("around_step", "around_model_call")
each_stream = pytest.mark.parametrize("hook", STREAMS)


@tool
async def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


def around(hook: str, body: Body, **attributes: Any) -> type[Middleware]:
    """Return a layer whose hook is ``body``, which calls the inner part without arguments."""

    if hook == "around_step":

        def method(self: Any, ctx: RunContext, call_next: Any) -> AsyncIterator[BaseEvent]:
            return body(ctx, call_next)

    else:

        def method(  # type: ignore[misc]
            self: Any, ctx: RunContext, request: ModelRequest, call_next: Any
        ) -> AsyncIterator[BaseEvent]:
            return body(ctx, lambda: call_next(request))

    return type("Around", (Middleware,), {hook: method, **attributes})


def calling(
    body: Callable[[RunContext, ToolCall, CallTool], Coroutine[Any, Any, Any]], **attributes: Any
) -> type[Middleware]:
    """Return a layer around tool calls."""

    async def around_tool_call(
        self: Any, ctx: RunContext, call: ToolCall, call_next: CallTool
    ) -> Any:
        return await body(ctx, call, call_next)

    return type("Around", (Middleware,), {"around_tool_call": around_tool_call, **attributes})


def error_of(played: Played) -> tuple[str | None, str]:
    """Return the code that the consumer saw, and the text for the operator."""
    return played.error[0], str(played.result.error)


# -- how often ----------------------------------------------------------------------------------


@each_stream
def test_a_second_call_is_refused_and_names_the_layer_and_its_hook(hook: str) -> None:
    async def twice(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        async for event in again():
            yield event
        async for event in again():
            yield event

    model = Spy("Hello", "never")
    code, text = error_of(loop([around(hook, twice)], model))

    assert code == "middleware-contract"
    assert f"'around' called call_next of {hook} a second time" in text
    assert len(model.requests) == 1


@each_stream
def test_calling_counts_also_when_nothing_is_taken(hook: str) -> None:
    async def twice(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        again()
        async for event in again():
            yield event

    model = Spy("never")

    assert error_of(loop([around(hook, twice)], model))[0] == "middleware-contract"
    assert model.requests == []


def test_a_second_call_of_a_tool_is_refused_and_executes_nothing_twice() -> None:
    ran: list[str] = []

    @tool
    async def act() -> str:
        ran.append("act")
        return "done"

    async def twice(ctx: RunContext, call: ToolCall, call_next: CallTool) -> ToolResult:
        await call_next(call)
        return await call_next(call)

    code, text = error_of(loop([calling(twice)], Spy(calls("act"), "never"), [act]))

    assert code == "middleware-contract"
    assert "'around' called call_next of around_tool_call a second time" in text
    assert ran == ["act"]


def test_a_model_call_is_not_repeated_after_output() -> None:
    async def again_after_output(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        async for event in again():
            yield event
            break
        async for event in again():
            yield event

    layer = around("around_model_call", again_after_output, may_repeat=True)
    model = Spy("Hello", "never")

    assert error_of(loop([layer], model))[0] == "repeat-after-output"
    assert len(model.requests) == 1


def test_a_step_may_be_repeated_after_output_and_the_stream_is_valid() -> None:
    async def two_steps(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        for _ in range(2):
            async for event in again():
                yield event

    played = loop([around("around_step", two_steps, may_repeat=True)], Spy("One", "Two"))

    assert played.text == "OneTwo"
    assert [message.content for message in played.result.messages] == ["hi", "One", "Two"]


@each_stream
def test_what_is_called_after_the_hook_has_ended_is_refused(hook: str) -> None:
    kept: list[Again] = []
    said: list[str] = []

    async def keeps(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        kept.append(again)
        async for event in again():
            yield event

    class Late(Middleware):
        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            with pytest.raises(Exception, match=f"after its {hook} had ended") as caught:
                kept[0]()
            said.append(type(caught.value).__name__)

    loop([around(hook, keeps), Late], Spy("Hello"))

    assert said == ["MiddlewareError"]


# -- with what ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hook", "given", "said"),
    [
        ("around_step", ("x",), "takes no argument; layer 'around' gave it str"),
        ("around_model_call", (), "takes a ModelRequest; layer 'around' gave it none"),
        ("around_model_call", ("x",), "takes a ModelRequest; layer 'around' gave it str"),
    ],
)
def test_a_wrong_argument_is_refused(hook: str, given: tuple[Any, ...], said: str) -> None:
    def method(self: Any, ctx: RunContext, *args: Any) -> AsyncIterator[BaseEvent]:
        found: AsyncIterator[BaseEvent] = args[-1](*given)
        return found

    layer = type("Around", (Middleware,), {hook: _same_signature(hook, method)})
    model = Spy("never")
    code, text = error_of(loop([layer], model))

    assert (code, said in text) == ("middleware-contract", True), text
    assert model.requests == []


def _same_signature(hook: str, method: Any) -> Any:
    if hook == "around_step":

        def step(self: Any, ctx: RunContext, call_next: Any) -> Any:
            return method(self, ctx, call_next)

        return step

    def model(self: Any, ctx: RunContext, request: Any, call_next: Any) -> Any:
        return method(self, ctx, request, call_next)

    return model


def test_another_call_is_refused() -> None:
    async def other(ctx: RunContext, call: ToolCall, call_next: CallTool) -> ToolResult:
        return await call_next(ToolCall(call.id, call.name, {"q": "other"}, call.effect))

    code, text = error_of(loop([calling(other)], Spy(calls("look"), "never"), [look]))

    assert code == "middleware-contract"
    assert "'around' called call_next with another call" in text


@pytest.mark.parametrize(
    "how", ["another request", "another event", "a dropped event", "no rest", "one more"]
)
def test_a_layer_that_only_observes_changes_no_model_call(how: str) -> None:
    class Observes(Middleware):
        observes_only = True

        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: Any
        ) -> AsyncIterator[BaseEvent]:
            if how == "another request":
                request = request.replace(system_prompts=("more",))
            async for event in call_next(request):
                is_last = type(event).__name__ == "ModelFinished"
                if how == "another event":
                    yield event.model_copy()
                elif how == "no rest" and is_last:
                    return
                elif how != "a dropped event" or event.type.value != "TEXT_MESSAGE_CONTENT":
                    yield event
                if how == "one more" and is_last:
                    yield event

    code, text = error_of(loop([Observes], Spy("Hello")))

    assert code == "middleware-contract"
    assert "observes only" in text


def test_a_layer_that_only_observes_changes_no_result() -> None:
    async def changes(ctx: RunContext, call: ToolCall, call_next: CallTool) -> ToolResult:
        await call_next(call)
        return ToolResult("another")

    layer = calling(changes, observes_only=True)
    code, text = error_of(loop([layer], Spy(calls("look"), "never"), [look]))

    assert code == "middleware-contract"
    assert "changed the result" in text


@each_stream
def test_a_layer_that_only_observes_may_pass_everything_on(hook: str) -> None:
    async def passes(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        async for event in again():
            yield event

    layer = around(hook, passes, observes_only=True)

    assert loop([layer], Spy(calls("look"), "Done"), [look]).text == "Done"


async def _coroutine(*args: Any) -> None: ...


@pytest.mark.parametrize("answer", [None, [], "text", "a coroutine"])
@each_stream
def test_what_is_no_stream_is_refused(hook: str, answer: Any) -> None:
    def method(ctx: RunContext, again: Again) -> Any:
        return _coroutine() if answer == "a coroutine" else answer

    code, text = error_of(loop([around(hook, method)], Spy("never")))

    assert code == "middleware-contract"
    assert f"{hook} of layer 'around' returned" in text


@pytest.mark.parametrize("given", [None, "text", {"type": "CUSTOM"}, []])
@each_stream
def test_what_is_no_event_is_refused(hook: str, given: Any) -> None:
    async def yields(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        async for event in again():
            yield event
            yield given

    code, text = error_of(loop([around(hook, yields)], Spy("Hello")))

    assert code == "middleware-contract"
    assert f"{hook} of layer 'around' yielded a {type(given).__name__}" in text


@each_stream
def test_a_hook_that_gives_nothing_and_does_not_go_on_is_refused(hook: str) -> None:
    async def nothing(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        return
        yield

    code, text = error_of(loop([around(hook, nothing)], Spy("never")))

    assert code == "middleware-contract"
    assert "neither went on nor gave an outcome" in text


@pytest.mark.parametrize("given", [None, "text", {"content": "text"}])
def test_what_is_no_result_is_refused(given: Any) -> None:
    async def gives(ctx: RunContext, call: ToolCall, call_next: CallTool) -> Any:
        return given

    code, text = error_of(loop([calling(gives)], Spy(calls("look"), "never"), [look]))

    assert code == "middleware-contract"
    assert f"returned a {type(given).__name__}" in text


# -- trying again -------------------------------------------------------------------------------


async def retrying(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
    """Hold the events of a model call back until one has succeeded."""
    for attempt in range(3):
        try:
            events = [event async for event in again()]
        except Transient:
            if attempt == 2:
                raise
        else:
            break
    for event in events:
        yield event


FAILS_ONCE: Final = {
    "text": "Well, no",
    "error": "unavailable",
    "error_after": 1,
    "retry": {"text": "Hello"},
}


def test_a_model_call_is_tried_again_and_the_consumer_sees_only_the_success() -> None:
    model = Spy(FAILS_ONCE)
    played = loop([around("around_model_call", retrying, may_repeat=True)], model)

    assert (played.text, played.result.outcome) == ("Hello", "success")
    assert len(model.requests) == 2
    assert model.requests[0] == model.requests[1]
    assert played.types.count("TEXT_MESSAGE_START") == 1


def test_a_model_call_that_never_succeeds_fails_with_the_last_error() -> None:
    model = Spy({"text": "no", "error": "unavailable"})
    played = loop([around("around_model_call", retrying, may_repeat=True)], model)

    assert played.error[0] == "model-unavailable"
    assert len(model.requests) == 3


def test_a_tool_call_is_tried_again_and_has_one_result() -> None:
    ran: list[str] = []
    infos: list[ToolCallInfo] = []

    @tool(effect="idempotent")
    async def act() -> str:
        ran.append("act")
        if len(ran) == 1:
            raise ConnectionError
        return "done"

    class Hears(Middleware):
        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            infos.append(info)

    async def retry(ctx: RunContext, call: ToolCall, call_next: CallTool) -> ToolResult:
        try:
            return await call_next(call)
        except ConnectionError:
            return await call_next(call)

    layers = [calling(retry, may_repeat=True), Hears]
    played = loop(layers, Spy(calls("act"), "Done"), [act])

    assert ran == ["act", "act"]
    assert list(results(played).values()) == ["done"]
    assert [(info.ok, info.source) for info in infos] == [(True, "executed")]


# -- a layer that is taken out ------------------------------------------------------------------

SKIPPABLE: Final = (
    "on_config",
    "on_event",
    "around_step",
    "around_model_call",
    "on_should_continue",
    "on_before_tool_call",
    "around_tool_call",
    "on_interrupt_boundary",
)


@pytest.mark.parametrize("hook", SKIPPABLE)
def test_the_first_failure_takes_the_layer_out_and_the_run_goes_on(hook: str) -> None:
    def fail(ctx: RunContext, name: str) -> None:
        if name == hook:
            raise ValueError("a bug")

    ran: list[str] = []

    @tool
    async def act() -> str:
        ran.append("act")
        return "done"

    bad, good = Sequence(), Sequence()
    layers = [Layer(recorder(bad, "bad", fail), on_failure="skip"), recorder(good, "good")]
    model = Spy(calls("act"), "Done")
    played = loop(layers, model, [act])

    assert (played.result.outcome, played.result.text) == ("success", "Done")
    assert bad.names("bad").count(hook) == 1
    after = bad.names("bad")[bad.names("bad").index(hook) + 1 :]
    assert set(after) <= {"around_step", "around_run", "around_model_call", "on_finish", "on_end"}
    assert after[-2:] == ["on_finish", "on_end"], "its terminal hook still runs"
    assert good.names("good").count("around_model_call") == 4
    assert (len(model.requests), ran) == (2, ["act"]), "something was executed twice"


@pytest.mark.parametrize("place", ["before", "first event", "holding", "end"])
@each_stream
def test_what_is_wrapped_goes_on_from_where_it_was_when_its_layer_fails(
    hook: str, place: str
) -> None:
    async def breaks(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        if place == "before":
            raise ValueError("a bug")
        held = []
        async for event in again():
            if place == "holding":
                held.append(event)
                continue
            yield event
            if place == "first event":
                raise ValueError("a bug")
        raise ValueError("a bug")

    plain = loop([], Spy(calls("look"), "Done"), [look])
    model = Spy(calls("look"), "Done")
    played = loop([Layer(around(hook, breaks), on_failure="skip")], model, [look])

    assert played.types == plain.types, "something is missing, or came twice"
    assert played.text == "Done"
    assert len(model.requests) == 2


def test_a_retry_that_succeeded_counts_when_its_layer_fails_then() -> None:
    """What the first try gave, and how it failed, is nothing any more."""

    async def breaks(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        async for event in retrying(ctx, again):
            del event
            raise ValueError("a bug")
        yield  # type: ignore[misc]

    layer = Layer(around("around_model_call", breaks, may_repeat=True), on_failure="skip")
    played = loop([layer], Spy(FAILS_ONCE))

    assert (played.text, played.result.outcome) == ("Hello", "success")


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_tool_call_is_executed_once_when_its_layer_fails(place: str) -> None:
    ran: list[str] = []

    @tool
    async def act() -> str:
        ran.append("act")
        return "done"

    async def breaks(ctx: RunContext, call: ToolCall, call_next: CallTool) -> ToolResult:
        if place == "after":
            await call_next(call)
        raise ValueError("a bug")

    layer = Layer(calling(breaks), on_failure="skip")
    played = loop([layer], Spy(calls("act"), calls("act"), "Done"), [act])

    assert ran == ["act", "act"]
    assert list(results(played).values()) == ["done", "done"]


# -- failures that are somebody else's ----------------------------------------------------------


def test_a_failure_of_the_model_is_not_that_of_the_layers_it_passes(logged: list[str]) -> None:
    async def passes(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        async for event in again():
            yield event

    layers = [
        Layer(around(hook, passes), id=hook.replace("_", "-"), on_failure="skip")
        for hook in STREAMS
    ]
    played = loop(layers, Spy({"text": "no", "error": "quota"}))

    assert played.error[0] == "model-quota"
    assert not [line for line in logged if "is skipped" in line]


def test_a_failure_of_a_tool_is_not_that_of_the_layer_it_passes() -> None:
    seen: list[str] = []

    @tool
    async def act() -> str:
        raise OSError("no disk")

    async def passes(ctx: RunContext, call: ToolCall, call_next: CallTool) -> ToolResult:
        seen.append(call.id)
        return await call_next(call)

    layer = Layer(calling(passes), on_failure="skip")
    played = loop([layer], Spy(calls("act"), calls("act"), "Done"), [act])

    assert played.result.outcome == "success"
    assert len(seen) == 2, "the layer was taken out"


@each_stream
def test_an_error_that_a_layer_raises_in_place_of_the_models_is_the_layers(hook: str) -> None:
    async def wraps(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        try:
            async for event in again():
                yield event
        except Transient as error:
            raise ValueError("worse") from error

    played = loop([around(hook, wraps)], Spy({"text": "no", "error": "unavailable"}))

    assert played.error[0] == "middleware-failed"


# -- deadlines ----------------------------------------------------------------------------------


def driven(layers: list[Any], model: Any, tools: Any = (), *, most: int = 500) -> tuple[Any, float]:
    """Play a run on a driven clock, second by second; returns its result and how long it took."""

    async def main() -> tuple[Any, float]:
        clock = DrivenClock()
        agent = LoopAgent(model, tools, tool_timeout=None)
        async with host_of(layers, agent, clock=clock) as host:
            task = asyncio.ensure_future(host.run("hi"))
            for _ in range(most):
                for _ in range(30):
                    await asyncio.sleep(0)
                if task.done():
                    break
                clock.advance(1)
            return await asyncio.wait_for(task, 5), clock.now

    return asyncio.run(main())


class Slow:
    """A model that takes 100 s to answer."""

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        await ctx.sleep(100)
        async for event in Spy("Hello").stream(request, ctx):
            yield event


@each_stream
def test_a_deadline_counts_the_layers_own_time_for_each_event_and_not_the_models(hook: str) -> None:
    async def dawdles(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        async for event in again():
            await ctx.clock.sleep(4)
            yield event

    result, took = driven([Layer(around(hook, dawdles), deadline=5)], Slow())

    assert (result.outcome, result.text) == ("success", "Hello")
    assert took >= 100 + 3 * 4


@each_stream
def test_a_layer_that_takes_too_long_ends_the_run(hook: str) -> None:
    async def hangs(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        await ctx.clock.sleep(3600)
        async for event in again():
            yield event

    result, took = driven([Layer(around(hook, hangs), deadline=5)], Spy("never"))

    assert result.error.code == "deadline-exceeded"
    assert 5 <= took <= 6


def test_a_layer_that_takes_too_long_is_taken_out_if_it_may_be() -> None:
    async def hangs(ctx: RunContext, again: Again) -> AsyncIterator[BaseEvent]:
        await ctx.clock.sleep(3600)
        async for event in again():
            yield event

    layer = Layer(around("around_model_call", hangs), deadline=5, on_failure="skip")
    result, took = driven([layer], Spy("Hello"))

    assert (result.outcome, result.text) == ("success", "Hello")
    assert 5 <= took <= 6


def test_two_calls_of_one_layer_side_by_side_have_a_deadline_each() -> None:
    @tool
    async def act(seconds: int) -> str:
        await clock_sleep[0](seconds)
        return f"took {seconds}"

    clock_sleep: list[Any] = []

    async def dawdles(ctx: RunContext, call: ToolCall, call_next: CallTool) -> ToolResult:
        clock_sleep[:] = [ctx.clock.sleep]
        await ctx.clock.sleep(3)
        result = await call_next(call)
        await ctx.clock.sleep(1)
        return result

    model = Spy(calls(("act", {"seconds": 50}), ("act", {"seconds": 2})), "Done")
    result, took = driven([Layer(calling(dawdles), deadline=5)], model, [act])

    assert result.outcome == "success"
    assert 54 <= took <= 56, "they did not run side by side"


def test_only_the_call_that_took_too_long_loses_its_layer() -> None:
    executed: list[str] = []

    @tool
    async def act(q: str) -> str:
        executed.append(q)
        return q

    async def one_hangs(ctx: RunContext, call: ToolCall, call_next: CallTool) -> ToolResult:
        await ctx.clock.sleep(3600 if call.args["q"] == "slow" else 4)
        result = await call_next(call)
        return ToolResult(f"{result.content} by the layer")

    model = Spy(calls(("act", {"q": "slow"}), ("act", {"q": "quick"})), "Done")
    layer = Layer(calling(one_hangs), deadline=5, on_failure="skip")
    result, _ = driven([layer], model, [act])

    assert result.outcome == "success"
    assert model.told() == ["slow", "quick by the layer"]
    assert sorted(executed) == ["quick", "slow"]
