"""An agent as a tool: the same layers, budgets and ending for it and for what it calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunFinishedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
)
from looping import Hanging, Spy, asking, calls, loop, results, seen, user, within

from interpose import (
    CallModel,
    CallTool,
    Deny,
    EndInfo,
    FinishInfo,
    Middleware,
    ModelConfig,
    ModelRequest,
    RunContext,
    ToolCall,
    ToolCallInfo,
    ToolResult,
)
from interpose.loop import (
    Budget,
    LoopAgent,
    LoopTool,
    ToolContext,
    agent_tool,
    max_iterations,
    tool,
)
from interpose.payloads import ToolDecision


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


def helper(*turns: Any, name: str = "ask_helper", tools: Any = (look,)) -> tuple[LoopTool, Spy]:
    """Return an agent of our own as a tool, and its model."""
    model = Spy(*turns)
    return agent_tool(LoopAgent(model, tools), name, "Ask the helper."), model


def task(name: str = "ask_helper", what: str = "do it") -> tuple[str, dict[str, str]]:
    return name, {"task": what}


def lane(event: BaseEvent) -> str | None:
    return getattr(event, "subagent_run_id", None)


def test_g37_a_subagent_passes_the_layers_of_the_run_that_it_works_for() -> None:
    """Model calls and tool calls of the subagent pass the same layers, which know whose they are."""
    log: list[tuple[str, bool]] = []

    class Watches(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> None:
            log.append((f"config {ctx.phase} {ctx.iteration}", ctx.subagent_run_id is not None))

        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            log.append(("model", ctx.subagent_run_id is not None))
            async for event in call_next(request):
                yield event

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            log.append((f"tool {call.name}", ctx.subagent_run_id is not None))
            return await call_next(call)

    ask, inner = helper(calls("look"), "it is x")
    outer = Spy(calls(task()), "done")

    played = loop([Watches], outer, [ask])

    assert log == [
        ("config init 0", False),
        ("config before_model 0", False),
        ("model", False),
        ("tool ask_helper", False),
        ("config init 0", True),
        ("config before_model 0", True),
        ("model", True),
        ("tool look", True),
        ("config before_model 1", True),
        ("model", True),
        ("config before_model 1", False),
        ("model", False),
    ]
    assert [message.content for message in inner.requests[0].messages] == ["do it"]
    assert outer.told() == ["it is x"]
    assert played.result.text == "done"


def test_g37_the_events_of_a_subagent_stand_in_a_lane_of_their_own() -> None:
    """Between SUBAGENT_STARTED and SUBAGENT_FINISHED, with its id, tied to the call; not in the answer."""
    ask, _ = helper(calls("look"), "it is x")

    played = loop([], Spy(calls(task()), "done"), [ask])

    (begun,) = [event for event in played.events if isinstance(event, SubagentStartedEvent)]
    (ended,) = [event for event in played.events if isinstance(event, SubagentFinishedEvent)]
    assert begun.parent_tool_call_id == "call-1-1"
    assert begun.subagent_run_id == ended.subagent_run_id
    own = [event for event in played.events if lane(event) == begun.subagent_run_id]
    assert own[0] is begun
    assert own[-1] is ended
    kinds = [event.type.value for event in own]
    assert "TOOL_CALL_RESULT" in kinds
    assert "TEXT_MESSAGE_CONTENT" in kinds
    assert played.result.text == "done"


def test_g37_a_subagents_messages_are_not_shown_to_the_outer_model() -> None:
    """The next request, and the one of the next turn, has the call and its result alone."""
    ask, _ = helper(calls("look"), "it is x")
    outer = Spy(calls(task()), "done", "again")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking()))
        more = [*first.result.messages, user("and?", "u2")]
        await seen(host.run(asking(more, run_id="run-2")))

    within([], LoopAgent(outer, [ask]), use)

    roles = [[message.role for message in request.messages] for request in outer.requests]
    assert roles[1] == ["user", "assistant", "tool"]
    assert roles[2] == ["user", "assistant", "tool", "assistant", "user"]


def test_g37_a_guard_of_the_run_holds_for_the_tools_of_a_subagent() -> None:
    """A layer denies a tool: the subagent is told so, too."""
    ran: list[str] = []

    @tool
    def danger() -> str:
        """Do harm."""
        ran.append("danger")
        return "boom"

    class Guards(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> ToolDecision | None:
            return Deny("never") if call.name == "danger" else None

    ask, inner = helper(calls("danger"), "I could not", tools=[danger])

    loop([Guards], Spy(calls(task()), "done"), [ask])

    assert not ran
    assert inner.told() == ["never"]


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (Budget(model_calls=3), "budget.model_calls(3)"),
        (Budget(tokens=25), "budget.tokens(25)"),
        (Budget(tool_calls=3), "budget.tool_calls(3)"),
    ],
)
def test_g37_a_subagent_spends_the_budget_of_its_run(budget: Budget, limit: str) -> None:
    """Its calls count: when the budget is used up, it ends, and so does the run."""

    def turn(*written: Any) -> dict[str, Any]:
        return {**calls(*written), "usage": {"input_tokens": 5, "output_tokens": 5}}

    ask, inner = helper(*[turn("look")] * 9, "never said")
    outer = Spy(turn(task()), turn(task()), "never said")

    played = loop([], outer, [ask], budget=budget)

    assert len(inner.requests) in (2, 3)
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert last.metadata == {"interpose:limit": limit}


def test_g37_the_usage_of_subagents_is_part_of_the_run() -> None:
    """The terminal has all of it, and on_usage is called for each model call, once."""
    used: list[tuple[int | None, bool]] = []
    infos: list[FinishInfo] = []

    class Counts(Middleware):
        def on_usage(self, ctx: RunContext, usage: Any) -> None:
            used.append((usage.input_tokens, ctx.subagent_run_id is not None))

        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            infos.append(info)

    def spends(tokens: int, turn: dict[str, Any]) -> dict[str, Any]:
        return {**turn, "usage": {"input_tokens": tokens, "output_tokens": 0}}

    ask, _ = helper(spends(10, {"text": "inner"}))
    outer = Spy(spends(1, calls(task())), spends(2, {"text": "done"}))

    played = loop([Counts], outer, [ask])

    assert used == [(1, False), (10, True), (2, False)]
    assert [each.input_tokens for each in played.result.usage] == [13]
    assert infos[0].usage == played.result.usage


def test_h5_around_h_a_subagent_has_the_metadata_of_its_run() -> None:
    """A tenant in the metadata is there for the layers at the subagent's calls."""
    tenants: list[tuple[Any, bool]] = []

    class Checks(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> None:
            tenants.append((ctx.metadata.get("tenant"), ctx.subagent_run_id is not None))

    ask, _ = helper(calls("look"), "inner")

    loop([Checks], Spy(calls(task()), "done"), [ask], run={"metadata": {"tenant": "acme"}})

    assert tenants == [("acme", False), ("acme", True)]


def test_two_subagents_side_by_side_do_not_mix() -> None:
    """Each has its lane, its iterations and its result, however their events interleave."""
    barrier = asyncio.Barrier(2)
    places: dict[str, set[int]] = {}

    @tool
    async def meet(who: str) -> str:
        """Wait for the other one."""
        await barrier.wait()
        return f"met as {who}"

    class Watches(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            if ctx.subagent_run_id is not None:
                places.setdefault(ctx.subagent_run_id, set()).add(ctx.iteration)
            async for event in call_next(request):
                yield event

    one, _ = helper(
        calls(("meet", {"who": "one"})), "one says one two three", name="one", tools=[meet]
    )
    two, _ = helper(
        calls(("meet", {"who": "two"})), "two says four five six", name="two", tools=[meet]
    )
    outer = Spy(calls(task("one"), task("two")), "done")

    played = loop([Watches], outer, [one, two])

    assert outer.told() == ["one says one two three", "two says four five six"]
    assert list(places.values()) == [{0, 1}, {0, 1}]
    texts: dict[str | None, str] = {}
    for event in played.events:
        if event.type.value == "TEXT_MESSAGE_CONTENT":
            texts[lane(event)] = texts.get(lane(event), "") + event.delta  # type: ignore[attr-defined]
    assert sorted(texts.values()) == ["done", "one says one two three", "two says four five six"]
    calls_seen = [e.tool_call_id for e in played.events if e.type.value == "TOOL_CALL_START"]  # type: ignore[attr-defined]
    assert len(set(calls_seen)) == 4


def test_a_subagent_may_have_subagents() -> None:
    """Nested twice: the innermost lane names its parent, and the texts go up one by one."""
    deepest, deep_model = helper("at the bottom", name="deepest")
    middle, middle_model = helper(
        calls(task("deepest")), "in the middle", name="middle", tools=[deepest]
    )
    outer = Spy(calls(task("middle")), "done")

    played = loop([], outer, [middle])

    first, second = [e for e in played.events if isinstance(e, SubagentStartedEvent)]
    assert first.parent_subagent_run_id is None
    assert second.parent_subagent_run_id == first.subagent_run_id
    assert middle_model.told() == ["at the bottom"]
    assert outer.told() == ["in the middle"]
    assert len(deep_model.requests) == 1


def test_a_subagent_that_says_nothing_itself_does_not_pass_on_what_its_own_one_said() -> None:
    """The result of a call is the subagent's own last text, not that of a nested one."""
    deepest, _ = helper("at the bottom", name="deepest")
    middle, _ = helper(calls(task("deepest")), {"text": ""}, name="middle", tools=[deepest])
    outer = Spy(calls(task("middle")), "done")

    loop([], outer, [middle])

    assert outer.told() == [""]


@pytest.mark.parametrize("error", ["quota", "unavailable"])
def test_a_subagent_that_fails_is_a_failed_call(error: str) -> None:
    """Its lane ends with an error, its call has an error result, and the outer loop goes on."""
    infos: list[ToolCallInfo] = []

    class Watches(Middleware):
        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            infos.append(info)

    ask, _ = helper({"text": "I try", "error": error, "error_after": 1})
    outer = Spy(calls(task()), "sorry")

    played = loop([Watches], outer, [ask])

    assert played.result.outcome == "success"
    assert len([e for e in played.events if isinstance(e, SubagentErrorEvent)]) == 1
    assert not [e for e in played.events if isinstance(e, SubagentFinishedEvent)]
    assert [info.ok for info in infos] == [False]
    assert played.result.text == "sorry"
    assert "the script says so" not in str(played.events)


@pytest.mark.parametrize("way", ["cancel", "abort"])
def test_around_j_a_cancellation_reaches_the_whole_tree(way: str) -> None:
    """Two levels down a model hangs: it is closed before the hooks hear of the end, and all calls are closed."""
    hanging = Hanging()
    log: list[str] = []
    contexts: list[RunContext] = []

    class Ends(Middleware):
        def on_start(self, ctx: RunContext) -> None:
            contexts.append(ctx)

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            log.append(f"{end.kind} {hanging.closed}")

    deepest = agent_tool(LoopAgent(hanging), "deepest", "Deepest.")
    middle, middle_model = helper(
        calls(task("deepest"), "look"), "never", name="middle", tools=[deepest, look]
    )
    outer = Spy(calls(task("middle")), "never")

    async def use(host: Any) -> None:
        run = host.run(asking())
        playing = asyncio.create_task(seen(run))
        await hanging.waits.wait()
        if way == "cancel":
            run.cancel("enough")
        else:
            with pytest.raises(BaseException):  # noqa: B017, PT011 - control flow of the host
                contexts[0].abort("enough")
        played = await playing
        assert played.result.outcome == "cancelled"
        assert "call-1-1" in results(played)

    within([Ends], LoopAgent(outer, [middle]), use)

    assert log == ["abort 1"]
    assert len(outer.requests) == len(middle_model.requests) == 1


def test_a_subagent_cannot_ask_people() -> None:
    """A tool of it needs an approval: its call fails, nothing is executed, nobody is asked."""
    ran: list[str] = []

    @tool(approval=True)
    def act() -> str:
        """Act."""
        ran.append("act")
        return "acted"

    ask, _ = helper(calls("act"), "never", tools=[act])
    outer = Spy(calls(task()), "sorry")

    played = loop([], outer, [ask])

    assert not ran
    assert played.result.outcome == "success"
    assert played.result.text == "sorry"
    assert "nobody can be asked" in outer.told()[0]


def test_a_subagent_that_is_cut_short_has_no_answer_to_give() -> None:
    """Its own limit stops it between calls: the outer model is told so, and the limit's name."""
    inner = LoopAgent(
        Spy(*[calls("look", text="Let me see.")] * 9), [look], until=max_iterations(2)
    )
    outer = Spy(calls(task()), "sorry")

    played = loop([], outer, [agent_tool(inner, "ask_helper", "Ask.")])

    assert played.result.outcome == "success"
    assert outer.told() == [
        "The agent ask_helper was stopped before its answer: max_iterations(2)."
    ]


@pytest.mark.parametrize("way", ["a tool of it", "a layer at its boundary"])
def test_a_subagent_that_asks_from_inside_asks_nobody(way: str) -> None:
    """ctx.interrupt in its tool, or of a layer in its iterations: its call fails, the run goes on."""

    @tool
    def asks(ctx: ToolContext) -> str:
        """Ask."""
        ctx.interrupt(Interrupt(id="q", reason="question"))

    class Asks(Middleware):
        def on_interrupt_boundary(self, ctx: RunContext) -> None:
            if ctx.subagent_run_id is not None and way != "a tool of it":
                ctx.interrupt(Interrupt(id="q", reason="question"))

    ask, _ = helper(calls("asks"), "never", tools=[asks])
    outer = Spy(calls(task()), "sorry")

    played = loop([Asks], outer, [ask])

    assert played.result.outcome == "success"
    assert "nobody can be asked" in outer.told()[0]
