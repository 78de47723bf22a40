"""What users of other frameworks suffer from, by number: what is streamed, and what is true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    TextMessageContentEvent,
)
from looping import (
    Spy,
    answering,
    asking,
    calls,
    loop,
    results,
    seen,
    within,
    written,
)
from playing import say
from pydantic import BaseModel

from interpose import (
    DROP,
    Ability,
    CallModel,
    FinishInfo,
    Middleware,
    ModelFailed,
    ModelRequest,
    PatternTransform,
    Reject,
    Result,
    RunContext,
    ToolCall,
    ToolError,
    on,
)
from interpose.loop import LoopAgent, LoopTool, ToolContext, tool

SECRET = "s3cr3t"


class Mask(PatternTransform):
    patterns = (r"s3cr3t\d*",)
    replacement = "[gone]"
    rewrites_history = True


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


def recording(name: str, ran: list[str], **options: Any) -> LoopTool:
    """Return a tool that writes down that it ran."""

    def run(q: str = "x") -> str:
        ran.append(f"{name} {q}")
        return f"{name} did {q}"

    return tool(run, name=name, description=name, **options)


@pytest.mark.parametrize("driven", ["streamed", "awaited"])
def test_a1_a_guard_on_text_holds_whether_the_run_is_streamed_or_awaited(driven: str) -> None:
    """One way through the layers for both: the result is folded from what left them."""

    async def use(host: Any) -> Any:
        run = host.run(asking())
        return (await seen(run)).result if driven == "streamed" else await run

    result = within([Mask], LoopAgent(Spy("it is s3cr3t1")), use)

    assert result.text == "it is [gone]"
    assert SECRET not in str(result.messages)


class Judges(Middleware):
    """Asks a small model about each answer."""

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        answer = await ctx.model("small").complete("Is this safe?", purpose="guard")
        ctx.attributes["said"].append(answer.text)
        async for event in call_next(request):
            yield event


def test_a2_a_layers_own_model_call_reaches_no_consumer_and_no_layer() -> None:
    """Its text is in no event and no message, no hook sees it; its usage counts under its purpose."""
    log: list[str] = []
    infos: list[FinishInfo] = []
    said: list[str] = []

    class Watches(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            log.append(str(request.messages[-1].content))
            async for event in call_next(request):
                yield event

        def on_usage(self, ctx: RunContext, usage: Any) -> None:
            log.append(f"usage {usage.input_tokens}")

        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            infos.append(info)

    small = {"text": "perfectly safe", "usage": {"input_tokens": 7, "output_tokens": 0}}
    models = {"small": {"use": "scripted", "turns": [small]}}
    answer = {"text": "Hello", "usage": {"input_tokens": 1, "output_tokens": 0}}

    played = loop(
        [Watches, Judges, Watches2],
        Spy(answer),
        run={"attributes": {"said": said}},
        host={"overrides": {"models": models}},
    )

    assert said == ["perfectly safe"]
    assert played.text == "Hello"
    assert "perfectly safe" not in str(played.events) + str(played.result.messages)
    assert log == ["hi", "usage 1"]
    (info,) = infos
    assert info.loop is not None
    assert [each.input_tokens for each in info.loop.usage] == [1]
    assert [each.input_tokens for each in info.loop.other_usage["guard"]] == [7]
    assert [each.input_tokens for each in info.usage] == [8]  # of the whole run


class Watches2(Middleware):
    """Stands further in than who asks, and sees no more than the loop's own call."""

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        assert request.messages[-1].content == "hi"
        async for event in call_next(request):
            yield event


def test_a3_a_guard_that_holds_an_answer_back_shows_nothing_of_what_it_refuses() -> None:
    """The layer reads the whole answer first: not one token of a refused one has left."""

    class Blocks(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            held = [event async for event in call_next(request)]
            if SECRET in "".join(getattr(event, "delta", "") for event in held):
                raise Reject("blocked", "The answer was blocked.")
            for event in held:
                yield event

    played = loop([Blocks], Spy("it is s3cr3t1"))

    assert played.text == ""
    assert played.error == ("blocked", "The answer was blocked.")
    assert SECRET not in str(played.events)


def test_a4_tools_wait_for_every_guard_of_their_batch() -> None:
    """The guard of the second call refuses the run: the first one has not run either."""
    ran: list[str] = []

    class Guards(Middleware):
        async def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> None:
            await asyncio.sleep(0)
            if call.args["q"] == "b":
                raise Reject("blocked", "No.")

    turn = calls(("act", {"q": "a"}), ("act", {"q": "b"}))

    played = loop([Guards], Spy(turn, "done"), [recording("act", ran)])

    assert not ran
    assert played.error[0] == "blocked"


def test_a5_an_event_hook_is_called_without_anybody_streaming() -> None:
    """The run is only awaited: the hook sees each delta all the same."""
    deltas: list[str] = []

    class Watches(Middleware):
        @on(TextMessageContentEvent)
        def text(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            deltas.append(event.delta)

    async def use(host: Any) -> None:
        await host.run("hi")

    within([Watches], LoopAgent(Spy("one two")), use)

    assert deltas == ["one ", "two"]


def test_a6_one_short_circuit_serves_every_way_to_run() -> None:
    """A layer answers with events: streamed, awaited and with structured output it is the answer."""

    class Answers(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            for event in say('{"a": "cached"}'):
                yield event

    class Out(BaseModel):
        a: str

    async def use(host: Any) -> list[Any]:
        streamed = await seen(host.run("hi"))
        awaited = await host.run("hi")
        shaped = await host.run("hi", output=Out)
        return [streamed.text, awaited.text, shaped.output]

    found = within([Answers], LoopAgent(Spy("never")), use)

    assert found == ['{"a": "cached"}', '{"a": "cached"}', Out(a="cached")]


def test_a7_a_replaced_text_is_not_shown_beside_the_original() -> None:
    """What a layer puts in place of a message is in stream and messages alone, under one id."""

    class Replaces(Middleware):
        first = True

        @on(TextMessageContentEvent)
        def text(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
            if self.first:
                self.first = False
                return event.model_copy(update={"delta": "replaced"})
            return DROP

    played = loop([Replaces], Spy("one two three"))

    assert played.text == "replaced"
    assert [m.content for m in played.result.messages if m.role == "assistant"] == ["replaced"]


def test_a8_the_next_model_request_has_what_the_layer_made_of_the_last_answer() -> None:
    """Text, thinking, arguments, results and progress: masked in stream, request, messages and info."""
    ran: list[str] = []
    infos: list[FinishInfo] = []

    @tool
    async def login(ctx: ToolContext, password: str) -> str:
        """Log in."""
        ran.append(password)
        await ctx.progress(f"with {password}")
        return f"as {password}"

    class Ends(Middleware):
        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            infos.append(info)

    turn = {**calls(("login", {"password": "s3cr3t1"}), text="try s3cr3t1"), "thinking": "s3cr3t2"}
    model = Spy(turn, "was s3cr3t1")

    played = loop([Ends, Mask], model, [login])

    assert ran == ["s3cr3t1"]
    assert written(played)["call-1-1"] == {"password": "[gone]"}
    for place in (played.events, model.requests[1], played.result.messages, infos):
        assert SECRET not in str(place)
    assert "[gone]" in str(model.requests[1])


@pytest.mark.parametrize("native", [False, True])
def test_a8_structured_output_is_what_the_stream_says(native: bool) -> None:  # noqa: FBT001
    """The typed output, RUN_FINISHED's result, the CUSTOM event and the info agree, and are masked."""

    class Out(BaseModel):
        a: str

    infos: list[FinishInfo] = []

    class Ends(Middleware):
        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            infos.append(info)

    abilities = frozenset({Ability.OUTPUT_WITH_TOOLS} if native else ())

    played = loop([Ends, Mask], Spy('{"a": "s3cr3t1"}', abilities=abilities), run={"output": Out})

    assert played.result.output == Out(a="[gone]")
    assert played.result.result == {"a": "[gone]"}
    assert infos[0].result == {"a": "[gone]"}
    assert infos[0].loop is not None
    assert infos[0].loop.output == {"a": "[gone]"}
    assert SECRET not in str(played.events) + str(infos)


def test_a8_what_people_are_asked_is_masked_and_the_tool_runs_with_the_true_arguments() -> None:
    """An approval of a call with a secret: question and arguments are masked, and yes means the call."""
    ran: list[str] = []
    asks = recording("login", ran, approval=lambda args: f"Log in with {args['q']}?")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        assert SECRET not in str(first.events)
        assert first.result.interrupts[0].message == "Log in with [gone]?"
        second = await seen(host.run(answering(first, True)))
        assert second.result.text == "done"
        assert SECRET not in str(second.events)

    model = Spy(calls(("login", {"q": "s3cr3t1"})), "done")
    within([Mask], LoopAgent(model, [asks]), use)

    assert ran == ["login s3cr3t1"]
    assert model.told() == ["login did [gone]"]


def test_a8_an_error_result_is_masked_also_where_it_says_that_it_is_one() -> None:
    """Content and metadata of a failed call's result: neither has the secret."""

    @tool
    def fails(q: str) -> str:
        """Fail."""
        raise ToolError(f"not with {q}")

    model = Spy(calls(("fails", {"q": "s3cr3t1"})), "sorry")

    played = loop([Mask], model, [fails])

    assert results(played) == {"call-1-1": "not with [gone]"}
    assert SECRET not in str(played.events) + str(played.result.messages)
    assert model.told() == ["not with [gone]"]


@pytest.mark.parametrize("way", ["error", "cancel"])
def test_a8_what_is_held_when_a_model_call_is_cut_short_is_flushed_before_the_end(way: str) -> None:
    """A piece that could have become a secret is held; the run fails or is cancelled: it is not lost."""
    turn = {"text": "it is s3cr3 ", "error": "quota", "error_after": 3}

    class Stops(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            try:
                async for event in call_next(request):
                    yield event
            except ModelFailed:
                if way == "error":
                    raise
                ctx.abort("enough")

    played = loop([Stops, Mask], Spy({**turn, "text": "it is s3cr3"}))

    assert played.text == "it is s3cr3"
    assert played.types[-1] == ("RUN_ERROR" if way == "error" else "RUN_FINISHED")
    assert played.result.messages[-1].content == "it is s3cr3"


def test_a8_the_text_of_a_refusal_is_masked() -> None:
    """A tool refuses the run and quotes a secret: the consumer's RUN_ERROR does not."""

    @tool
    def act() -> str:
        """Act."""
        raise Reject("no", "not with s3cr3t1")

    played = loop([Mask], Spy(calls("act")), [act])

    assert played.error == ("no", "not with [gone]")


@pytest.mark.parametrize("way", ["finish", "interrupt"])
def test_a8_what_a_layer_ends_the_loop_with_is_masked(way: str) -> None:
    """ctx.finish and ctx.interrupt from a tool layer: their texts pass the layers inside the cut."""

    class Ends(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> None:
            if way == "finish":
                ctx.finish("it was s3cr3t1")
            ctx.interrupt(Interrupt(id="q", reason="question", message="is it s3cr3t1?"))

    played = loop([Ends, Mask], Spy(calls("look")), [look])

    assert SECRET not in str(played.events)
    assert "[gone]" in str(played.events)
