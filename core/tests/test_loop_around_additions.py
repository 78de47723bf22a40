"""Further cases of around hooks, by letter: what goes wrong quietly when nobody tests it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunFinishedEvent,
    Tool,
    ToolCallEndEvent,
    ToolCallStartEvent,
    UserMessage,
)
from looping import Spy, asking, calls, loop, results, seen, user, within
from playing import say

from interpose import (
    CallModel,
    CallStep,
    CallTool,
    EndInfo,
    Middleware,
    MiddlewareError,
    ModelConfig,
    ModelFinished,
    ModelRequest,
    PatternTransform,
    Reject,
    RepeatAfterOutput,
    ResolvedTool,
    RunContext,
    ToolCall,
    ToolError,
    ToolResult,
    Transient,
)
from interpose.loop import Budget, LoopAgent, tool


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


def test_around_a_a_step_that_raises_fails_the_run_once() -> None:
    """An exception of around_step is the run's failure: one RUN_ERROR, one on_error, one model call."""
    ends: list[str] = []

    class Breaks(Middleware):
        async def around_step(self, ctx: RunContext, call_next: CallStep) -> Any:
            async for event in call_next():
                yield event
            raise RuntimeError("step")

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            ends.append(end.kind)

    model = Spy(calls("look"), "done")

    played = loop([Breaks], model, [look])

    assert ends == ["error"]
    assert played.types.count("RUN_ERROR") == 1
    assert len(model.requests) == 1


@pytest.mark.parametrize("way", ["nothing", "message", "finish", "abort"])
def test_around_b_a_step_that_does_not_go_on_has_to_give_an_outcome(way: str) -> None:
    """Without call_next: a message or the end of the run is an outcome, nothing is an error."""

    class Answers(Middleware):
        async def around_step(self, ctx: RunContext, call_next: CallStep) -> Any:
            if way == "message":
                for event in say("answered"):
                    yield event
            elif way == "finish":
                ctx.finish("finished")
            elif way == "abort":
                ctx.abort("aborted")

    model = Spy("Hello")

    played = loop([Answers], model)

    assert not model.requests
    outcomes = {"nothing": "error", "message": "success", "finish": "success", "abort": "cancelled"}
    assert played.result.outcome == outcomes[way]
    assert played.result.text == {"message": "answered", "finish": "finished"}.get(way, "")
    if way == "nothing":
        assert isinstance(played.result.error, MiddlewareError)
        assert "neither went on nor gave an outcome" in str(played.result.error)


def twice(point: str, repeat: bool) -> type[Middleware]:  # noqa: C901, FBT001 - a hook each
    class Twice(Middleware):
        may_repeat = repeat

        async def around_step(self, ctx: RunContext, call_next: CallStep) -> Any:
            for _ in range(2 if point == "step" else 1):
                async for event in call_next():
                    if point != "step":
                        yield event
            if point == "step":
                for event in say("twice"):
                    yield event

        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            held: list[BaseEvent] = []
            for _ in range(2 if point == "model" else 1):
                held = [event async for event in call_next(request)]
            for event in held:
                yield event

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            for _ in range(2 if point == "tool" else 1):
                result = await call_next(call)
            return result

    return Twice


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("point", ["step", "model", "tool"])
def test_around_c_going_on_twice_is_an_error_unless_declared(point: str, repeat: bool) -> None:  # noqa: FBT001
    """A second call_next names the layer; with may_repeat it is a repetition, and all usage counts."""
    turn = {**calls("look"), "retry": calls("look"), "usage": {"input_tokens": 10}}
    turn["retry"]["usage"] = {"input_tokens": 5}
    done = {"text": "done", "retry": {"text": "done"}, "usage": {"input_tokens": 0}}

    played = loop([twice(point, repeat)], Spy(turn, done), [look])

    if not repeat:
        assert isinstance(played.result.error, MiddlewareError)
        assert "'twice'" in str(played.result.error)
        assert "second time" in str(played.result.error)
    else:
        assert played.result.outcome == "success", played.result.error


def test_around_c_repeating_a_model_call_after_output_is_an_error() -> None:
    """What has left the layer cannot be taken back."""

    class Streams(Middleware):
        may_repeat = True

        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            for _ in range(2):
                async for event in call_next(request):
                    yield event

    played = loop([Streams], Spy({"text": "one", "retry": {"text": "one"}}))

    assert isinstance(played.result.error, RepeatAfterOutput)
    assert played.text == "one"


def test_around_c_all_attempts_at_a_model_call_are_paid_for() -> None:
    """Two real calls: usage has both, on_usage is called for both, one answer is kept."""
    used: list[int | None] = []

    class Counts(Middleware):
        def on_usage(self, ctx: RunContext, usage: Any) -> None:
            used.append(usage.input_tokens)

    turn = {"text": "one", "usage": {"input_tokens": 10}}
    again = {"text": "two", "usage": {"input_tokens": 5}}

    played = loop([Counts, twice("model", repeat=True)], Spy({**turn, "retry": again}))

    assert sorted(used, key=str) == [10, 5]
    assert [each.input_tokens for each in played.result.usage] == [15]
    assert played.result.text == "two"


def test_around_d_a_refusal_is_never_retried() -> None:
    """A layer that retries everything that may pass does not see a Reject as such; the run ends with its code."""
    ran: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        raise Reject("no-permission", "You may not do that.")

    class Retries(Middleware):
        may_repeat = True

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            for _ in range(3):
                try:
                    return await call_next(call)
                except Transient:
                    continue
            raise ToolError("gave up")

    model = Spy(calls("act"), "done")

    played = loop([Retries], model, [act])

    assert ran == ["act"]
    assert len(model.requests) == 1
    assert played.error == ("no-permission", "You may not do that.")


class Mask(PatternTransform):
    patterns = (r"s3cr3t\d*",)
    replacement = "[gone]"
    rewrites_history = True


def test_around_e_redaction_covers_what_is_streamed() -> None:
    """A secret split over deltas leaves in no event, and is in no message."""
    model = Spy({"text": "it is s3cr3t99 ok", "thinking": "s3cr3t1"})

    played = loop([Mask], model)

    assert "s3cr3t" not in str(played.events)
    assert "s3cr3t" not in str(played.result.messages)
    assert played.text == "it is [gone] ok"


@pytest.mark.parametrize("point", ["around_model_call", "around_tool_call", "around_step"])
@pytest.mark.parametrize("way", ["abort", "interrupt"])
def test_around_f_a_layer_that_catches_everything_swallows_no_control_flow(  # noqa: C901 - a hook each
    point: str, way: str
) -> None:
    """Inner layer aborts or asks; the outer one has except Exception: the run still ends so."""

    class Ends(Middleware):
        def end(self, ctx: RunContext) -> None:
            if way == "abort":
                ctx.abort("enough")
            ctx.interrupt(Interrupt(id="ask-1", reason="ask"))

    class CatchesStep(Middleware):
        async def around_step(self, ctx: RunContext, call_next: CallStep) -> Any:
            try:
                async for event in call_next():
                    yield event
            except Exception:  # noqa: BLE001
                for event in say("swallowed"):
                    yield event

    class CatchesModel(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            try:
                async for event in call_next(request):
                    yield event
            except Exception:  # noqa: BLE001
                for event in say("swallowed"):
                    yield event

    class CatchesTool(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            try:
                return await call_next(call)
            except Exception:  # noqa: BLE001
                return ToolResult("swallowed")

    class EndsStep(Ends):
        async def around_step(self, ctx: RunContext, call_next: CallStep) -> Any:
            self.end(ctx)
            yield BaseEvent

    class EndsModel(Ends):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            self.end(ctx)
            yield BaseEvent

    class EndsTool(Ends):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            self.end(ctx)
            return ToolResult("not ended")

    layers: dict[str, list[type[Middleware]]] = {
        "around_step": [CatchesStep, EndsStep],
        "around_model_call": [CatchesModel, EndsModel],
        "around_tool_call": [CatchesTool, EndsTool],
    }

    played = loop(layers[point], Spy(calls("look"), "done"), [look])

    assert played.result.outcome == ("cancelled" if way == "abort" else "interrupt")
    assert "swallowed" not in str(played.events)


def test_around_g_a_replaced_request_still_passes_the_layers_further_in() -> None:
    """An outer layer replaces the messages; an inner one that trims them trims these."""

    class Replaces(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            many = tuple(user(str(n), f"m{n}") for n in range(9))
            async for event in call_next(request.replace(messages=many)):
                yield event

    class Trims(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            async for event in call_next(request.replace(messages=request.messages[-2:])):
                yield event

    model = Spy("Hello")

    loop([Replaces, Trims], model)

    assert [message.content for message in model.requests[0].messages] == ["7", "8"]


def test_around_k_repeating_one_call_spends_one_of_the_budget() -> None:
    """A layer repeats a call: it counts once against tool_calls."""
    ran: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return "acted"

    played = loop(
        [twice("tool", repeat=True)],
        Spy(calls("act"), calls("act"), "done"),
        [act],
        budget=Budget(tool_calls=2),
    )

    assert len(ran) == 4
    assert list(results(played).values()) == ["acted", "acted"]
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert last.outcome is None


def test_around_l_a_tool_hidden_from_one_request_does_not_run_in_that_iteration() -> None:
    """around_model_call hides a tool that on_config had left: its call is unknown."""
    ran: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return "acted"

    class Hides(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            left = tuple(tool for tool in request.tools if tool.name != "act")
            async for event in call_next(request.replace(tools=left)):
                yield event

    played = loop([Hides], Spy(calls("act"), "done"), [look, act])

    assert not ran
    assert list(results(played).values()) == ["Unknown tool: act. The tools are: look."]


def test_around_m_asking_for_tools_beside_a_call_of_another_works() -> None:
    """One turn discloses a lazy tool and calls a plain one: both have their results."""

    @tool(lazy=True)
    def rare() -> str:
        """Rare."""
        return "rarely"

    turn = calls(("disclose_tools", {"names": ["rare"]}), "look")
    played = loop([], Spy(turn, calls("rare"), "done"), [look, rare])

    assert list(results(played).values()) == ["You can call rare now.", "found x", "rarely"]


class Cache(Middleware):
    """Keeps the events of an answer, and plays them again, as they were."""

    kept: list[BaseEvent]

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        kept = ctx.attributes["kept"].setdefault(request.messages[-1].role, [])
        if not kept:
            kept.extend([event async for event in call_next(request)])
        for event in kept:
            yield event


def test_around_n_a_cached_answer_gets_ids_of_its_own_each_time() -> None:
    """The same answer in two turns: message and call ids differ, and its usage is not paid again."""
    kept: dict[str, list[BaseEvent]] = {}
    used: list[Any] = []

    class Counts(Middleware):
        def on_usage(self, ctx: RunContext, usage: Any) -> None:
            used.append(usage)

    model = Spy(calls("look", text="Let me see."), "done")

    async def use(host: Any) -> None:
        first = await seen(host.run(asking(), attributes={"kept": kept}))
        assert len(used) == 2
        messages = [*first.result.messages, user("again", "u2")]
        again = host.run(asking(messages, run_id="run-2"), attributes={"kept": kept})
        second = await seen(again)
        assert second.result.text == "done"
        assert second.result.usage == ()
        assert len(used) == 2
        assert len(second.result.messages) == 8
        ids = [message.id for message in second.result.messages]
        assert len(set(ids)) == len(ids)
        (one,), (two,) = results(first), results(second)
        assert one != two

    within([Counts, Cache], LoopAgent(model, [look]), use)

    assert len(model.requests) == 2


def test_around_n_a_layer_may_answer_with_tool_calls_of_its_own() -> None:
    """Calls that no model wrote are executed like others, and cost nothing."""

    class Plans(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> AsyncIterator[BaseEvent]:
            if ctx.iteration == 0:
                yield ToolCallStartEvent(tool_call_id="p1", tool_call_name="look")
                yield ToolCallEndEvent(tool_call_id="p1")
                yield ModelFinished(finish_reason="tool_calls")
                return
            async for event in call_next(request):
                yield event

    model = Spy("unused", "done")

    played = loop([Plans], model, [look])

    assert results(played) == {"p1": "found x"}
    assert played.result.text == "done"
    assert len(model.requests) == 1


def test_a_tool_added_for_one_call_is_executed_by_who_resolves_it() -> None:
    """around_model_call shows a tool; the same layer resolves it when it is called."""
    extra = Tool(name="extra", description="", parameters={"type": "object"})

    class Shows(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> Any:
            async for event in call_next(request.replace(tools=(*request.tools, extra))):
                yield event

        def resolve_tool(self, ctx: RunContext, name: str) -> ResolvedTool:
            return ResolvedTool(extra, lambda: "extra ran")

    played = loop([Shows], Spy(calls("extra"), "done"), [look])

    assert list(results(played).values()) == ["extra ran"]


def test_a_layer_that_asks_for_another_model_gets_its_answer() -> None:
    """on_config routes one call to another model of the file."""
    strong = Spy("from the strong one")
    weak = Spy("from the weak one")

    class Routes(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
            asked = str((config.messages or (UserMessage(id="x", content=""),))[-1].content)
            return ModelConfig(model="strong") if "hard" in asked else None

    agent = LoopAgent(weak)
    agent.parts.models["strong"] = strong  # type: ignore[index] # as [models.strong] would be

    async def use(host: Any) -> list[str]:
        return [(await seen(host.run(text))).text for text in ("easy", "hard")]

    assert within([Routes], agent, use) == ["from the weak one", "from the strong one"]
