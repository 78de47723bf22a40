"""What users of other frameworks suffer from, by number: streaming, order, failures, people, layers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunFinishedEvent,
    TextMessageContentEvent,
    ToolCallStartEvent,
    UserMessage,
)
from looping import (
    CANCELLED,
    Spy,
    answering,
    asking,
    calls,
    loop,
    results,
    seen,
    user,
    within,
    written,
)

from interpose import (
    DROP,
    Ability,
    CallModel,
    CallTool,
    Deny,
    FinishInfo,
    Layer,
    Middleware,
    MiddlewareError,
    ModelFailed,
    ModelRequest,
    PatternTransform,
    Point,
    Reject,
    Result,
    RunContext,
    ToolCall,
    ToolCallInfo,
    ToolError,
    ToolPhaseInfo,
    ToolResult,
    TransformArgs,
    Transient,
    on,
)
from interpose.loop import LoopAgent, LoopTool, ToolContext, tool
from interpose.payloads import ToolDecision

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


# -- A: what is streamed, and what is true --------------------------------------------------------


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
    assert [each.input_tokens for each in info.usage] == [1]


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
            from playing import say

            for event in say('{"a": "cached"}'):
                yield event

    from pydantic import BaseModel

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
    from pydantic import BaseModel

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


# -- B: order -----------------------------------------------------------------------------------


def test_b9_who_has_to_see_the_final_arguments_is_asked_last() -> None:
    """An essential guard stands outside a layer that changes arguments: it decides on the changed ones."""
    asked: list[Any] = []
    ran: list[str] = []

    class Guards(Middleware):
        essential = (Point.TOOLS,)

        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> ToolDecision | None:
            asked.append(call.args["q"])
            return Deny("never") if call.args["q"] == "changed" else None

    class Changes(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> ToolDecision:
            return TransformArgs({"q": "changed"})

    model = Spy(calls(("act", {"q": "fine"})), "done")

    loop([Guards, Changes], model, [recording("act", ran)])

    assert asked == ["changed"]
    assert not ran
    assert model.told() == ["never"]


def test_b9_edited_arguments_pass_the_guards_again() -> None:
    """A person edits the arguments: the layers decide on those, and the edited call is not asked for again."""
    asked: list[Any] = []
    ran: list[str] = []

    class Guards(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> ToolDecision | None:
            asked.append(call.args["q"])
            return Deny("never that") if call.args["q"] == "bad" else None

    async def edited(q: str) -> Any:
        agent = LoopAgent(Spy(calls("act"), "done"), [recording("act", ran, approval=True)])

        async def use(host: Any) -> Any:
            first = await seen(host.run(asking()))
            said = {"approved": True, "editedArgs": {"q": q}}
            return await seen(host.run(answering(first, said)))

        return await asyncio.to_thread(within, [Guards], agent, use)

    good, bad = asyncio.run(edited("good")), asyncio.run(edited("bad"))

    assert ran == ["act good"]
    assert results(good) == {"call-1-1": "act did good"}
    assert results(bad) == {"call-1-1": "never that"}
    assert asked == ["x", "good", "x", "bad"]


@pytest.mark.parametrize("answers", [(True, False), (False, True), (CANCELLED, True)])
def test_b11_every_call_of_a_request_has_exactly_one_result(answers: Any) -> None:
    """After mixed answers, unknown and invalid calls: each call in each request is answered once."""
    ran: list[str] = []
    turn = calls(("ask", {"q": "a"}), "nothing", ("free", "{"), ("ask", {"q": "b"}), "free")
    model = Spy(turn, calls("free"), "done")
    tools = [recording("ask", ran, approval=True), recording("free", ran)]

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        await seen(host.run(answering(first, *answers)))

    within([], LoopAgent(model, tools), use)

    assert len(model.requests) == 3
    for request in model.requests[1:]:
        asked = [call.id for m in request.messages for call in getattr(m, "tool_calls", None) or ()]
        told = [m.tool_call_id for m in request.messages if m.role == "tool"]
        assert asked == told


# -- D: failures ----------------------------------------------------------------------------------


def test_d21_a_layer_that_fails_around_a_tool_ends_the_run_and_is_no_tool_error() -> None:
    """The policy's backend is down: the tool does not run, the model is not told, the run fails closed."""
    ran: list[str] = []

    class Policy(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            raise OSError("policy backend down")

    model = Spy(calls("act"), "done")

    played = loop([Policy], model, [recording("act", ran)])

    assert not ran
    assert len(model.requests) == 1
    assert isinstance(played.result.error, OSError)


def test_d21_a_layer_that_may_be_skipped_lets_the_call_run_once() -> None:
    """on_failure = "skip": before or after the tool ran, it runs exactly once and the run goes on."""
    ran: list[str] = []

    class Breaks(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            if call.args["q"] == "before":
                raise RuntimeError("before")
            await call_next(call)
            raise RuntimeError("after")

    for when in ("before", "after"):
        played = loop(
            [Layer(Breaks, on_failure="skip")],
            Spy(calls(("act", {"q": when})), "done"),
            [recording("act", ran)],
        )
        assert results(played) == {"call-1-1": f"act did {when}"}

    assert ran == ["act before", "act after"]


@pytest.mark.parametrize("point", ["around_step", "around_model_call", "on_before_tool_call"])
def test_d22_finishing_keeps_its_text_wherever_it_is_called(point: str) -> None:
    """ctx.finish(text): a success with this text as its last message, from any hook."""

    class Finishes(Middleware):
        async def around_step(self, ctx: RunContext, call_next: Any) -> Any:
            if point == "around_step":
                ctx.finish("finished")
            async for event in call_next():
                yield event

        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            if point == "around_model_call":
                ctx.finish("finished")
            async for event in call_next(request):
                yield event

        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> None:
            ctx.finish("finished")

    played = loop([Finishes], Spy(calls("look"), "done"), [look])

    assert played.result.outcome == "success"
    assert played.result.text == "finished"
    assert played.result.messages[-1].content == "finished"


@pytest.mark.parametrize("hook", ["around", "before", "after", "phase"])
def test_d23_what_a_hook_raises_beside_running_tools_is_not_lost(  # noqa: C901 - a hook each
    hook: str,
) -> None:
    """Tools side by side, a hook of one of them refuses the run: it ends so, and no tool is left running."""
    log: list[str] = []

    class Raises(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> None:
            if hook == "before" and call.name == "quick":
                raise Reject("stop", "Stop.")

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            if hook == "around" and call.name == "quick":
                raise Reject("stop", "Stop.")
            return await call_next(call)

        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            if hook == "after":
                raise Reject("stop", "Stop.")

        def on_tool_phase_complete(self, ctx: RunContext, info: ToolPhaseInfo) -> None:
            if hook == "phase":
                raise Reject("stop", "Stop.")

    @tool
    async def slow() -> str:
        """Wait, for as long as the others decide to go on."""
        try:
            if hook != "phase":
                await asyncio.Event().wait()
        finally:
            log.append("slow ended")
        return "slow"

    @tool
    async def quick() -> str:
        """Be quick."""
        return "quick"

    async def use(host: Any) -> Any:
        return await seen(host.run(asking()))

    agent = LoopAgent(Spy(calls("quick", "slow"), "done"), [quick, slow])
    played = within([Raises], agent, use)

    assert played.error == ("stop", "Stop.")
    assert log == ([] if hook == "before" else ["slow ended"])


@pytest.mark.parametrize("policy", ["isolated", "fail"])
def test_d24_an_after_hook_that_fails_does_not_run_a_charged_tool_again(policy: str) -> None:
    """The tool has had its effect: its result stands, also for the continuation of a run that failed."""
    ran: list[str] = []

    class Breaks(Middleware):
        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            if ctx.run_id == "run-2":
                raise RuntimeError("after")

    layer = Layer(Breaks, on_failure="fail") if policy == "fail" else Breaks

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        second = await seen(host.run(answering(first, True)))
        if policy == "fail":
            assert isinstance(second.result.error, RuntimeError)
            second = await seen(host.run(answering(first, True, run_id="run-3")))
        assert results(second) == {"call-1-1": "pay did x"}
        assert second.result.text == "done"

    agent = LoopAgent(Spy(calls("pay"), "done"), [recording("pay", ran, approval=True)])
    within([layer], agent, use)

    assert ran == ["pay x"]


class Busy(Transient):
    code = "busy"


def test_d25_layers_around_a_tool_see_the_exception_that_it_raised() -> None:
    """The very object, of its own class; only outside the layers it becomes a result."""
    error = Busy("try later")
    caught: list[BaseException] = []

    @tool
    def busy() -> str:
        """Be busy."""
        raise error

    class Sees(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            try:
                return await call_next(call)
            except Transient as found:
                caught.append(found)
                raise

    class Model(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            try:
                async for event in call_next(request):
                    yield event
            except Transient as found:
                caught.append(found)
                raise

    played = loop([Sees, Model], Spy(calls("busy"), {"error": "unavailable"}), [busy])

    assert caught[0] is error
    assert caught[1] is played.result.error
    assert results(played) == {"call-1-1": "The tool 'busy' failed (Busy)."}


# -- F: people ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wraps", ["catches Exception", "retries"])
def test_f31_a_layer_that_catches_or_retries_swallows_no_question(wraps: str) -> None:
    """A tool asks from inside; a layer around it catches every Exception: people are asked all the same."""
    ran: list[str] = []

    @tool
    def asks(ctx: ToolContext) -> str:
        """Ask."""
        ran.append("asks")
        ctx.interrupt(Interrupt(id="q1", reason="question", message="Really?"))

    class Catches(Middleware):
        may_repeat = True

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            for _ in range(3 if wraps == "retries" else 1):
                try:
                    return await call_next(call)
                except Exception:  # noqa: BLE001, S112
                    continue
            return ToolResult("swallowed")

    played = loop([Catches], Spy(calls("asks"), "done"), [asks])

    assert played.result.outcome == "interrupt"
    assert [each.message for each in played.result.interrupts] == ["Really?"]
    assert ran == ["asks"]
    assert not results(played)


def test_f32_a_continued_run_has_what_its_caller_provides_and_its_metadata() -> None:
    """The second run's layers and tools find the metadata of the first, and the context as an argument."""
    found: list[Any] = []

    @tool(approval=True)
    async def act(ctx: ToolContext) -> str:
        """Act."""
        await asyncio.sleep(0)
        found.append((ctx.metadata.get("tenant"), ctx.run_id, ctx.idempotency_key))
        return "acted"

    class Sets(Middleware):
        def on_start(self, ctx: RunContext) -> None:
            if ctx.run_id == "run-1":
                ctx.metadata["tenant"] = "acme"

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        await seen(host.run(answering(first, True)))

    within([Sets], LoopAgent(Spy(calls("act"), "done"), [act]), use)

    assert found == [("acme", "run-2", "run-1:call-1-1")]


def test_f33_the_model_learns_that_a_call_ran_with_edited_arguments() -> None:
    """It wrote "x", a person said "y": the tool ran with "y", and the next request tells so."""
    ran: list[str] = []
    model = Spy(calls(("act", {"q": "x"})), "done")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        said = {"approved": True, "editedArgs": {"q": "y"}}
        await seen(host.run(answering(first, said)))

    within([], LoopAgent(model, [recording("act", ran, approval=True)]), use)

    assert ran == ["act y"]
    assert len(model.requests) == 2
    assert "y" in model.told()[0]


def test_f34_mixed_answers_execute_what_was_approved_and_the_thread_goes_on() -> None:
    """Approve one, reject one: the first runs, the second is told; the next turns are valid."""
    ran: list[str] = []
    model = Spy(calls(("act", {"q": "a"}), ("act", {"q": "b"})), "done", "again")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        second = await seen(host.run(answering(first, True, False)))
        assert results(second) == {
            "call-1-1": "act did a",
            "call-1-2": "User declined tool execution.",
        }
        more = [*second.result.messages, user("and?", "u2")]
        third = await seen(host.run(asking(more, run_id="run-3")))
        assert third.result.text == "again"

    within([], LoopAgent(model, [recording("act", ran, approval=True)]), use)

    assert ran == ["act a"]


def test_f35_the_questions_of_parallel_tools_are_all_asked() -> None:
    """Three tools side by side, two ask from inside: one outcome with both, the third's result stands."""
    ran: list[str] = []
    barrier = asyncio.Barrier(2)

    @tool
    async def asks(ctx: ToolContext, q: str) -> str:
        """Ask."""
        await barrier.wait()
        ctx.interrupt(Interrupt(id=f"q-{q}", reason="question", message=q))

    turn = calls(("asks", {"q": "a"}), "free", ("asks", {"q": "b"}))

    played = loop([], Spy(turn, "done"), [asks, recording("free", ran)])

    assert played.result.outcome == "interrupt"
    assert [each.message for each in played.result.interrupts] == ["a", "b"]
    assert ran == ["free x"]
    assert results(played) == {"call-1-2": "free did x"}


class AsksAround(Middleware):
    """Asks around a call: before it or after it, as the run's attributes say."""

    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        when = ctx.attributes["when"]
        if when == "before" and not ctx.input.resume:
            ctx.interrupt(Interrupt(id="q1", reason="question", message="Sure?"))
        result = await call_next(call)
        if when == "after" and not ctx.input.resume:
            ctx.interrupt(Interrupt(id="q1", reason="question", message="Sure?"))
        return result


def test_f36_asking_before_a_tool_executes_it_once() -> None:
    """A layer asks around a call; over both runs the tool has run once."""
    ran: list[str] = []
    before = {"attributes": {"when": "before"}}

    async def use(host: Any) -> None:
        first = await seen(host.run(asking(), **before))
        assert first.result.outcome == "interrupt"
        assert not ran
        second = await seen(host.run(answering(first, True), **before))
        assert second.result.text == "done"
        assert list(results(second).values()) == ["act did x"]

    within([AsksAround], LoopAgent(Spy(calls("act"), "done"), [recording("act", ran)]), use)

    assert ran == ["act x"]


def test_f36_asking_after_a_tool_ran_is_refused_so_that_nothing_repeats_it() -> None:
    """The run fails and names the remedy; the next turn is told that the call may have had its effect."""
    ran: list[str] = []
    model = Spy(calls("act"), "again")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking(), attributes={"when": "after"}))
        assert isinstance(first.result.error, MiddlewareError)
        assert "ask before call_next" in str(first.result.error)
        more = [*first.result.messages, user("and?", "u2")]
        await seen(host.run(asking(more, run_id="run-2"), attributes={"when": "before"}))

    within([AsksAround], LoopAgent(model, [recording("act", ran)]), use)

    assert ran == ["act x"]
    assert "may have had its effect" in model.told()[0]


# -- G: what others run ---------------------------------------------------------------------------


def test_g38_a_call_that_the_provider_ran_is_in_the_stream_and_runs_nowhere_else() -> None:
    """Its events say that the provider executed it; no tool hook is called, and the request keeps it."""
    hooks: list[str] = []

    class Watches(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> None:
            hooks.append(call.name)

        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            hooks.append(info.call.name)

    searched = {"name": "web_search", "args": {"q": "x"}, "executed_by_provider": "found x"}
    turn = {"calls": [searched, {"name": "look"}]}
    model = Spy(turn, "done")

    played = loop([Watches], model, [look])

    assert hooks == ["look", "look"]
    assert list(results(played).values()) == ["found x", "found x"]
    starts = [event for event in played.events if isinstance(event, ToolCallStartEvent)]
    marked = [bool((e.metadata or {}).get("interpose:provider-executed")) for e in starts]
    assert marked == [True, False]
    assert model.told() == ["found x", "found x"]


def test_g38_a_call_that_only_the_provider_ran_needs_no_further_iteration() -> None:
    """Nothing is left for us to run: the answer of the same call is the answer."""
    searched = {"name": "web_search", "args": {}, "executed_by_provider": "found x"}
    model = Spy({"text": "It is x.", "calls": [searched], "finish_reason": "stop"})

    played = loop([], model)

    assert len(model.requests) == 1
    assert played.result.text == "It is x."
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert last.outcome is None


def test_g39_a_layer_for_a_point_that_an_agent_lacks_is_said_by_the_plan() -> None:
    """Around another agent, a tool layer cannot work: the plan says so; essential ones refuse to start."""
    from playing import agent_of, say

    from interpose import Host, StartupError

    class Guards(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> None:
            return None

    class Essential(Guards):
        essential = (Point.TOOLS,)

    foreign = agent_of(*say("hello"))

    async def plan_of(layers: Any, agent: Any) -> str:
        async with Host(layers, agent=agent) as host:
            return str(host.plan())

    warned = asyncio.run(plan_of([Guards], foreign))
    fine = asyncio.run(plan_of([Guards], LoopAgent(Spy("Hello"))))

    assert "on_before_tool_call" in warned
    assert "TOOLS" in warned
    assert warned != fine
    with pytest.raises(StartupError, match="TOOLS"):
        asyncio.run(plan_of([Essential], foreign))


def test_a_question_of_a_model_layer_is_asked_and_answered() -> None:
    """ctx.interrupt in around_model_call: the run pauses, and a run that answers goes on from there."""

    class Asks(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            if not ctx.input.resume:
                ctx.interrupt(Interrupt(id="q1", reason="question", message="Sure?"))
            async for event in call_next(request):
                yield event

    async def use(host: Any) -> Any:
        first = await seen(host.run([UserMessage(id="u1", content="hi")], thread_id="thread-1"))
        assert first.result.outcome == "interrupt"
        return first

    first = within([Asks], LoopAgent(Spy("Hello")), use)

    assert [each.message for each in first.result.interrupts] == ["Sure?"]


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
