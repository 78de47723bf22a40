"""Numbered cases of a chat loop and of around hooks: pausing for people and for the client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag_ui.core import (
    Interrupt,
    Message,
    ResumeEntry,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    Tool,
    ToolMessage,
)
from looping import (
    CANCELLED,
    Spy,
    answering,
    asking,
    calls,
    entry,
    loop,
    results,
    seen,
    user,
    within,
)

from interpose import (
    Ask,
    FinishInfo,
    InterruptDefinition,
    InvalidResume,
    Middleware,
    Resolutions,
    RunContext,
    ToolCall,
    ToolCallInfo,
)
from interpose.loop import Budget, LoopAgent, LoopTool, tool
from interpose.payloads import InterruptDecision, ToolDecision

SURE = InterruptDefinition("sure", response=bool)


def recording(name: str, ran: list[str], **options: Any) -> LoopTool:
    """Return a tool that writes down that it ran."""

    def run(q: str = "x") -> str:
        ran.append(f"{name} {q}")
        return f"{name} did {q}"

    return tool(run, name=name, description=name, **options)


def asking_at(phase: str, log: list[str] | None = None) -> type[Middleware]:
    """Return a layer that asks at a boundary, in a run that continues none."""

    class Asks(Middleware):
        def on_interrupt_boundary(self, ctx: RunContext) -> None:
            if log is not None:
                log.append(ctx.phase)
            if ctx.phase == phase and not ctx.input.resume and ctx.iteration == 0:
                ctx.interrupt(SURE.interrupt("1", "Sure?"))

    return Asks


@pytest.mark.parametrize("phase", ["before_model", "after_model", "before_tools", "after_tools"])
def test_case_69_a_question_at_any_boundary_ends_a_valid_run(phase: str) -> None:
    """RUN_STARTED first, one terminal with the interrupt last; on_finish hears of it."""
    ran: list[str] = []
    ends: list[FinishInfo] = []

    class Ends(Middleware):
        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            ends.append(info)

    model = Spy(calls("act"), "done")

    played = loop([Ends, asking_at(phase)], model, [recording("act", ran)])

    assert played.types[0] == "RUN_STARTED"
    assert played.types[-1] == "RUN_FINISHED"
    assert played.result.outcome == "interrupt"
    assert [each.reason for each in played.result.interrupts] == ["sure"]
    assert [info.outcome for info in ends] == ["interrupt"]
    assert len(model.requests) == (0 if phase == "before_model" else 1)
    assert ran == (["act x"] if phase == "after_tools" else [])


@pytest.mark.parametrize("phase", ["before_model", "after_model", "before_tools", "after_tools"])
def test_case_69_the_answer_goes_on_where_the_run_paused(phase: str) -> None:
    """Whatever the boundary: each model turn and each tool call happen once over both runs."""
    ran: list[str] = []
    model = Spy(calls("act"), "done")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        second = await seen(host.run(answering(first, True)))
        assert second.result.outcome == "success"
        assert second.result.text == "done"

    within([asking_at(phase)], LoopAgent(model, [recording("act", ran)]), use)

    assert ran == ["act x"]
    assert len(model.requests) == 2


@pytest.mark.parametrize("decision", ["continue", "cancel", "stop"])
def test_case_71_the_strictest_of_the_layers_decides_how_it_goes_on(
    decision: InterruptDecision,
) -> None:
    """stop: no tool and no model, and on_finish is called. cancel: no tool. continue: both."""
    ran: list[str] = []
    ends: list[FinishInfo] = []

    class Decides(Middleware):
        def on_interrupt_resolution(
            self, ctx: RunContext, resolutions: Resolutions
        ) -> InterruptDecision:
            assert resolutions.get(SURE, "1") is True
            return decision

        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            ends.append(info)

    class Lenient(Middleware):
        def on_interrupt_resolution(
            self, ctx: RunContext, resolutions: Resolutions
        ) -> InterruptDecision:
            return "continue"

    model = Spy(calls("act"), "done")

    async def use(host: Any) -> Any:
        first = await seen(host.run(asking()))
        return await seen(host.run(answering(first, True)))

    layers = [asking_at("before_tools"), Decides, Lenient]
    second = within(layers, LoopAgent(model, [recording("act", ran)]), use)

    assert second.result.outcome == "success"
    assert ran == (["act x"] if decision == "continue" else [])
    assert len(model.requests) == (1 if decision == "stop" else 2)
    if decision == "cancel":
        assert results(second) == {"call-1-1": "Tool execution cancelled."}
    assert [info.outcome for info in ends] == ["interrupt", "success"]


def test_case_73_an_answer_to_a_question_of_somebody_else_neither_blocks_nor_counts() -> None:
    """An entry that is not ours is left alone: the run is an ordinary one."""
    foreign = ResumeEntry(interrupt_id="elsewhere-1", status="resolved", payload=True)
    model = Spy("Hello")

    played = loop([], model, asked=asking(resume=[foreign]))

    assert played.result.text == "Hello"
    assert len(model.requests) == 1


# -- approvals ----------------------------------------------------------------------------------


def approving(*turns: Any, layers: Any = (), budget: Budget | None = None) -> Any:
    """Return an agent with a tool that asks and one that does not, and what ran."""
    ran: list[str] = []
    model = Spy(*(turns or (calls("ask", "free"), "done")))
    tools = [recording("ask", ran, approval=True), recording("free", ran)]
    return LoopAgent(model, tools, budget=budget), model, ran


def test_around_30_without_an_answer_the_next_run_executes_nothing() -> None:
    """The thread goes on without one: the open calls are told as not executed, never run."""
    agent, model, ran = approving(calls("ask"), "never mind")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        again = asking([*first.result.messages, user("go on", "u2")], run_id="run-2")
        second = await seen(host.run(again))
        assert second.result.text == "never mind"

    within([], agent, use)

    assert not ran
    assert model.told() == ["This call was not executed."]


def test_around_33_an_approval_is_good_for_one_execution_on_any_host() -> None:
    """Another host goes on; the call runs once there, and the answer cannot be used again."""
    agent, _, ran = approving(calls("ask"), "done")
    key = "k" * 32

    async def use(host: Any) -> Any:
        return await seen(host.run(asking()))

    options = {"overrides": {"host": {"signing_key": key}}}
    first = within([], agent, use, **options)

    async def go_on(host: Any) -> None:
        second = await seen(host.run(answering(first, True)))
        assert second.result.text == "done"
        third = await seen(host.run(answering(first, True, run_id="run-3")))
        assert isinstance(third.result.error, InvalidResume)
        assert [problem.code for problem in third.result.error.problems] == ["conflict"]

    within([], LoopAgent(*_parts(agent)), go_on, **options)

    assert ran == ["ask x"]


def _parts(agent: LoopAgent) -> Any:
    """Return the model and the tools of an agent, for another one like it."""
    return agent.parts.models["model"], agent.parts.tools


def test_around_34_a_refusal_with_its_reason_is_told_to_the_model() -> None:
    """Denied: the tool does not run, the result has the reason, and the info says who decided."""
    agent, model, ran = approving(calls("ask"), "sorry")
    infos: list[ToolCallInfo] = []

    class Watches(Middleware):
        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            infos.append(info)

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        said = {"approved": False, "reason": "too expensive"}
        await seen(host.run(answering(first, said)))

    within([Watches], agent, use)

    assert not ran
    assert model.told() == ["User declined tool execution. too expensive"]
    assert [(info.ok, info.source, info.reason) for info in infos] == [
        (False, "denied", "too expensive")
    ]


@pytest.mark.parametrize("payload", ["go on", None, {"approved": "yes"}])
def test_around_37_an_answer_of_the_wrong_kind_is_refused_and_changes_nothing(payload: Any) -> None:
    """Not an approval: nothing runs, the model is not asked, and a right answer still works."""
    agent, model, ran = approving(calls("ask"), "done")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        wrong = await seen(host.run(answering(first, payload)))
        assert isinstance(wrong.result.error, InvalidResume)
        assert wrong.result.error.problems[0].code == "invalid-payload"
        assert not ran
        assert len(model.requests) == 1
        right = await seen(host.run(answering(first, True, run_id="run-3")))
        assert right.result.text == "done"

    within([], agent, use)

    assert ran == ["ask x"]


def test_around_22_a_continuation_that_failed_repeats_no_executed_call() -> None:
    """After the calls ran, the model fails: trying again executes none of them a second time."""
    turn = {"error": "unavailable", "retry": None}
    agent, model, ran = approving(calls("ask", "free"), turn, "done")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        assert not ran  # none of a batch runs before all are decided
        failed = await seen(host.run(answering(first, True)))
        assert failed.result.outcome == "error"
        assert ran == ["ask x", "free x"]
        model._turns = (*model._turns[:1], *model._turns[2:])
        second = await seen(host.run(answering(first, True, run_id="run-3")))
        assert second.result.text == "done"

    within([], agent, use)

    assert ran == ["ask x", "free x"]
    assert model.told() == ["ask did x", "free did x"]


def test_around_24_a_call_whose_tool_is_gone_is_told_to_be_unknown_not_left_out() -> None:
    """The agent that goes on lacks the pending tool: its call has an error result."""
    agent, model, ran = approving(calls("ask"), "done")
    key = "k" * 32
    options = {"overrides": {"host": {"signing_key": key}}}

    async def use(host: Any) -> Any:
        return await seen(host.run(asking()))

    first = within([], agent, use, **options)

    async def go_on(host: Any) -> Any:
        return await seen(host.run(answering(first, True)))

    second = within([], LoopAgent(model, [recording("other", ran)]), go_on, **options)

    assert not ran
    assert second.result.outcome == "success"
    assert results(second) == {"call-1-1": "Unknown tool: ask."}


def test_around_28_budgets_and_metadata_go_on_with_the_run() -> None:
    """A budget of two tool calls and a tenant in the metadata hold over the interrupt."""
    turns = (calls("free"), calls("ask"), calls("free"), "done")
    agent, _, ran = approving(*turns, budget=Budget(tool_calls=2))
    tenants: list[Any] = []

    class Checks(Middleware):
        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            tenants.append(ctx.metadata.get("tenant"))

    async def use(host: Any) -> Any:
        first = await seen(host.run(asking(), metadata={"tenant": "acme"}))
        return await seen(host.run(answering(first, True)))

    second = within([Checks], agent, use)

    assert ran == ["free x", "ask x"]
    assert tenants == ["acme"] * 3
    assert "budget.tool_calls(2)" in results(second)["call-3-1"]
    last = second.events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert last.metadata == {"interpose:limit": "budget.tool_calls(2)"}


@pytest.mark.parametrize("answers", [(True, True), (True, False), (False, True), (CANCELLED, True)])
def test_around_31_what_ran_before_the_answer_is_nothing(answers: tuple[Any, Any]) -> None:
    """Two calls that ask and one that does not: nothing before both answers, then each as decided."""
    agent, _, ran = approving(calls(("ask", {"q": "a"}), "free", ("ask", {"q": "b"})), "done")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        assert len(first.result.interrupts) == 2
        assert not ran
        second = await seen(host.run(answering(first, *answers)))
        assert list(results(second)) == ["call-1-1", "call-1-2", "call-1-3"]

    within([], agent, use)

    wanted = ["ask a"] * (answers[0] is True) + ["free x"] + ["ask b"] * (answers[1] is True)
    assert sorted(ran) == sorted(wanted)


# -- the client's tools -------------------------------------------------------------------------

CLIENTS = Tool(
    name="pick",
    description="Let the person pick",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}},
)


def pending(played: Any) -> list[str]:
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    if not isinstance(last.outcome, RunFinishedSuccessOutcome):
        return []
    return list(last.outcome.pending_tool_call_ids or ())


def test_client_calls_are_pending_exactly_and_servers_calls_of_the_batch_run() -> None:
    """Two calls for the client, one for us: ours has a result, theirs are named in call order."""
    ran: list[str] = []
    model = Spy(calls("pick", "act", ("pick", {"q": "2"})), "done")

    async def use(host: Any) -> Any:
        first = await seen(host.run(asking(tools=[CLIENTS])))
        assert pending(first) == ["call-1-1", "call-1-3"]
        assert results(first) == {"call-1-2": "act did x"}
        assert ran == ["act x"]
        answers: list[Message] = [
            ToolMessage(id=f"t{n}", tool_call_id=call, content=f"picked {n}")
            for n, call in enumerate(pending(first))
        ]
        messages = [*first.result.messages, *answers]
        second = await seen(host.run(asking(messages, run_id="run-2", tools=[CLIENTS])))
        assert pending(second) == []
        return second

    second = within([], LoopAgent(model, [recording("act", ran)]), use)

    assert second.result.text == "done"
    assert sorted(model.told()) == ["act did x", "picked 0", "picked 1"]
    assert ran == ["act x"]


def test_client_calls_beside_an_approval_wait_for_it() -> None:
    """An approval and a client's call in one batch: the question first, then the call is pending."""
    agent, model, ran = approving(calls("pick", "ask", "free"), "done")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking(tools=[CLIENTS])))
        assert first.result.outcome == "interrupt"
        assert len(first.result.interrupts) == 1
        assert not results(first)
        second = await seen(host.run(answering(first, True, tools=[CLIENTS])))
        assert results(second) == {"call-1-2": "ask did x", "call-1-3": "free did x"}
        assert pending(second) == ["call-1-1"]
        answer = ToolMessage(id="t1", tool_call_id="call-1-1", content="picked")
        messages = [*second.result.messages, answer]
        third = await seen(host.run(asking(messages, run_id="run-3", tools=[CLIENTS])))
        assert third.result.text == "done"

    within([], agent, use)

    assert ran == ["ask x", "free x"]
    assert sorted(model.told()) == ["ask did x", "free did x", "picked"]


# -- groups of questions ------------------------------------------------------------------------


def test_questions_of_all_layers_and_approvals_are_one_batch() -> None:
    """Two layers ask at a boundary, one about a call, a tool needs approval: one outcome, answered at once."""
    agent, _, ran = approving(calls("ask", "free"), "done")

    class AsksAboutFree(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> ToolDecision | None:
            return Ask("Free, too?") if call.name == "free" else None

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        asked: list[Interrupt] = list(first.result.interrupts)
        assert sorted(each.reason for each in asked) == ["sure", "tool_call", "tool_call"]
        entries = [entry(each, True) for each in asked]
        partial = asking(first.result.messages, run_id="run-2", resume=entries[:2])
        refused = await seen(host.run(partial))
        assert isinstance(refused.result.error, InvalidResume)
        assert not ran
        whole = asking(first.result.messages, run_id="run-3", resume=entries)
        second = await seen(host.run(whole))
        assert second.result.text == "done"

    within([asking_at("before_tools"), AsksAboutFree], agent, use)

    assert ran == ["ask x", "free x"]


def test_two_runs_cannot_answer_one_pause_at_the_same_time() -> None:
    """While one continuation runs, another one of the same pause is refused."""
    gate, begun = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    @tool(approval=True)
    async def slow() -> str:
        """Wait."""
        ran.append("slow")
        begun.set()
        await gate.wait()
        return "slow did"

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        running = asyncio.create_task(seen(host.run(answering(first, True))))
        await begun.wait()
        second = await seen(host.run(answering(first, True, run_id="run-3")))
        assert isinstance(second.result.error, InvalidResume)
        gate.set()
        assert (await running).result.text == "done"

    within([], LoopAgent(Spy(calls("slow"), "done"), [slow]), use)

    assert ran == ["slow"]
