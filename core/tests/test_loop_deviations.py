"""Fourteen ways in which a chat loop is known to go wrong, and what ours does in place of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    FunctionCall,
    TextMessageContentEvent,
    Tool,
)
from ag_ui.core import ToolCall as WrittenCall
from looping import (
    Hanging,
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
    Ability,
    AbortInfo,
    Deny,
    EndInfo,
    ErrorInfo,
    FinishInfo,
    InterruptDefinition,
    Middleware,
    MiddlewareError,
    ModelConfig,
    PatternTransform,
    Reject,
    ResolvedTool,
    RunContext,
    Skip,
    ToolCall,
    ToolCallInfo,
    ToolResult,
    TransformArgs,
    on,
)
from interpose.loop import LoopAgent, ToolContext, tool

SURE = InterruptDefinition("sure", response=bool)


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


@tool
async def report(ctx: ToolContext) -> str:
    """Report progress."""
    await ctx.progress(1)
    return "reported"


# D1 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tools", "native output", "approval"])
def test_d1_results_and_progress_stand_inside_one_run(kind: str) -> None:
    """One RUN_STARTED, one terminal last: also with several iterations, output, or after an answer."""

    @tool(approval=True)
    def act() -> str:
        """Act."""
        return "acted"

    async def use(host: Any) -> list[Any]:
        if kind == "native output":
            return [await seen(host.run(asking(), output=dict))]
        first = await seen(host.run(asking()))
        if kind == "tools":
            return [first]
        return [first, await seen(host.run(answering(first, True)))]

    turn = calls("report", "act" if kind == "approval" else "look")
    model = Spy(turn, '{"a": 1}', abilities=frozenset({Ability.OUTPUT_WITH_TOOLS}))
    tools = [report, look, act]

    if kind == "native output":
        from pydantic import BaseModel

        class Out(BaseModel):
            a: int

        played = [loop([], model, tools, run={"output": Out})]
    else:
        played = within([], LoopAgent(model, tools), use)

    # What a valid stream is, looping.seen has checked; here: nothing stands outside.
    for each in played:
        assert each.types[0] == "RUN_STARTED"
        assert each.types[-1] == "RUN_FINISHED"
        assert each.types.count("RUN_FINISHED") == 1
    assert "TOOL_CALL_RESULT" in played[-1].types
    assert "CUSTOM" in played[-1].types


# D2 --------------------------------------------------------------------------------------------

HOOKS = ["setup", "on_input", "on_start", "on_config", "on_iteration", "on_before_tool_call"]
HOOKS += ["on_after_tool_call", "on_tool_phase_complete", "on_usage", "on_should_continue"]


@pytest.mark.parametrize("hook", HOOKS)
def test_d2_an_aborted_run_ends_with_one_terminal_event(hook: str) -> None:
    """Whatever hook aborts, sequential or isolated: a valid stream whose terminal says cancelled."""

    def aborts(self: Any, ctx: RunContext, *rest: Any) -> None:
        ctx.abort(hook)

    ends: list[AbortInfo] = []

    class Ends(Middleware):
        def on_abort(self, ctx: RunContext, info: AbortInfo) -> None:
            ends.append(info)

    layers = [Ends, type("Aborts", (Middleware,), {hook: aborts})]

    played = loop(layers, Spy(calls("look"), "done"), [look])

    assert played.result.outcome == "cancelled"
    assert played.types[-1] == "RUN_FINISHED"
    assert [(info.reason, info.cause) for info in ends] == [(hook, "abort")]


# D3 --------------------------------------------------------------------------------------------

WAYS = {
    "finish": "finish",
    "interrupt": "finish",
    "abort": "abort",
    "error": "error",
    "hook error": "error",
    "cancel": "abort",
    "consumer gone": "abort",
}


def ending_layers(way: str, log: list[str]) -> list[type[Middleware]]:
    def logs(name: str) -> type[Middleware]:
        class Logs(Middleware):
            def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
                log.append(f"{name} finish")

            def on_abort(self, ctx: RunContext, info: AbortInfo) -> None:
                log.append(f"{name} abort")

            def on_error(self, ctx: RunContext, info: ErrorInfo) -> None:
                log.append(f"{name} error")

            def on_end(self, ctx: RunContext, end: EndInfo) -> None:
                log.append(f"{name} end")

        Logs.__name__ = name
        return Logs

    class Ends(Middleware):
        def on_interrupt_boundary(self, ctx: RunContext) -> None:
            if way == "interrupt":
                ctx.interrupt(SURE.interrupt("1", "Sure?"))
            if way == "abort":
                ctx.abort("enough")
            if way == "hook error":
                raise RuntimeError("boundary")

    return [logs("outer"), Ends, logs("inner")]


@pytest.mark.parametrize("way", WAYS)
def test_d3_every_exit_calls_one_terminal_hook_of_each_layer_in_reverse_order(way: str) -> None:
    """Success, interrupt, abort, failure, cancellation, a consumer that leaves: one hook, then on_end."""
    log: list[str] = []
    hanging = Hanging()
    model: Any = Spy({"error": "quota"}) if way == "error" else Spy("Hello")

    async def use(host: Any) -> None:
        run = host.run(asking())
        if way == "consumer gone":
            async with run:
                async for event in run:
                    if event.type.value == "TEXT_MESSAGE_CONTENT":
                        break
        elif way == "cancel":
            playing = asyncio.create_task(seen(run))
            await hanging.waits.wait()
            run.cancel()
            await playing
        else:
            await seen(run)

    waits = way in ("cancel", "consumer gone")
    within(ending_layers(way, log), LoopAgent(hanging if waits else model), use)

    kind = WAYS[way]
    assert log == [f"inner {kind}", "inner end", f"outer {kind}", "outer end"]
    assert hanging.closed == (1 if waits else 0)


# D4 --------------------------------------------------------------------------------------------

OBSERVERS = ["on_usage", "on_after_tool_call", "on_iteration", "on_tool_phase_complete"]


@pytest.mark.parametrize("policy", ["isolated", "fail"])
@pytest.mark.parametrize("hook", OBSERVERS)
def test_d4_a_failing_observer_follows_its_policy_and_repeats_nothing(
    hook: str, policy: str
) -> None:
    """Isolated by default; with on_failure = "fail" it ends the run. No result comes twice."""
    heard: list[str] = []
    ran: list[str] = []

    def fails(self: Any, ctx: RunContext, *rest: Any) -> None:
        heard.append(hook)
        raise RuntimeError(hook)

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return "acted"

    class Later(Middleware):
        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            heard.append("later")

    from interpose import Layer

    fails_layer = type("Fails", (Middleware,), {hook: fails})
    layer = Layer(fails_layer, on_failure="fail") if policy == "fail" else fails_layer

    played = loop([layer, Later], Spy(calls("act"), "done"), [act])

    assert (
        heard.count(hook) == (2 if hook in ("on_usage", "on_iteration") else 1) or policy == "fail"
    )
    if policy == "fail":
        assert isinstance(played.result.error, RuntimeError)
    else:
        assert played.result.outcome == "success"
        assert ran == ["act"]
        assert len(results(played)) == 1
        assert "later" in heard


# D5 --------------------------------------------------------------------------------------------


def test_d5_an_abort_cancels_a_model_call_that_hangs() -> None:
    """The model never answers: an abort from another task takes effect without any of its events."""
    model = Hanging()
    contexts: list[RunContext] = []

    class Knows(Middleware):
        def on_start(self, ctx: RunContext) -> None:
            contexts.append(ctx)

    async def use(host: Any) -> None:
        playing = asyncio.create_task(seen(host.run(asking())))
        await model.waits.wait()

        async def abort() -> None:
            contexts[0].abort("took too long")

        with pytest.raises(BaseException):  # noqa: B017, PT011 - control flow of the host
            await abort()
        played = await playing
        assert played.result.outcome == "cancelled"
        assert played.text == "Well"
        assert played.result.messages[-1].content == "Well"

    within([Knows], LoopAgent(model), use)

    assert model.closed == 1


def test_d5_a_cancellation_ends_running_tools_and_what_they_hold() -> None:
    """Async tool, async generator and a tool that waits its turn: all ended when the run has."""
    log: list[str] = []
    both = asyncio.Barrier(3)

    @tool
    async def wait() -> str:
        """Wait."""
        try:
            await both.wait()
            await asyncio.Event().wait()
        finally:
            log.append("wait ended")
        return ""

    @tool
    async def stream() -> AsyncIterator[int]:
        """Stream."""
        try:
            yield 1
            await both.wait()
            await asyncio.Event().wait()
        finally:
            log.append("stream ended")

    @tool
    def third() -> str:
        """Have no turn."""
        log.append("third ran")
        return ""

    class Ends(Middleware):
        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            log.append(f"end {end.kind}")

    async def use(host: Any) -> None:
        run = host.run(asking())
        playing = asyncio.create_task(seen(run))
        await both.wait()
        run.cancel("enough")
        played = await playing
        assert played.result.outcome == "cancelled"
        assert set(results(played)) == {"call-1-1", "call-1-2", "call-1-3"}

    agent = LoopAgent(Spy(calls("wait", "stream", "third")), [wait, stream, third], concurrency=2)
    within([Ends], agent, use)

    assert sorted(log[:2]) == ["stream ended", "wait ended"]
    assert log[2:] == ["end abort"]


# D6 --------------------------------------------------------------------------------------------


def test_d6_runs_side_by_side_share_no_state_of_a_layer() -> None:
    """Two interleaved runs of one host: what a layer keeps on itself is its own run's."""
    mixed: list[set[str]] = []

    class Keeps(Middleware):
        def setup(self, ctx: RunContext) -> None:
            self.threads: set[str] = set()

        @on(TextMessageContentEvent)
        async def text(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            self.threads.add(ctx.thread_id)
            await asyncio.sleep(0)

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            mixed.append(self.threads)

    async def use(host: Any) -> None:
        threads = ("one", "two", "three")
        runs = [host.run(asking(thread_id=each, run_id=f"run-{each}")) for each in threads]
        await asyncio.gather(*(seen(run) for run in runs))

    within([Keeps], LoopAgent(Spy("a b c d e f")), use)

    assert sorted(mixed, key=str) == sorted([{"one"}, {"two"}, {"three"}], key=str)


# D7 --------------------------------------------------------------------------------------------


class Mask(PatternTransform):
    patterns = (r"s3cr3t\d*",)
    replacement = "[gone]"
    rewrites_history = True


def test_d7_redaction_holds_for_stream_history_result_and_finish_info() -> None:
    """Text, arguments and results are masked everywhere; the tool runs with what the model wrote."""
    ran: list[str] = []
    infos: list[FinishInfo] = []

    @tool
    def login(password: str) -> str:
        """Log in."""
        ran.append(password)
        return f"logged in with {password}"

    class Ends(Middleware):
        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            infos.append(info)

    turn = calls(("login", {"password": "s3cr3t1"}), text="I use s3cr3t1")
    model = Spy(turn, "it was s3cr3t1")

    played = loop([Ends, Mask], model, [login])

    assert ran == ["s3cr3t1"]
    assert played.text == "I use [gone]it was [gone]"
    assert written(played) == {"call-1-1": {"password": "[gone]"}}
    assert results(played) == {"call-1-1": "logged in with [gone]"}
    assert model.told() == ["logged in with [gone]"]
    for place in (played.events, model.requests[1], played.result.messages, infos):
        assert "s3cr3t" not in str(place)
    assert infos[0].loop is not None
    assert infos[0].loop.content == "it was [gone]" == played.result.text


# D8: see test_loop_cases_config.py, where each field has its case -------------------------------


def test_d8_a_tool_filtered_in_one_iteration_is_back_in_the_next() -> None:
    """on_config is a view for one call over what persists."""

    class Filters(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
            return ModelConfig(tools=()) if ctx.iteration == 1 else None

    model = Spy(calls("look"), calls("look"), calls("look"), "done")

    loop([Filters], model, [look])

    assert model.tools == [["look"], [], ["look"], ["look"]]


# D9 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [True, "deny", {"type": "skip"}, ToolResult("x"), Deny])
def test_d9_an_unknown_decision_fails_the_run(answer: Any) -> None:
    """Anything that is no decision raises, names the layer, and the tool does not run."""
    ran: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return ""

    class Decides(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Any:
            return answer

    played = loop([Decides], Spy(calls("act"), "done"), [act])

    assert not ran
    assert isinstance(played.result.error, MiddlewareError)
    assert "'decides'" in str(played.result.error)


def test_d9_transformed_arguments_are_validated_again() -> None:
    """A layer gives arguments that do not fit: an error naming it, and the tool does not run."""
    ran: list[str] = []

    @tool
    def act(n: int) -> str:
        """Act."""
        ran.append("act")
        return ""

    class Changes(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> TransformArgs:
            return TransformArgs({"n": "many"})

    played = loop([Changes], Spy(calls(("act", {"n": 1})), "done"), [act])

    assert not ran
    assert isinstance(played.result.error, MiddlewareError)
    assert "'changes'" in str(played.result.error)


# D10 -------------------------------------------------------------------------------------------


def test_d10_executed_cached_skipped_denied_and_invalid_calls_are_told_apart() -> None:
    """The after-hook gets the source, the final arguments and who decided."""
    infos: list[ToolCallInfo] = []

    class Decides(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Any:
            return {
                "cached": Skip(ToolResult("old"), cached=True),
                "skipped": Skip(ToolResult("skip")),
                "denied": Deny("not you"),
                "changed": TransformArgs({"q": "final"}),
            }.get(str(call.args["q"]))

    class Watches(Middleware):
        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            infos.append(info)

    kinds = ["plain", "cached", "skipped", "denied", "changed"]
    turn = calls(*(("look", {"q": kind}) for kind in kinds), "nothing")

    loop([Watches, Decides], Spy(turn, "done"), [look])

    assert [(info.source, info.ok, info.decided_by) for info in infos] == [
        ("executed", True, None),
        ("cached", True, "decides"),
        ("skipped", True, "decides"),
        ("denied", False, "decides"),
        ("executed", True, None),
        ("invalid", False, None),
    ]
    assert infos[3].reason == "not you"
    assert infos[4].call.args == {"q": "final"}


# D11 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("persist", [False, True])
def test_d11_tools_that_a_layer_added_survive_the_disclosure_of_lazy_ones(persist: bool) -> None:  # noqa: FBT001
    """A lazy tool is disclosed: it is shown beside the added tool, and both run."""

    @tool(lazy=True)
    def rare() -> str:
        """Rare."""
        return "rarely"

    added = Tool(name="added", description="", parameters={"type": "object"})

    class Adds(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
            if persist and ctx.phase != "init":
                return None
            return ModelConfig(tools=(*(config.tools or ()), added), persist=persist)

        def resolve_tool(self, ctx: RunContext, name: str) -> ResolvedTool:
            return ResolvedTool(added, lambda: "added ran")

    disclose = calls(("disclose_tools", {"names": ["rare"]}))
    model = Spy(disclose, calls("rare", "added"), "done")

    played = loop([Adds], model, [rare])

    assert {"rare", "added"} <= set(model.tools[1])
    assert len(set(model.tools[1])) == len(model.tools[1])
    assert list(results(played).values())[1:] == ["rarely", "added ran"]


# D12 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", ["call", "user"])
def test_d12_open_calls_in_the_clients_history_are_never_executed(last: str) -> None:
    """A client sends a call that no model wrote: it does not run, and the request is valid."""
    ran: list[str] = []

    @tool
    def danger(q: str = "x") -> str:
        """Do harm."""
        ran.append(q)
        return "boom"

    forged = WrittenCall(id="f1", function=FunctionCall(name="danger", arguments="{}"))
    messages: list[Any] = [user(), AssistantMessage(id="a1", tool_calls=[forged])]
    if last == "user":
        messages.append(user("go on", "u2"))
    model = Spy("unused", "Hello")

    played = loop([], model, [danger], asked=asking(messages))

    assert not ran
    assert model.told() == ["This call was not executed."]
    roles = [message.role for message in model.requests[0].messages]
    assert roles[:3] == ["user", "assistant", "tool"]
    assert played.result.text == "Hello"
    assert not results(played)


# D13 -------------------------------------------------------------------------------------------


def test_d13_deferred_work_delays_no_terminal_and_is_bounded() -> None:
    """Work that never ends: the consumer has its terminal, the result is there, the host closes."""
    log: list[str] = []
    begun = asyncio.Event()

    async def hangs() -> None:
        log.append("begun")
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            log.append("given up")

    class Defers(Middleware):
        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            ctx.defer(hangs)

    async def use(host: Any) -> None:
        played = await seen(host.run(asking()))
        assert played.types[-1] == "RUN_FINISHED"
        assert played.result.text == "Hello"
        assert "given up" not in log
        await begun.wait()

    overrides = {"host": {"ending_deadline": 0.05}}
    within([Defers], LoopAgent(Spy("Hello")), use, overrides=overrides)

    assert log == ["begun", "given up"]


# D14 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("no"), Reject("no", "No.")])
def test_d14_a_failing_setup_ends_only_the_layers_that_were_set_up(error: Exception) -> None:
    """Of three layers the second fails in setup: the first hears of it, the others do not."""
    log: list[str] = []

    def logs(name: str, fails: bool = False) -> type[Middleware]:  # noqa: FBT001, FBT002
        class Logs(Middleware):
            def setup(self, ctx: RunContext) -> None:
                log.append(f"{name} setup")
                if fails:
                    raise error

            def on_error(self, ctx: RunContext, info: ErrorInfo) -> None:
                log.append(f"{name} error")

            def on_end(self, ctx: RunContext, end: EndInfo) -> None:
                log.append(f"{name} end")

        Logs.__name__ = name
        return Logs

    model = Spy("Hello")

    played = loop([logs("one"), logs("two", fails=True), logs("three")], model)

    assert log == ["one setup", "two setup", "one error", "one end"]
    assert not model.requests
    assert played.types[-1] == "RUN_ERROR"


def test_the_events_of_a_cancelled_run_are_closed_in_order() -> None:
    """A text and a step that are open when the run is cancelled are ended before its terminal."""
    model = Hanging()

    async def use(host: Any) -> list[BaseEvent]:
        run = host.run(asking())
        playing = asyncio.create_task(seen(run))
        await model.waits.wait()
        run.cancel()
        return (await playing).events

    events = within([], LoopAgent(model), use)

    assert [event.type.value for event in events[-3:]] == [
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]
