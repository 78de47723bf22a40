"""The second half of the ways in which a chat loop is known to go wrong: state, tools, history."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    FunctionCall,
    TextMessageContentEvent,
    Tool,
)
from ag_ui.core import ToolCall as WrittenCall
from looping import (
    Spy,
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
    Deny,
    EndInfo,
    ErrorInfo,
    FinishInfo,
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
from interpose.loop import LoopAgent, tool


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


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
