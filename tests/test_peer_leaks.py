"""Where users of other frameworks were hurt by middleware, and what Interpose does instead.

One test for each report; the first line of its text names the thread where it was reported.
"""

from __future__ import annotations

import asyncio
import contextvars
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    EventType,
    RunAgentInput,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)
from playing import agent_of, finished, play, say, started

from interpose import (
    DROP,
    AgentContext,
    CallRun,
    EndInfo,
    Host,
    Layer,
    LifespanContext,
    Middleware,
    Point,
    Reject,
    RunContext,
    StartupError,
    Trace,
    UsageError,
    middleware,
    on,
)

redact = pytest.importorskip("interpose_redact")

EMAIL = ("ada.love", "lace@exam", "ple.com")
WHOLE = "".join(EMAIL)


class Capitals(Middleware):
    @on(TextMessageContentEvent)
    def shout(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
        return event.model_copy(update={"delta": event.delta.upper()})


class Box:
    """Keeps what a test's layers have seen; no list, which classes may not share between runs."""

    def __init__(self) -> None:
        self.items: list[Any] = []


async def types_of(run: Any) -> list[str]:
    return [event.type.value async for event in run]


# A. Streaming bypasses or contradicts the middleware --------------------------------------------
def test_streamed_text_is_redacted_and_the_result_is_folded_from_it() -> None:
    """langchain#35011: streaming bypassed the guardrail that the final message went through."""
    played = play([redact.Redact], agent_of(*say("write to ", *EMAIL, " today")))
    assert not any(part in repr(played.events) for part in (*EMAIL, WHOLE))
    assert played.text == played.result.text == played.result.messages[-1].content
    assert WHOLE not in repr(played.result)


def test_what_a_layer_asks_another_agent_stays_out_of_the_stream() -> None:
    """langchain#34382: a middleware's own model calls appeared in the user's stream."""

    async def main() -> None:
        async with Host(agent=agent_of(*say("a summary", message="inner"))) as helper:

            @middleware
            async def summarises(
                ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
            ) -> AsyncIterator[BaseEvent]:
                ctx.attributes["summary"] = (await helper.run("summarise")).text
                async for event in call_next(run_input):
                    yield event

            async with Host([summarises], agent=agent_of(*say("hello"))) as host:
                run = host.run("hi")
                events = [event async for event in run]
                assert "summary" not in repr(events)
                assert [event.type.value for event in events].count("RUN_STARTED") == 1
                assert (await run).text == "hello"

    asyncio.run(main())


def test_a_guard_that_blocks_shows_nothing_before_it_has_decided() -> None:
    """openai-agents-python#300 (#959, #495): the guardrail tripped after tokens were shown."""

    @middleware
    async def guard(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        held = [event async for event in call_next(run_input)]
        if any("bomb" in getattr(event, "delta", "") for event in held):
            raise Reject("blocked", "This answer was blocked.")
        for event in held:
            yield event

    played = play([guard], agent_of(*say("how to build ", "a bomb")))
    assert played.types == ["RUN_STARTED", "RUN_ERROR"]
    assert played.error == ("blocked", "This answer was blocked.")
    assert played.result.text == ""


def test_a_tripped_guard_comes_before_any_work_of_the_agent() -> None:
    """openai-agents-python#1985: tools had run before the parallel tripwire was awaited."""
    ran: list[str] = []

    class Tripwire(Middleware):
        async def setup(self, ctx: RunContext) -> None:
            await asyncio.sleep(0.01)
            raise Reject("tripped", "No.")

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        ran.append("a tool with side effects")
        yield started(run_input)

    assert play([Tripwire], agent).error == ("tripped", "No.")
    assert ran == []


def test_event_hooks_are_called_when_nobody_looks_at_the_events() -> None:
    """pydantic-ai#4986: event hooks were ignored unless a stream handler was set."""

    async def main() -> None:
        async with Host([Capitals], agent=agent_of(*say("hello"))) as host:
            assert (await host.run("hi")).text == "HELLO"

    asyncio.run(main())
    with Host([Capitals], agent=agent_of(*say("hello"))).sync() as host:
        assert host.run("hi").result().text == "HELLO"


def test_a_run_that_is_streamed_and_one_that_is_awaited_have_one_shape() -> None:
    """agent-framework#4237: "Expected ResponseStream, got AgentResponse"."""

    @middleware
    async def cached(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in say("cached"):
            yield event
        yield finished(run_input)

    async def main() -> None:
        async with Host([cached], agent=agent_of()) as host:
            streamed = host.run("hi")
            assert [event.type.value async for event in streamed][-1] == "RUN_FINISHED"
            assert (await streamed).text == (await host.run("hi")).text == "cached"

    asyncio.run(main())

    class Returns(Middleware):
        async def around_run(  # type: ignore[override]
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> str:
            return "an answer"

    with pytest.raises(StartupError, match="around_run is a coroutine"):
        Host([Returns], agent=agent_of())


def test_a_replacement_takes_the_place_of_the_original() -> None:
    """ag-ui#768: a callback's replacement was shown next to the original."""

    @middleware
    async def replaces(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            if isinstance(event, TextMessageContentEvent):
                yield event.model_copy(update={"delta": "the replacement"})
            else:
                yield event

    played = play([replaces], agent_of(*say("the original")))
    assert played.text == "the replacement"
    assert played.types.count("TEXT_MESSAGE_START") == 1
    assert [m.content for m in played.result.messages[1:]] == ["the replacement"]


def test_the_next_request_carries_the_rewrite() -> None:
    """agentscope-java#2676: events were rewritten and the memory was not."""
    asked: list[str] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        asked.append(repr(run_input.messages))
        yield started(run_input)
        for event in say(f"it is {WHOLE}", message=f"m{len(asked)}"):
            yield event
        yield finished(run_input)

    async def main() -> None:
        async with Host([redact.Redact], agent=agent) as host:
            first = await host.run(f"I am {WHOLE}", thread_id="t")
            more = [*first.messages, UserMessage(id="u2", content="again")]
            second = await host.run(more, thread_id="t")
            assert WHOLE not in repr(second.messages[1:])

    asyncio.run(main())
    assert len(asked) == 2
    assert not any(WHOLE in each for each in asked)
    assert "it is" in asked[1]


# C. State leaks between runs ---------------------------------------------------------------------
class RemembersUser(Middleware):
    """Keeps what it saw in ``self``, as every author does."""

    def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> None:
        self.user = str(run_input.messages[-1].content)

    @on(TextMessageContentEvent)
    async def sign(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
        await asyncio.sleep(0)
        return event.model_copy(update={"delta": f"for {self.user}"})


async def slow(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    yield started(run_input)
    for event in say("x"):
        await asyncio.sleep(0.001)
        yield event
    yield finished(run_input)


def test_runs_of_one_layer_neither_mix_nor_end_each_other() -> None:
    """agentscope#2331, #2274: a shared middleware mixed queries, and cancelled another's task."""

    class HasTask(RemembersUser):
        def setup(self, ctx: RunContext) -> None:
            self.task = asyncio.create_task(asyncio.sleep(60))

        async def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            ctx.attributes["box"].items.append((self.user, self.task.cancelled()))
            self.task.cancel()

    box = Box()

    async def main() -> None:
        async with Host([HasTask], agent=slow) as host:
            attributes = {"box": box}
            runs = [host.run(name, attributes=attributes) for name in ("ada", "bob", "eve")]
            asyncio.get_running_loop().call_later(0.002, runs[1].cancel)
            ada, bob, eve = await asyncio.gather(*runs)
            assert (ada.text, bob.outcome, eve.text) == ("for ada", "cancelled", "for eve")

    asyncio.run(main())
    assert sorted(box.items) == [("ada", False), ("bob", False), ("eve", False)]


def test_an_instance_belongs_to_one_run_and_what_is_shared_is_declared() -> None:
    """pydantic-ai#5583: isolation that depends on implementing ``for_run`` is a trap."""
    box = Box()

    class Counts(Middleware[Any, Box]):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[Box]:
            yield box

        def setup(self, ctx: RunContext) -> None:
            self.mine = 1
            self.shared.items.append(self)

    async def main() -> None:
        async with Host([Counts], agent=agent_of()) as host:
            await asyncio.gather(host.run("a"), host.run("b"))

    asyncio.run(main())
    assert len({id(instance) for instance in box.items}) == 2

    class Leaks(Middleware):
        seen: list[str] = []  # noqa: RUF012 - what is refused here

        def on_start(self, ctx: RunContext) -> None:
            self.seen.append(ctx.run_id)

    with pytest.raises(StartupError, match="seen"):
        Host([Leaks], agent=agent_of())


def test_state_of_concurrent_requests_to_one_agent_stays_apart() -> None:
    """ag-ui#1277: one agent object served all requests; pydantic-ai#2339: state on shared deps."""

    class Follows(Middleware):
        tracks_state = True

        @on(TextMessageContentEvent)
        async def show(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            await asyncio.sleep(0)
            return event.model_copy(update={"delta": ctx.state["user"]})

    class OneForAll:
        async def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
            yield started(run_input)
            yield StateSnapshotEvent(snapshot={"user": run_input.messages[0].content})
            for event in say("x"):
                await asyncio.sleep(0)
                yield event
            yield finished(run_input)

    async def main() -> None:
        async with Host([Follows], agent=OneForAll()) as host:
            names = [f"user-{number}" for number in range(20)]
            results = await asyncio.gather(*(host.run(name) for name in names))
            assert [result.text for result in results] == names
            assert [result.state for result in results] == [{"user": name} for name in names]

    asyncio.run(main())


def test_nothing_of_a_layer_goes_from_one_thread_to_another() -> None:
    """langchainjs#10693: a middleware's state crossed thread ids."""
    box = Box()

    class Notes(Middleware):
        def setup(self, ctx: RunContext) -> None:
            box.items.append((ctx.thread_id, sorted(vars(self)), dict(ctx.metadata)))
            self.note = ctx.thread_id
            ctx.metadata["note"] = ctx.thread_id

    async def main() -> None:
        async with Host([Notes], agent=agent_of()) as host:
            await host.run("hi", thread_id="one")
            await host.run("hi", thread_id="two")

    asyncio.run(main())
    (_, before, first), (_, after, second) = box.items
    assert (before, first) == (after, second)
    assert second == {}


def test_a_budget_that_many_runs_share_is_one_budget() -> None:
    """ag2#3136: copies of a stateful middleware multiplied its budget."""

    class Left:
        def __init__(self) -> None:
            self.calls = 5
            self.lock = threading.Lock()

    made: list[Left] = []

    class Budget(Middleware[Any, Left]):
        @classmethod
        @asynccontextmanager
        async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[Left]:
            made.append(Left())
            yield made[-1]

        def setup(self, ctx: RunContext) -> None:
            with self.shared.lock:
                if not self.shared.calls:
                    raise Reject("budget", "Used up.", status=429)
                self.shared.calls -= 1

    async def main() -> None:
        agents = {"one": agent_of(), "two": agent_of()}
        async with Host([Budget], agents=agents) as host:
            runs = [host.run("hi", agent=name) for name in ("one", "two") for _ in range(4)]
            outcomes = [result.outcome for result in await asyncio.gather(*runs)]
            assert outcomes.count("success") == 5

    asyncio.run(main())
    assert len(made) == 1


def test_what_an_outer_layer_sets_is_seen_further_in_and_by_the_agent() -> None:
    """fastmcp#3228, #3397: state set in a middleware was invisible in the tool."""
    seen: list[Any] = []

    class Sets(Middleware):
        def setup(self, ctx: RunContext) -> None:
            ctx.metadata["plan"] = "gold"
            ctx.attributes["seen"] = seen

    class Reads(Middleware):
        def on_start(self, ctx: RunContext) -> None:
            ctx.attributes["seen"].append(ctx.metadata["plan"])

    class Agent:
        async def run(
            self, run_input: RunAgentInput, ctx: AgentContext
        ) -> AsyncIterator[BaseEvent]:
            seen.append(ctx.metadata["plan"])
            yield started(run_input)
            yield finished(run_input)

    assert play([Sets, Reads], Agent()).result.outcome == "success"
    assert seen == ["gold", "gold"]


# D. Failures swallowed, or at the wrong layer ------------------------------------------------------
def test_a_failing_layer_fails_the_run() -> None:
    """agent-framework#7522: the failure of a policy became the result of a tool."""
    closed: list[str] = []

    class Policy(Middleware):
        @on(ToolCallStartEvent)
        def judge(self, ctx: RunContext, event: ToolCallStartEvent) -> None:
            raise ConnectionError("the policy server is down")

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        try:
            yield started(run_input)
            yield ToolCallStartEvent(tool_call_id="c", tool_call_name="pay")
            closed.append("never")
        finally:
            closed.append("agent")

    played = play([Policy], agent)
    assert played.types == ["RUN_STARTED", "RUN_ERROR"]
    assert played.error[0] == "middleware-failed"
    assert isinstance(played.result.error, ConnectionError)
    assert closed == ["agent"]


@pytest.mark.parametrize("where", ["setup", "on_input", "on_start", "around_run", "on_event"])
def test_ending_a_run_with_a_result_means_the_same_in_every_hook(where: str) -> None:
    """agent-framework#5354, #3581, #2868: what termination meant depended on the hook."""

    def end(self: Any, ctx: RunContext, *args: Any) -> Any:
        ctx.finish("that is all")

    async def wraps(self: Any, ctx: RunContext, run_input: Any, call_next: Any) -> Any:
        async for event in call_next(run_input):
            yield event
            ctx.finish("that is all")

    hook = wraps if where == "around_run" else end
    ends = type("Ends", (Middleware,), {where: hook, "__module__": __name__})
    told: list[str] = []

    class Outer(Middleware):
        def on_finish(self, ctx: RunContext, info: Any) -> None:
            told.append(info.outcome)

    played = play([Outer, ends], agent_of(*say("never shown", message="agent")))
    assert (played.text, played.result.text) == ("that is all", "that is all")
    assert (played.types[-1], played.result.outcome) == ("RUN_FINISHED", "success")
    assert told == ["success"]


@pytest.mark.parametrize("where", ["setup", "on_input", "around_run", "on_event"])
def test_no_exception_of_a_hook_gets_lost(where: str) -> None:
    """strands harness-sdk#1796: exceptions that hooks raised were dropped."""
    boom = RuntimeError("boom")

    def fail(self: Any, ctx: RunContext, *args: Any) -> Any:
        raise boom

    async def wraps(self: Any, ctx: RunContext, run_input: Any, call_next: Any) -> Any:
        async for event in call_next(run_input):
            yield event
            raise boom

    hook = wraps if where == "around_run" else fail
    fails = type("Fails", (Middleware,), {where: hook, "__module__": __name__})
    told: list[BaseException] = []

    class Outer(Middleware):
        def on_error(self, ctx: RunContext, info: Any) -> None:
            told.append(info.error)

    played = play([Outer, fails])
    assert played.result.error is boom
    assert told == [boom]


def tool_call() -> list[BaseEvent]:
    return [
        ToolCallStartEvent(tool_call_id="c", tool_call_name="charge"),
        ToolCallArgsEvent(tool_call_id="c", delta="{}"),
        ToolCallEndEvent(tool_call_id="c"),
        ToolCallResultEvent(message_id="r", tool_call_id="c", content="charged"),
    ]


def test_a_failing_observer_of_a_completed_call_makes_nothing_run_again() -> None:
    """strands#4338: an after-hook's error made a charged call run again."""
    charged: list[str] = []

    class Retries(Middleware):
        may_repeat = True

        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            try:
                held = [event async for event in call_next(run_input)]
            except Exception:  # noqa: BLE001
                held = [event async for event in call_next(run_input)]
            for event in held:
                yield event

    class Audit(Middleware):
        def on_tool_call(self, ctx: RunContext, call: Any, result: Any) -> None:
            raise OSError("the disk is full")

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        charged.append("once")
        for event in tool_call():
            yield event
        yield finished(run_input)

    played = play([Retries, Audit], agent)
    assert played.result.outcome == "success"
    assert charged == ["once"]


def test_a_layer_that_handles_errors_sees_the_original() -> None:
    """fastmcp#3855, #4126: error and retry middleware saw wrapped or swallowed exceptions."""
    seen: list[BaseException] = []

    @middleware
    async def handles(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        except ConnectionError as error:
            seen.append(error)
            raise

    original = ConnectionError("refused")
    layers = [handles, Capitals, Layer(handles, id="inner"), Layer(Capitals, id="more")]
    played = play(layers, agent_of(original))
    assert seen == [original, original]
    assert played.result.error is original


def test_a_transforming_layer_hides_no_observer() -> None:
    """adk-js#342: a plugin that returned a value kept all others from being called."""

    class Watch(Middleware):
        observes_only = True

        def setup(self, ctx: RunContext) -> None:
            self.seen: list[str] = []

        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            self.seen.append(event.delta)

        def on_message(self, ctx: RunContext, message: Any) -> None:
            self.seen.append(f"whole: {message.content}")

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            box.items.append((ctx.layer, self.seen))

    box = Box()
    play([Watch, Capitals, Layer(Watch, id="inside")], agent_of(*say("a", "b")))
    assert box.items == [
        ("inside", ["a", "b", "whole: ab"]),
        ("watch", ["A", "B", "whole: AB"]),
    ]

    class Drops(Middleware):
        @on(TextMessageContentEvent)
        def drop(self, ctx: RunContext, event: TextMessageContentEvent) -> Any:
            return DROP

    box.items.clear()
    play([Watch, Drops, Layer(Watch, id="inside")], agent_of(*say("a")))
    assert box.items == [("inside", ["a", "whole: a"]), ("watch", ["whole: "])]


# E. Sync and async, signatures, dead hooks -----------------------------------------------------------
def test_plain_and_async_hooks_serve_every_way_to_run() -> None:
    """langchain#33474: built-in middleware failed when the agent was run asynchronously."""

    class Plain(Capitals):
        def setup(self, ctx: RunContext) -> None:
            self.ready = True

    class Async(Middleware):
        async def setup(self, ctx: RunContext) -> None:
            await asyncio.sleep(0)

        @on(TextMessageContentEvent)
        async def mark(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            await asyncio.sleep(0)
            return event.model_copy(update={"delta": f"{event.delta}!"})

    assert play([Plain, Async]).text == "HELLO!"
    with Host([Plain, Async], agent=agent_of(*say("hello"))).sync() as host:
        assert host.run("hi").result().text == "HELLO!"


def test_a_forgotten_declaration_is_an_error_that_says_what_to_write() -> None:
    """langchain#33589: forgetting a declaration was silent, and burned many."""

    class Forgets(Middleware):
        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            _ = ctx.state

    played = play([Forgets])
    assert isinstance(played.result.error, UsageError)
    assert "tracks_state = True" in str(played.result.error)

    class Unready(Middleware):
        def __init__(self, user: str) -> None:
            self.user = user

    with pytest.raises(StartupError, match="arguments"):
        Host([Unready], agent=agent_of())


def test_the_wrong_class_and_the_wrong_call_are_named() -> None:
    """fastmcp#2207, #1450: call_next() for call_next(ctx), and the wrong Middleware class."""

    class Middleware2:
        async def dispatch(self, request: Any, call_next: Any) -> Any:
            return await call_next(request)

    with pytest.raises((StartupError, UsageError), match="Middleware"):
        Host([Middleware2], agent=agent_of())  # type: ignore[list-item]

    @middleware
    async def forgets(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(None):  # type: ignore[arg-type]
            yield event

    played = play([forgets])
    assert "layer 'forgets' called call_next with a NoneType" in str(played.result.error)
    assert "pass the run_input on" in str(played.result.error)


FIRED = (
    *("setup", "on_input", "around_run", "on_start", "on_event", "on_message", "on_tool_call"),
    *("on_usage", "on_finish", "on_end"),
)


def fires_all(box: Box) -> type[Middleware]:
    """Return a middleware with every hook that today's agents reach; ``box`` gets what was called.

    Without on_abort and on_error: a run that succeeds calls neither.
    """

    def noting(name: str) -> Callable[..., None]:
        def hook(self: Any, ctx: RunContext, *args: Any) -> None:
            ctx.attributes.setdefault("fired", set()).add(name)
            if name == "on_end":
                box.items.append(ctx.attributes["fired"])

        return hook

    async def around_run(
        self: Any, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        ctx.attributes["fired"].add("around_run")
        async for event in call_next(run_input):
            yield event

    hooks: dict[str, Any] = {name: noting(name) for name in FIRED}
    hooks |= {"around_run": around_run, "__module__": __name__}
    return type("Fires", (Middleware,), hooks)


MODES = ("iterated", "awaited", "threads", "wrapped", "strict", "traced")


@pytest.mark.parametrize("mode", MODES)
def test_every_hook_fires_in_every_way_to_run(mode: str) -> None:
    """openai-agents-python#1612, #1909, adk-python#4464, PraisonAI#3085: hooks never fired."""
    box = Box()
    cls = fires_all(box)
    usage = {"usage": [TokenUsage(input_tokens=1)]}

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in (*say("hello"), *tool_call()):
            yield event
        yield finished(run_input).model_copy(update=usage)

    async def main() -> None:
        host = Host([cls], agent=agent, strict=mode == "strict")
        wrapped = host.wrap(agent)
        async with host:
            if mode == "wrapped":
                run_input = RunAgentInput(thread_id="t", run_id="r", messages=[])
                run: Any = wrapped.run
                assert [event async for event in run(run_input)]
            elif mode == "awaited":
                await host.run("hi")
            else:
                trace = Trace() if mode == "traced" else None
                assert [event async for event in host.run("hi", trace=trace)]

    if mode == "threads":
        with Host([cls], agent=agent).sync() as threads:
            assert list(threads.run("hi"))
    else:
        asyncio.run(main())
    assert box.items == [set(FIRED)]


def test_a_hook_that_no_agent_can_reach_is_shown_or_refused() -> None:
    """The other half of the reports above: what cannot fire is no silent promise."""

    class Guards(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: Any) -> None:
            """Decide nothing."""

    host = Host([Guards], agent=agent_of())
    assert [hook.name for hook in host.plan().layers[0].inert_hooks] == ["on_before_tool_call"]
    promises = type("Promises", (Guards,), {"essential": (Point.TOOLS,), "__module__": __name__})
    with pytest.raises(StartupError, match="TOOLS"):
        Host([promises], agent=agent_of())


# K. Generators, cancel scopes, context variables ------------------------------------------------------
SPAN: contextvars.ContextVar[str] = contextvars.ContextVar("span", default="none")


@pytest.mark.parametrize("ending", ["drained", "closed", "cancelled", "task", "timeout"])
def test_a_scope_that_is_open_across_events_is_closed_where_it_was_opened(  # noqa: C901 - one branch for each ending
    ending: str,
) -> None:
    """agentscope#2076, adk-python#4894, agno#5208, langfuse#13590: a token of another context."""
    problems: list[str] = []
    closed: list[str] = []

    @asynccontextmanager
    async def span(name: str) -> AsyncGenerator[None]:
        token = SPAN.set(name)
        try:
            yield
        finally:
            try:
                SPAN.reset(token)
                closed.append(name)
            except ValueError as error:
                problems.append(str(error))

    @middleware
    async def traces(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async with span("layer"):
            async for event in call_next(run_input):
                yield event

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        async with span("agent"):
            yield started(run_input)
            if ending in ("cancelled", "task", "timeout"):
                await asyncio.sleep(60)
            yield finished(run_input)

    async def use(host: Host) -> None:
        async with host.run("hi") as run:
            loop = asyncio.get_running_loop()
            if ending == "cancelled":
                loop.call_later(0.01, run.cancel)
            async for _ in run:
                if ending == "closed":
                    break
        assert SPAN.get() == "none"

    async def main() -> None:
        async with Host([traces], agent=agent) as host:
            task = asyncio.create_task(use(host))
            if ending == "task":
                asyncio.get_running_loop().call_later(0.01, task.cancel)
            if ending == "timeout":
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(task, 0.01)
            else:
                await asyncio.wait([task])
            if ending in ("drained", "closed", "cancelled"):
                task.result()

    asyncio.run(main())
    assert problems == []
    assert closed == ["agent", "layer"]


def test_when_a_cancelled_run_has_ended_its_inner_tasks_have_too() -> None:
    """pydantic-ai#5132: cancel returned before internal tasks; adk-python#2196: foreign scope."""
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.005)
            ended.append(name)

    @middleware
    async def beside(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            task = group.create_task(work("layer"))
            async for event in call_next(run_input):
                await asyncio.sleep(0)
                yield event
            task.cancel()

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        async with asyncio.TaskGroup() as group:
            group.create_task(work("agent"))
            yield started(run_input)
            await asyncio.sleep(60)

    async def main() -> None:
        async with Host([beside], agent=agent) as host:
            run = host.run("hi")
            asyncio.get_running_loop().call_later(0.01, run.cancel)
            assert (await types_of(run))[-1] == "RUN_FINISHED"
            assert sorted(ended) == ["agent", "layer"]
            assert (await run).outcome == "cancelled"
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
        assert asyncio.all_tasks() == {task}

    asyncio.run(main())


@pytest.mark.parametrize(
    "ending", ["success", "finish", "abort", "reject", "error", "gone", "cancelled"]
)
def test_what_a_run_opened_is_closed_however_it_ends(  # noqa: C901 - one branch for each ending
    ending: str,
) -> None:
    """langchain#39700, #34165: a folder and a process leaked when the end hook was not reached."""
    folders: list[Path] = []
    told: list[str] = []

    class HasFolder(Middleware):
        def setup(self, ctx: RunContext) -> None:
            self.folder = tempfile.TemporaryDirectory()
            folders.append(Path(self.folder.name))

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            self.folder.cleanup()
            told.append(end.kind)

    class Ends(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            if event.type is not EventType.TEXT_MESSAGE_CONTENT:
                return
            if ending == "finish":
                ctx.finish("done")
            if ending == "abort":
                ctx.abort("enough")
            if ending == "reject":
                raise Reject("no", "No.")

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in say("hello"):
            yield event
        if ending == "error":
            raise ValueError
        if ending == "cancelled":
            await asyncio.sleep(60)
        yield finished(run_input)

    async def main() -> None:
        async with Host([HasFolder, Ends], agent=agent) as host, host.run("hi") as run:
            if ending == "cancelled":
                asyncio.get_running_loop().call_later(0.01, run.cancel)
            async for _ in run:
                if ending == "gone":
                    break
        assert len(folders) == 1
        assert not folders[0].exists()

    asyncio.run(main())
    kinds = {"success": "finish", "finish": "finish", "reject": "error", "error": "error"}
    assert told == [kinds.get(ending, "abort")]
