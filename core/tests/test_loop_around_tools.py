"""Numbered cases of around hooks: tools that layers bring, and calls that are repeated or refused."""

from __future__ import annotations

import pytest
from ag_ui.core import RunFinishedEvent, Tool
from looping import Spy, calls, loop, results

from interpose import (
    CallTool,
    Middleware,
    ModelConfig,
    ResolvedTool,
    RunContext,
    ToolCall,
    ToolCallInfo,
    ToolResult,
    Transient,
    UsageError,
)
from interpose.loop import Budget, LoopAgent, ToolContext, tool


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


# -- dynamic tools ------------------------------------------------------------------------------


def shown(*names: str) -> tuple[Tool, ...]:
    return tuple(Tool(name=name, description="", parameters={"type": "object"}) for name in names)


class Catalogue(Middleware):
    """Shows and resolves the tool ``extra``."""

    def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
        names = [each.name for each in config.tools or ()]
        return ModelConfig(tools=(*(config.tools or ()), *shown(*{"extra"} - {*names})))

    def resolve_tool(self, ctx: RunContext, name: str) -> ResolvedTool | None:
        return ResolvedTool(shown("extra")[0], lambda: "extra ran") if name == "extra" else None


def test_around_10_a_resolved_tool_runs_without_being_registered() -> None:
    """The layer shows a tool and knows how to run it; the agent has none of its own."""
    played = loop([Catalogue], Spy(calls("extra"), "done"))

    assert list(results(played).values()) == ["extra ran"]


def test_around_12_two_layers_that_resolve_one_name_are_both_named() -> None:
    """The run fails, and the error names both layers."""

    class Second(Catalogue):
        pass

    played = loop([Catalogue, Second], Spy(calls("extra"), "done"))

    assert played.result.outcome == "error"
    assert "'catalogue' and 'second'" in str(played.result.error)


def test_around_13_an_agent_cannot_have_two_tools_of_one_name() -> None:
    """Said where the agent is made, with both places."""
    with pytest.raises(UsageError, match="two tools are named 'look'"):
        LoopAgent("scripted", [look, tool(lambda: "x", name="look")])


def test_around_16_a_tool_that_no_request_showed_does_not_run() -> None:
    """A layer could resolve it, but hid it: unknown until it is shown."""
    ran: list[str] = []

    class Hides(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
            return ModelConfig(tools=shown("extra")) if ctx.iteration == 1 else None

        def resolve_tool(self, ctx: RunContext, name: str) -> ResolvedTool:
            def run() -> str:
                ran.append(name)
                return "ran"

            return ResolvedTool(shown(name)[0], run)

    played = loop([Hides], Spy(calls("extra"), calls("extra"), "done"), [look])

    assert ran == ["extra"]
    first, second = results(played).values()
    assert first == "Unknown tool: extra. The tools are: look."
    assert second == "ran"


def test_around_17_a_layer_that_searches_replaces_what_it_found_before() -> None:
    """Two searches: the later result is shown, the agent's own tool stays; no request is changed."""

    class Searches(Middleware):
        found: tuple[Tool, ...] = ()

        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            return ModelConfig(tools=(*(config.tools or ()), *self.found))

        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            self.found = shown(info.result.content)

    @tool
    def search(q: str) -> str:
        """Find a tool."""
        return f"tool-{q}"

    turns = [calls(("search", {"q": q})) for q in ("a", "b")]
    model = Spy(*turns, "done")

    loop([Searches], model, [search])

    assert model.tools == [["search"], ["search", "tool-a"], ["search", "tool-b"]]


# -- retry and budget ---------------------------------------------------------------------------


def retrying(most: int, log: list[str]) -> type[Middleware]:
    class Retries(Middleware):
        may_repeat = True

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            for left in reversed(range(most + 1)):
                try:
                    return await call_next(call)
                except Transient:
                    log.append("retry")
                    if not left:
                        raise
            raise AssertionError

    return Retries


class Busy(Transient):
    code = "busy"


@pytest.mark.parametrize(("failures", "outcome"), [(1, "fine"), (3, "failed")])
def test_around_38_39_a_retried_tool_call_asks_the_model_no_more_often(
    failures: int, outcome: str
) -> None:
    """A transient failure is repeated by a layer: one result, two model calls; after its limit an error result."""
    ran: list[str] = []
    keys: set[str] = set()
    log: list[str] = []

    @tool
    def flaky(ctx: ToolContext) -> str:
        """Fail at first."""
        ran.append("flaky")
        keys.add(ctx.idempotency_key)
        if len(ran) <= failures:
            raise Busy("busy")
        return "fine"

    model = Spy(calls("flaky"), "done")

    played = loop([retrying(2, log)], model, [flaky], budget=Budget(tool_calls=1))

    assert len(model.requests) == 2
    assert len(ran) == min(failures + 1, 3)
    assert len(keys) == 1
    assert outcome in next(iter(results(played).values()))
    assert played.result.text == "done"


def test_around_40_a_budget_that_is_used_up_stops_before_the_tool_runs() -> None:
    """The model call spends the last tokens: its tool calls are refused, and the outcome says why."""
    ran: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return "acted"

    turn = {**calls("act"), "usage": {"input_tokens": 60, "output_tokens": 60}}

    played = loop([], Spy(turn, "done"), [act], budget=Budget(tokens=100))

    assert not ran
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert last.metadata == {"interpose:limit": "budget.tokens(100)"}
    assert list(results(played)) == ["call-1-1"]
