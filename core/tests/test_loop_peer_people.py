"""What users of other frameworks suffer from, by number: people, and what others run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag_ui.core import (
    Interrupt,
    RunFinishedEvent,
    ToolCallStartEvent,
    UserMessage,
)
from looping import (
    Spy,
    answering,
    asking,
    calls,
    loop,
    results,
    seen,
    user,
    within,
)
from playing import agent_of, say

from interpose import (
    CallModel,
    CallTool,
    Host,
    Middleware,
    MiddlewareError,
    ModelRequest,
    Point,
    RunContext,
    StartupError,
    ToolCall,
    ToolCallInfo,
    ToolResult,
)
from interpose.loop import LoopAgent, LoopTool, ToolContext, tool


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
