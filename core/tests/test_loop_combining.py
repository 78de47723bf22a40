"""Several layers in one loop: how their answers combine, and how one of them ends the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import permutations
from typing import Any, Final, cast

import pytest
from ag_ui.core import BaseEvent, Interrupt, RunFinishedEvent, ToolCallChunkEvent, ToolMessage
from looping import Spy, asking, calls, loop, results, seen, user, within
from playing import Played, say
from sequence_scenarios import City
from sequences import Act, Sequence, recorder

from interpose import (
    Abort,
    Ask,
    CallModel,
    CallStep,
    CallTool,
    Deny,
    EndInfo,
    Host,
    IterationInfo,
    Layer,
    Middleware,
    MiddlewareError,
    ModelConfig,
    ModelContext,
    ModelRequest,
    Point,
    Reject,
    ResolvedTool,
    RunContext,
    RunResult,
    Skip,
    ToolCall,
    ToolCallInfo,
    ToolResult,
    TransformArgs,
    Transient,
)
from interpose.loop import LoopAgent, ScriptedModel, tool
from interpose.payloads import ContinueState, ToolDecision

RAN: Final = "it ran"


@tool
async def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


def named(name: str, **methods: Any) -> type[Middleware]:
    """Return a middleware class with these hooks and attributes."""
    return type(name, (Middleware,), methods)


# -- a pipe -------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", ["on_config", "on_structured_output_config"])
def test_configurations_pipe_outermost_first(hook: str) -> None:
    def adds(name: str) -> type[Middleware]:
        def add(self: Any, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            return ModelConfig(system_prompts=(*(config.system_prompts or ()), name))

        return named(name, **{hook: add})

    model = Spy('{"name": "Ulm"}')
    loop([adds("Outer"), adds("Inner")], model, run={"output": City})

    assert model.prompts == [["Outer", "Inner"]]


def test_changed_arguments_pipe_and_essential_layers_decide_on_the_last() -> None:
    heard: list[tuple[str, str]] = []

    def changes(name: str, **attributes: Any) -> type[Middleware]:
        def decide(self: Any, ctx: RunContext, call: ToolCall) -> ToolDecision | None:
            heard.append((name, call.args["q"]))
            return None if attributes else TransformArgs({"q": call.args["q"] + name})

        return named(name, on_before_tool_call=decide, **attributes)

    layers = [changes("Guard", essential=(Point.TOOLS,)), changes("A"), changes("B")]
    played = loop(layers, Spy(calls(("look", {"q": "-"})), "Done"), [look])

    assert heard == [("A", "-"), ("B", "-A"), ("Guard", "-AB")]
    assert list(results(played).values()) == ["found -AB"]


# -- an onion -----------------------------------------------------------------------------------


def test_around_hooks_are_an_onion_for_what_goes_in_and_for_what_comes_out() -> None:
    def wraps(name: str) -> type[Middleware]:
        class Wraps(Middleware):
            async def around_model_call(
                self, ctx: RunContext, request: ModelRequest, call_next: CallModel
            ) -> AsyncIterator[BaseEvent]:
                prompts = (*request.system_prompts, name)
                async for event in call_next(request.replace(system_prompts=prompts)):
                    if event.type.value == "TEXT_MESSAGE_CONTENT":
                        delta = f"{name}({event.delta})"  # type: ignore[attr-defined]
                        yield event.model_copy(update={"delta": delta})
                    else:
                        yield event

            async def around_tool_call(
                self, ctx: RunContext, call: ToolCall, call_next: CallTool
            ) -> ToolResult:
                result = await call_next(call)
                return ToolResult(f"{name}({result.content})")

        Wraps.__name__ = name
        return Wraps

    model = Spy(calls("look"), "Done")
    played = loop([wraps("Outer"), wraps("Inner")], model, [look])

    assert model.prompts == [["Outer", "Inner"]] * 2
    assert played.text == "Outer(Inner(Done))"
    assert list(results(played).values()) == ["Outer(Inner(found x))"]


# -- all of them, and one is enough -------------------------------------------------------------


@pytest.mark.parametrize("answers", [(True, True), (False, True), (True, False), (False, False)])
def test_all_layers_are_asked_whether_to_go_on_and_one_false_ends_the_run_well(
    answers: tuple[bool, bool],
) -> None:
    asked: list[str] = []

    def says(name: str, answer: bool) -> type[Middleware]:  # noqa: FBT001
        def on_should_continue(self: Any, ctx: RunContext, state: ContinueState) -> bool:
            asked.append(name)
            return answer

        return named(name, on_should_continue=on_should_continue)

    model = Spy(calls("look"), "Done")
    played = loop([says("Outer", answers[0]), says("Inner", answers[1])], model, [look])

    assert asked == ["Outer", "Inner"]
    assert played.result.outcome == "success"
    assert len(model.requests) == (2 if all(answers) else 1)
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    limit = None if all(answers) else {"interpose:limit": "on_should_continue"}
    assert last.metadata == limit


# -- the strictest wins -------------------------------------------------------------------------

STRICTEST_FIRST: Final[dict[str, ToolDecision | None]] = {
    "abort": Abort("stop"),
    "deny": Deny("no"),
    "ask": Ask("Sure?"),
    "skip": Skip(ToolResult("skipped")),
    "run": None,
}


@pytest.mark.parametrize(("outer", "inner"), list(permutations(STRICTEST_FIRST, 2)))
def test_the_strictest_decision_about_a_call_wins_whoever_gives_it(outer: str, inner: str) -> None:
    asked: list[str] = []
    ran: list[str] = []

    @tool
    async def act() -> str:
        ran.append("act")
        return RAN

    def decides(name: str, decision: str) -> type[Middleware]:
        def decide(self: Any, ctx: RunContext, call: ToolCall) -> ToolDecision | None:
            asked.append(name)
            return STRICTEST_FIRST[decision]

        return named(name, on_before_tool_call=decide)

    model = Spy(calls("act"), "Done")
    played = loop([decides("Outer", outer), decides("Inner", inner)], model, [act])

    wins = next(name for name in STRICTEST_FIRST if name in (outer, inner))
    assert asked == ["Outer", "Inner"], "all layers are asked"
    assert ran == []
    outcomes = {"abort": "cancelled", "ask": "interrupt"}
    assert played.result.outcome == outcomes.get(wins, "success")
    told = {"deny": ["no"], "skip": ["skipped"]}
    if wins in told:
        assert list(results(played).values()) == told[wins]


def test_equal_decisions_are_the_outermost_layers() -> None:
    infos: list[ToolCallInfo] = []

    def denies(name: str) -> type[Middleware]:
        def decide(self: Any, ctx: RunContext, call: ToolCall) -> Deny:
            return Deny(name)

        def after(self: Any, ctx: RunContext, info: ToolCallInfo) -> None:
            infos.append(info)

        return named(name, on_before_tool_call=decide, on_after_tool_call=after)

    loop([denies("Outer"), denies("Inner")], Spy(calls("look"), "Done"), [look])

    assert {(info.decided_by, info.reason) for info in infos} == {("outer", "Outer")}


# -- one batch ----------------------------------------------------------------------------------


def test_questions_of_two_layers_at_one_boundary_are_one_batch_outermost_first() -> None:
    def asks(name: str) -> type[Middleware]:
        def boundary(self: Any, ctx: RunContext) -> None:
            if ctx.phase == "before_model":
                ctx.interrupt(Interrupt(id=name, reason="check"))

        return named(name, on_interrupt_boundary=boundary)

    played = loop([asks("Outer"), asks("Inner")], Spy("never"))

    found = [interrupt.id.partition("~")[0] for interrupt in played.result.interrupts]
    assert found == ["Outer", "Inner"]


def test_a_tool_that_two_layers_resolve_is_an_error_that_names_both() -> None:
    def resolves(name: str) -> type[Middleware]:
        def config(self: Any, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            known = {each.name for each in config.tools or ()}
            more = () if "look" in known else (look.declaration(),)
            return ModelConfig(tools=(*(config.tools or ()), *more))

        def resolve(self: Any, ctx: RunContext, wanted: str) -> ResolvedTool:
            assert look.run is not None
            return ResolvedTool(look.declaration(), look.run)

        return named(name, on_config=config, resolve_tool=resolve)

    played = loop([resolves("Outer"), resolves("Inner")], Spy(calls("look")))

    assert played.error[0] == "middleware-contract"
    assert "'outer' and 'inner'" in str(played.result.error)


# -- isolated -----------------------------------------------------------------------------------

ISOLATED: Final = (
    "on_start",
    "on_iteration",
    "on_message",
    "on_tool_call",
    "on_usage",
    "on_after_tool_call",
    "on_tool_phase_complete",
)
LOOP_HOOKS: Final = (
    "on_config",
    *ISOLATED,
    "on_event",
    "on_structured_output_config",
    "around_step",
    "around_model_call",
    "on_should_continue",
    "resolve_tool",
    "on_before_tool_call",
    "around_tool_call",
    "on_interrupt_boundary",
)
each_hook = pytest.mark.parametrize("hook", LOOP_HOOKS)


def acting(act: Callable[[RunContext], Any], hook: str) -> Act:
    """Act in a hook, each time that it is called."""

    def do(ctx: RunContext, name: str) -> None:
        if name == hook:
            act(ctx)

    return do


class Shows(Middleware):
    """Shows one more tool to the model, which nobody resolves: the client runs it."""

    def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
        if ctx.phase == "structured_output":
            return None
        other = look.declaration().model_copy(update={"name": "other"})
        return ModelConfig(tools=(*(config.tools or ()), other))


def everything(
    hook: str, act: Callable[[RunContext], Any], log: Sequence, *, on_failure: Any = None
) -> tuple[Played, Spy]:
    """Play a run that calls every hook of a loop, one of which acts."""
    turns = [calls("other" if hook == "resolve_tool" else "look"), "Done", '{"name": "Ulm"}']
    model = Spy(*turns)
    layer = Layer(recorder(log, act=acting(act, hook)), on_failure=on_failure)
    played = loop([layer, Shows], model, [look], run={"output": City})
    assert hook in log.names(), f"{hook} was not called"
    return played, model


@pytest.mark.parametrize("hook", ISOLATED)
def test_a_failure_in_an_isolated_hook_ends_nothing_and_the_other_layer_hears(hook: str) -> None:
    def fail(ctx: RunContext) -> None:
        raise ValueError("a bug")

    bad, good = Sequence(), Sequence()
    layers = [recorder(bad, "bad", acting(fail, hook)), recorder(good, "good")]
    played = loop(layers, Spy(calls("look"), "Done"), [look])

    assert played.result.outcome == "success"
    assert played.result.text == "Done"
    assert bad.names("bad").count(hook) == good.names("good").count(hook) >= 1
    assert list(results(played).values()) == ["found x"], "no second result"


@pytest.mark.parametrize("hook", ISOLATED)
def test_the_operator_can_make_an_isolated_failure_count(hook: str) -> None:
    def fail(ctx: RunContext) -> None:
        raise ValueError("a bug")

    log = Sequence()
    layer = Layer(recorder(log, act=acting(fail, hook)), on_failure="fail")
    played = loop([layer], Spy(calls("look"), "Done"), [look])

    assert played.error == ("middleware-failed", "The run could not be completed.")
    assert log.names().count(hook) == 1
    assert log.names()[-2:] == ["on_error", "on_end"]


# -- one of them ends the run -------------------------------------------------------------------


class Retries(Middleware):
    """Tries again whatever can be tried again."""

    may_repeat = True

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        for _ in range(3):
            try:
                events = [event async for event in call_next(request)]
                break
            except Transient:
                continue
        for event in events:
            yield event


@pytest.mark.parametrize("on_failure", ["fail", "skip"])
@each_hook
def test_a_refusal_from_any_hook_is_one_run_error_with_its_code(hook: str, on_failure: str) -> None:
    def refuse(ctx: RunContext) -> None:
        raise Reject("too-much", "You have had enough.", status=429)

    log = Sequence()
    played, model = everything(hook, refuse, log, on_failure=on_failure)

    assert played.error == ("too-much", "You have had enough.")
    assert log.names().count(hook) == 1, "it went on"
    assert [name for name in log.names() if name in ("on_finish", "on_abort", "on_error")] == [
        "on_error"
    ]
    assert len(model.requests) <= 3


def test_a_refusal_is_not_tried_again() -> None:
    log = Sequence()

    def refuse(ctx: RunContext) -> None:
        raise Reject("too-much", "You have had enough.", status=429)

    model = Spy("never")
    layers = [Retries, recorder(log, act=acting(refuse, "around_model_call"))]
    played = loop(layers, model)

    assert played.error[0] == "too-much"
    assert log.names().count("around_model_call") == 1
    assert model.requests == []


def swallowing(act: Callable[[RunContext], Any]) -> Callable[[RunContext], None]:
    def do(ctx: RunContext) -> None:
        with suppress(BaseException):  # what a careless author may write
            act(ctx)

    return do


ENDS: Final[dict[str, tuple[Callable[[RunContext], Any], str]]] = {
    "finish": (lambda ctx: ctx.finish("Bye"), "success"),
    "abort": (lambda ctx: ctx.abort("enough"), "cancelled"),
    "interrupt": (lambda ctx: ctx.interrupt(Interrupt(id="q", reason="check")), "interrupt"),
}


@pytest.mark.parametrize("swallows", [False, True], ids=["raised", "swallowed"])
@pytest.mark.parametrize("way", ENDS)
@each_hook
def test_a_layer_can_end_the_run_from_any_hook_and_swallowing_that_does_not_help(
    hook: str,
    way: str,
    swallows: bool,  # noqa: FBT001
) -> None:
    act, outcome = ENDS[way]
    log = Sequence()
    played, model = everything(hook, swallowing(act) if swallows else act, log)

    if (hook, way, swallows) == ("around_tool_call", "interrupt", True):
        # It went on and had the call executed: what it asked about cannot be asked any more.
        assert played.error[0] == "middleware-contract"
        return
    assert played.result.outcome == outcome
    if way == "finish":
        assert played.result.text == "Bye"
    told = [name for name in log.names() if name in ("on_finish", "on_abort", "on_error")]
    assert told == ["on_abort" if way == "abort" else "on_finish"]
    assert len(model.requests) <= 3


def test_a_step_that_answers_in_place_of_the_iteration_ends_the_loop() -> None:
    class Answers(Middleware):
        async def around_step(
            self, ctx: RunContext, call_next: CallStep
        ) -> AsyncIterator[BaseEvent]:
            if ctx.iteration == 0:
                async for event in call_next():
                    yield event
                return
            for event in say("enough"):
                yield event

    model = Spy(calls("look"), "never")
    played = loop([Answers], model, [look])

    assert (played.result.outcome, played.result.text) == ("success", "enough")
    assert len(model.requests) == 1


def test_a_step_that_a_layer_breaks_off_fails_the_run_and_says_why() -> None:
    """Nobody could tell what came of it, and the loop could go on for ever."""
    begun: list[int] = []

    class Drops(Middleware):
        async def around_step(
            self, ctx: RunContext, call_next: CallStep
        ) -> AsyncIterator[BaseEvent]:
            begun.append(ctx.iteration)
            async for event in call_next():
                if event.type.value == "STEP_STARTED":
                    break
            for event in say("again", message=f"m{ctx.iteration}"):
                yield event

    played = loop([Drops], Spy("never"))

    assert begun == [0]
    assert isinstance(played.result.error, MiddlewareError)
    assert "around_step ended before the iteration inside it had" in str(played.result.error)


# -- many runs at once --------------------------------------------------------------------------


class Echo:
    """A model that calls ``echo`` with what the user said, then says what it was told."""

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        await asyncio.sleep(0)
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            for event in say(str(last.content), message=ctx.message_id):
                await asyncio.sleep(0)
                yield event
            return
        said = str(last.content)
        yield ToolCallChunkEvent(
            tool_call_id="c1",
            tool_call_name="echo",
            parent_message_id=ctx.message_id,
            delta=f'{{"q": "{said}"}}',
        )


def test_many_runs_at_once_on_one_host_never_mix() -> None:  # noqa: C901 - a layer of many hooks
    @tool
    async def echo(q: str) -> str:
        for _ in range(int(q) % 5):
            await asyncio.sleep(0)
        return q

    class Remembers(Middleware):
        def setup(self, ctx: RunContext) -> None:
            self.own = ctx.run_id
            self.heard: set[str] = set()

        def _hear(self, ctx: RunContext) -> None:
            assert ctx.run_id == self.own
            assert ctx.thread_id == f"t{self.own}"

        def on_iteration(self, ctx: RunContext, info: IterationInfo) -> None:
            self._hear(ctx)

        async def around_step(
            self, ctx: RunContext, call_next: CallStep
        ) -> AsyncIterator[BaseEvent]:
            self._hear(ctx)
            async for event in call_next():
                self._hear(ctx)
                yield event

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            self._hear(ctx)
            self.heard.add(call.args["q"])
            return await call_next(call)

        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            self._hear(ctx)
            self.heard |= {event.delta} if event.type.value == "TEXT_MESSAGE_CONTENT" else set()  # type: ignore[attr-defined]

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            ctx.attributes["heard"].append((self.own, end.kind, self.heard))

    async def use(host: Any) -> None:
        heard: list[tuple[str, str, set[str]]] = []

        async def one(number: int) -> Played:
            asked = asking([user(str(number))], run_id=f"r{number}", thread_id=f"tr{number}")
            return await seen(host.run(asked, attributes={"heard": heard}))

        played = await asyncio.gather(*(one(number) for number in range(40)))

        for number, run in enumerate(played):
            assert run.result.text == str(number)
            assert {event.run_id for event in run.events if hasattr(event, "run_id")} == {
                f"r{number}"
            }
        assert sorted(heard, key=lambda each: int(each[0][1:])) == [
            (f"r{number}", "finish", {str(number)}) for number in range(40)
        ]

    within([Remembers], LoopAgent(Echo(), [echo]), use)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (ModelConfig(tools=cast("Any", ("search",))), "gave tools with a str"),
        (ModelConfig(system_prompts=cast("Any", "Be brief.")), "gave system_prompts with a str"),
        (ModelConfig(messages=cast("Any", [3])), "gave messages with an int"),
    ],
)
def test_what_on_config_gives_is_checked_and_the_layer_is_named(
    config: ModelConfig, said: str
) -> None:
    class Wrong(Middleware):
        def on_config(self, ctx: RunContext, given: ModelConfig, /) -> ModelConfig:
            return config

    result = asyncio.run(outcome_of(Wrong))
    assert isinstance(result.error, MiddlewareError)
    assert f"on_config of layer 'wrong' {said}" in str(result.error)


async def outcome_of(layer: type[Middleware]) -> RunResult:
    async with Host([layer], agent=LoopAgent(ScriptedModel("Hello."))) as host:
        return await host.run("Hello?")
