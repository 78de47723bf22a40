"""Numbered cases of a chat loop: decisions about tool calls, their arguments and their results."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag_ui.core import Tool
from looping import Spy, asking, calls, loop, results, user, written

from interpose import (
    ContinueState,
    Deny,
    Middleware,
    ModelConfig,
    ResolvedTool,
    RunContext,
    Skip,
    ToolCall,
    ToolCallInfo,
    ToolError,
    ToolPhaseInfo,
    ToolResult,
    TransformArgs,
)
from interpose.loop import LoopTool, tool
from interpose.payloads import ToolDecision

INFOS = "infos"


class Watches(Middleware):
    def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
        ctx.attributes[INFOS].append(info)


def watched(layers: Any, model: Any, tools: Any, **options: Any) -> tuple[Any, list[ToolCallInfo]]:
    """Play a run and return it with what on_after_tool_call heard."""
    infos: list[ToolCallInfo] = []
    played = loop([Watches, *layers], model, tools, run={"attributes": {INFOS: infos}}, **options)
    return played, infos


def counting(name: str = "look") -> tuple[LoopTool, list[dict[str, Any]]]:
    """Return a tool, and the arguments it ran with."""
    ran: list[dict[str, Any]] = []

    def run(q: str = "default", times: int = 1) -> str:
        ran.append({"q": q, "times": times})
        return f"found {q}"

    return tool(run, name=name, description="Look"), ran


def test_case_28_a_tool_runs_with_the_arguments_that_a_layer_gives_it() -> None:
    """TransformArgs: the tool and on_after_tool_call get the new ones, the history keeps the old."""
    look, ran = counting()

    class Changes(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> ToolDecision:
            return TransformArgs({**call.args, "q": "changed"})

    played, infos = watched([Changes], Spy(calls(("look", {"q": "x"})), "done"), [look])

    assert ran == [{"q": "changed", "times": 1}]
    assert infos[0].call.args == {"q": "changed", "times": 1}
    assert list(written(played).values()) == [{"q": "x"}]


class SkipsFirst(Middleware):
    def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> ToolDecision | None:
        return Skip(ToolResult("from the layer")) if call.id == "call-1-1" else None


def test_case_29_a_skipped_call_is_not_executed_and_its_result_is_the_layers() -> None:
    """Skip: the tool does not run, the model is told, and the info says ok, skipped, no time."""
    look, ran = counting()
    model = Spy(calls("look"), "done")

    played, infos = watched([SkipsFirst], model, [look])

    assert not ran
    assert model.told() == ["from the layer"] == list(results(played).values())
    (info,) = infos
    assert (info.ok, info.duration, info.source) == (True, 0.0, "skipped")
    assert info.decided_by == "skips-first"


def test_case_30_skipping_one_of_two_calls_leaves_the_other() -> None:
    """Two calls, one is skipped: the other runs, and both have a result."""
    look, ran = counting()

    played, infos = watched(
        [SkipsFirst], Spy(calls(("look", {"q": "a"}), ("look", {"q": "b"})), "done"), [look]
    )

    assert [each["q"] for each in ran] == ["b"]
    assert results(played) == {"call-1-1": "from the layer", "call-1-2": "found b"}
    assert [info.source for info in infos] == ["skipped", "executed"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ToolError("There is no such city."), "There is no such city."),
        (ValueError("password=hunter2"), "The tool 'broken' failed (ValueError)."),
    ],
    ids=["tool error", "any exception"],
)
def test_case_33_a_failing_tool_is_an_error_result_and_the_loop_goes_on(
    error: Exception, told: str
) -> None:
    """The info says not ok; the model is told what it may know, and answers."""

    @tool
    def broken() -> str:
        """Fail."""
        raise error

    model = Spy(calls("broken"), "sorry")

    played, infos = watched([], model, [broken])

    assert [info.ok for info in infos] == [False]
    assert infos[0].result.error == told
    assert model.told() == [told]
    assert played.result.text == "sorry"
    assert "hunter2" not in str(played.events)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("plain text", "plain text"),
        ('{"a": 1}', '{"a": 1}'),
        ({"a": 1}, '{"a":1}'),
        (None, "null"),
        (3, "3"),
    ],
)
def test_case_34_a_result_is_text_as_it_is_or_json(value: Any, content: str) -> None:
    """A text stays what it is, JSON or not; any other value is written as JSON."""

    @tool
    def give() -> Any:
        """Give."""
        return value

    played = loop([], Spy(calls("give"), "done"), [give])

    assert list(results(played).values()) == [content]


@pytest.mark.parametrize("text", ["", "null", "{}", "  "])
def test_case_36_no_arguments_are_an_empty_object(text: str) -> None:
    """A call without arguments, or with null, runs with the tool's defaults."""
    look, ran = counting()

    played, infos = watched([], Spy(calls(("look", text)), "done"), [look])

    assert ran == [{"q": "default", "times": 1}]
    assert [info.ok for info in infos] == [True]
    assert played.result.outcome == "success"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"q": ', "Failed to parse tool arguments as JSON"),
        ("[1]", "expected an object, found an array"),
        ({"times": "many"}, "Input validation failed for tool look"),
        ({"other": 1}, "Input validation failed for tool look"),
    ],
)
def test_case_36_what_is_no_valid_arguments_is_a_result_and_runs_nothing(
    text: Any, told: str
) -> None:
    """Bad JSON, no object, or a wrong type: the model is told, the tool does not run."""
    look, ran = counting()
    model = Spy(calls(("look", text)), "sorry")

    played, infos = watched([], model, [look])

    assert not ran
    assert told in model.told()[0]
    assert [(info.ok, info.source) for info in infos] == [(False, "invalid")]
    assert played.result.outcome == "success"


def test_case_37_the_results_of_one_turn_come_in_the_order_of_its_calls() -> None:
    """Five calls side by side that end in reverse order: results and history keep call order."""
    order: list[int] = []
    ended = [asyncio.Event() for _ in range(6)]
    ended[5].set()

    @tool
    async def step(n: int) -> str:
        """Wait for the next one."""
        await ended[n + 1].wait()
        order.append(n)
        ended[n].set()
        return str(n)

    model = Spy(calls(*(("step", {"n": n}) for n in range(5))), "done")

    played = loop([], model, [step])

    assert order == [4, 3, 2, 1, 0]
    assert list(results(played).values()) == ["0", "1", "2", "3", "4"]
    assert model.told() == ["0", "1", "2", "3", "4"]


def test_case_38_each_call_has_exactly_one_start_end_and_result() -> None:
    """Two calls of a server tool: a START, an END and a RESULT for each, in this order."""
    look, _ = counting()

    played = loop([], Spy(calls("look", "look"), "done"), [look])

    for ident in ("call-1-1", "call-1-2"):
        own = [e.type.value for e in played.events if getattr(e, "tool_call_id", None) == ident]
        own = [each for each in own if each != "TOOL_CALL_ARGS"]
        assert own == ["TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_RESULT"]


def test_case_42_the_calls_of_the_last_iteration_are_counted() -> None:
    """on_should_continue hears of 3 calls after a turn with 3, of 2 after one with 2; 5 in all."""
    look, _ = counting()
    states: list[tuple[int, int]] = []

    class Asks(Middleware):
        def on_should_continue(self, ctx: RunContext, state: ContinueState) -> bool:
            states.append((state.last_tool_calls, state.tool_calls))
            return True

    loop([Asks], Spy(calls(*["look"] * 3), calls(*["look"] * 2), "done"), [look])

    # After the text turn the loop is over, and nobody is asked.
    assert states == [(3, 3), (2, 5)]


def test_case_42_skipped_calls_do_not_count_as_executed() -> None:
    """One of two calls is skipped: one was executed."""
    look, _ = counting()
    states: list[int] = []

    class Asks(Middleware):
        def on_should_continue(self, ctx: RunContext, state: ContinueState) -> bool:
            states.append(state.tool_calls)
            return True

    loop([SkipsFirst, Asks], Spy(calls("look", "look"), "done"), [look])

    assert states == [1]


def test_case_76_a_cached_result_is_told_from_a_failure_and_from_an_execution() -> None:
    """A layer that keeps good results runs the same call once; a failure is not kept."""
    ran: list[str] = []

    @tool(effect="read")
    def flaky(q: str) -> str:
        """Fail the first time."""
        ran.append(q)
        if len(ran) == 1:
            raise ToolError("not now")
        return f"found {q}"

    kept: dict[str, ToolResult] = {}

    class Keeps(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> ToolDecision | None:
            found = kept.get(str(call.args))
            return None if found is None else Skip(found, cached=True)

        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            if info.ok and info.source == "executed":
                kept[str(info.call.args)] = info.result

    turn = calls(("flaky", {"q": "x"}))

    _, infos = watched([Keeps], Spy(turn, turn, turn, "done"), [flaky])

    assert ran == ["x", "x"]
    assert [(info.ok, info.source) for info in infos] == [
        (False, "executed"),
        (True, "executed"),
        (True, "cached"),
    ]


# -- lazy tools ---------------------------------------------------------------------------------


@tool(lazy=True)
def rare(q: str = "x") -> str:
    """Do something rare.

    In detail.
    """
    return f"rarely {q}"


def test_case_83_lazy_tools_are_named_and_shown_once_asked_for() -> None:
    """The model sees a list of names, asks for one, and can call it in the next iteration."""
    look, _ = counting()
    model = Spy(calls(("disclose_tools", {"names": ["rare"]})), calls("rare"), "done")

    played = loop([], model, [look, rare])

    assert model.tools == [["look", "disclose_tools"], ["look", "rare"], ["look", "rare"]]
    described = model.requests[0].tools[1].description
    assert "- rare: Do something rare." in described
    assert "In detail" not in described
    assert list(results(played).values()) == ["You can call rare now.", "rarely x"]


def test_case_83_a_lazy_tool_that_was_not_asked_for_does_not_run() -> None:
    """A call of it is answered with how to ask; then it works."""
    model = Spy(calls("rare"), calls(("disclose_tools", {"names": ["rare", "rarer"]})), "done")

    played = loop([], model, [rare])

    assert list(results(played).values()) == [
        "Ask for rare first: call disclose_tools.",
        "You can call rare now. There is no tool rarer.",
    ]


def test_case_83_what_was_disclosed_stays_so_in_the_next_turn() -> None:
    """The history says what was asked for; what it says malformed is ignored."""
    from ag_ui.core import AssistantMessage, FunctionCall
    from ag_ui.core import ToolCall as Written

    def asked(arguments: str) -> Any:
        call = Written(id="c1", function=FunctionCall(name="disclose_tools", arguments=arguments))
        return asking([user(), AssistantMessage(id="a1", tool_calls=[call]), user("and?", "u2")])

    again, malformed = Spy("done", "done"), Spy("done", "done")
    loop([], again, [rare], asked=asked('{"names": ["rare"]}'))
    loop([], malformed, [rare], asked=asked('{"names": "rare'))

    assert again.tools == [["rare"]]
    assert malformed.tools == [["disclose_tools"]]


# -- who runs what --------------------------------------------------------------------------------


def test_a_layer_that_resolves_another_name_is_named() -> None:
    """Asked for one tool, a layer gives another: the run fails, and says which layer."""

    class Wrong(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            shown = Tool(name="a", description="", parameters={"type": "object"})
            return ModelConfig(tools=(shown,))

        def resolve_tool(self, ctx: RunContext, name: str) -> ResolvedTool:
            other = Tool(name="b", description="", parameters={"type": "object"})
            return ResolvedTool(other, lambda: "b")

    played = loop([Wrong], Spy(calls("a"), "done"))

    assert played.result.outcome == "error"
    assert "'wrong'" in str(played.result.error)
    assert "'a'" in str(played.result.error)
    assert "'b'" in str(played.result.error)


def test_the_settled_calls_of_an_iteration_are_told_at_once_in_call_order() -> None:
    """on_tool_phase_complete hears of executed, denied and unknown calls alike."""
    look, _ = counting()
    phases: list[list[tuple[str, str]]] = []

    class Phases(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> ToolDecision | None:
            return Deny("no") if call.args["q"] == "b" else None

        def on_tool_phase_complete(self, ctx: RunContext, info: ToolPhaseInfo) -> None:
            phases.append([(each.call.id, each.source) for each in info.calls])

    turn = calls(("look", {"q": "a"}), ("look", {"q": "b"}), "nothing")

    loop([Phases], Spy(turn, "done"), [look])

    assert phases == [[("call-1-1", "executed"), ("call-1-2", "denied"), ("call-1-3", "invalid")]]
