"""What users of other frameworks suffer from, by number: order, and what a failure becomes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from looping import (
    CANCELLED,
    Spy,
    answering,
    asking,
    calls,
    loop,
    results,
    seen,
    within,
)

from interpose import (
    CallModel,
    CallTool,
    Deny,
    Layer,
    Middleware,
    ModelRequest,
    Point,
    Reject,
    RunContext,
    ToolCall,
    ToolCallInfo,
    ToolPhaseInfo,
    ToolResult,
    TransformArgs,
    Transient,
)
from interpose.loop import LoopAgent, LoopTool, tool
from interpose.payloads import ToolDecision


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
