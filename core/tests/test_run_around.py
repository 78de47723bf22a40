"""``around_run``: order, short-circuits, repetition, failures, closing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import (
    BaseEvent,
    EventType,
    RunAgentInput,
    RunErrorEvent,
    TextMessageContentEvent,
)
from playing import agent_of, finished, play, say, started

from interpose import (
    AgentFailed,
    CallRun,
    Layer,
    Middleware,
    Reject,
    RunContext,
    TruncatedStream,
    middleware,
    on,
)


def tracing(name: str, trace: list[str]) -> type[Middleware]:
    @middleware(id=name)
    async def layer(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        trace.append(f"{name} in")
        try:
            async for event in call_next(run_input):
                yield event
        finally:
            trace.append(f"{name} out")

    return layer


def test_the_first_layer_is_outermost() -> None:
    trace: list[str] = []
    play([tracing("a", trace), tracing("b", trace)])
    assert trace == ["a in", "b in", "b out", "a out"]


def test_a_layers_event_hooks_sit_inside_its_own_around_run() -> None:
    class Both(Middleware):
        @on(TextMessageContentEvent)
        def inner(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            return event.model_copy(update={"delta": event.delta + " inner"})

        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(run_input):
                if isinstance(event, TextMessageContentEvent):
                    yield event.model_copy(update={"delta": event.delta + " around"})
                else:
                    yield event

    assert play([Both]).text == "hello inner around"


def test_a_short_circuit_is_the_run_and_inner_layers_finish() -> None:
    ended: list[str] = []

    class Inner(Middleware):
        def on_finish(self, ctx: RunContext, info: Any) -> None:
            ended.append(info.outcome)

    @middleware
    async def cached(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in say("from the cache"):
            yield event
        yield finished(run_input)

    asked: list[str] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        asked.append("agent")
        yield started(run_input)

    played = play([cached, Inner], agent)
    assert played.text == "from the cache"
    assert (asked, ended) == ([], ["success"])


def test_a_second_call_of_call_next_fails_the_run_and_names_the_layer() -> None:
    @middleware
    async def greedy(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        call_next(run_input)
        async for event in call_next(run_input):
            yield event

    played = play([greedy])
    assert played.error[0] == "middleware-contract"
    assert "layer 'greedy' called call_next a second time" in str(played.result.error)


class Retry(Middleware):
    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        for attempt in range(3):
            try:
                held = [event async for event in call_next(run_input)]
            except ConnectionError:
                if attempt == 2:
                    raise
                continue
            for event in held:
                yield event
            return


def test_a_repeated_run_starts_inner_layers_afresh_and_ends_each_attempt_once() -> None:
    trace: list[Any] = []

    class Inner(Middleware):
        def setup(self, ctx: RunContext) -> None:
            self.count = 0
            trace.append(("setup", ctx.attempt))

        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            self.count += 1

        def on_error(self, ctx: RunContext, info: Any) -> None:
            trace.append(("error", ctx.attempt, self.count))

        def on_finish(self, ctx: RunContext, info: Any) -> None:
            trace.append(("finish", ctx.attempt, self.count))

    attempts = iter([ConnectionError("1"), ConnectionError("2"), None])

    async def flaky(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        failure = next(attempts)
        for event in say("hello"):
            yield event
        if failure is not None:
            raise failure
        yield finished(run_input)

    played = play([Retry, Inner], flaky)
    assert played.types.count("RUN_STARTED") == 1
    assert played.text == "hello"
    assert trace == [
        ("setup", 1),
        ("error", 1, 1),
        ("setup", 2),
        ("error", 2, 1),
        ("setup", 3),
        ("finish", 3, 1),
    ]


def test_repeating_after_output_has_left_is_refused() -> None:
    class Hasty(Middleware):
        may_repeat = True

        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            try:
                async for event in call_next(run_input):
                    yield event
            except ConnectionError:
                async for event in call_next(run_input):
                    yield event

    played = play([Hasty], agent_of(*say("a"), ConnectionError()))
    assert played.error[0] == "repeat-after-output"


def test_around_run_sees_the_agents_own_exception_and_may_recover() -> None:
    seen: list[BaseException] = []

    @middleware
    async def friendly(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        except Exception as error:  # noqa: BLE001
            seen.append(error)
            for event in say("sorry", message="s"):
                yield event
            yield finished(run_input)

    boom = ValueError("secret")
    played = play([friendly], agent_of(say("half ")[0], say("half ")[1], boom))
    assert seen == [boom]
    assert played.result.outcome == "success"
    assert played.types[-3:] == ["TEXT_MESSAGE_END", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert played.text == "half sorry"


def test_a_run_error_that_the_agent_sent_is_agent_failed_in_around_run() -> None:
    seen: list[Any] = []

    @middleware
    async def look(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        except AgentFailed as error:
            seen.append((error.code, error.message))
            raise

    error = RunErrorEvent(message="overloaded", code="busy")
    played = play([look], agent_of(error, finish=False))
    assert seen == [("busy", "overloaded")]
    assert played.error == ("busy", "overloaded")


def test_an_error_that_the_agent_gave_no_code_has_one_whether_or_not_a_layer_wraps_the_run() -> (
    None
):
    @middleware
    async def pass_on(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            yield event

    for layers in ([], [pass_on]):
        played = play(layers, agent_of(RunErrorEvent(message="overloaded"), finish=False))
        assert played.error == ("agent-failed", "overloaded")


def test_the_original_exception_survives_every_boundary() -> None:
    seen: list[BaseException] = []

    @middleware
    async def pass_on(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        except Exception as error:
            seen.append(error)
            raise

    class Watch(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            """Make a boundary."""

    boom = ValueError("deep")
    layers = [pass_on, Watch, Layer(pass_on, id="inner"), Layer(Watch, id="watch-2")]
    played = play(layers, agent_of(boom))
    assert seen == [boom, boom]
    assert played.result.error is boom
    assert played.error == ("agent-failed", "The agent failed.")


def test_a_stream_that_just_stops_is_an_error() -> None:
    played = play([], agent_of(*say("hello"), finish=False))
    assert played.error[0] == "truncated-stream"
    assert isinstance(played.result.error, TruncatedStream)


def test_a_layer_that_swallows_the_terminal_is_named() -> None:
    @middleware
    async def swallow(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            if event.type is not EventType.RUN_FINISHED:
                yield event

    played = play([swallow])
    assert played.error[0] == "truncated-stream"
    assert "around_run of layer 'swallow'" in str(played.result.error)


def test_a_layer_that_forgets_to_close_leaves_nothing_open() -> None:
    closed: list[str] = []

    @middleware
    async def stop_early(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            yield event
            break
        yield finished(run_input)

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        try:
            yield started(run_input)
            yield say("never seen")[0]
        finally:
            closed.append("agent")

    assert play([stop_early], agent).types == ["RUN_STARTED", "RUN_FINISHED"]
    assert closed == ["agent"]


def test_around_run_that_is_no_stream_is_refused_at_startup() -> None:
    import pytest

    from interpose import StartupError

    class Coroutine(Middleware):
        async def around_run(  # type: ignore[override]
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> None:
            """Forget to yield."""

    with pytest.raises(StartupError, match="around_run is a coroutine"):
        play([Coroutine])


def test_a_skipped_layer_leaves_the_stream_whole() -> None:
    class Broken(Middleware):
        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(run_input):
                if event.type is EventType.TEXT_MESSAGE_CONTENT:
                    raise RuntimeError("metrics are down")
                yield event

    ended: list[str] = []

    class Watched(Broken):
        def on_end(self, ctx: RunContext, end: Any) -> None:
            ended.append(end.kind)

    played = play([Layer(Watched, on_failure="skip")], agent_of(*say("a", "b")))
    assert played.text == "ab"
    assert played.result.outcome == "success"
    assert ended == ["finish"]


def test_reject_inside_the_run_is_shown_as_it_is() -> None:
    class Quota(Middleware):
        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            raise Reject("quota", "Your quota is used up.", status=429, retry_after=60)

    played = play([Layer(Quota, on_failure="skip")])
    assert played.error == ("quota", "Your quota is used up.")
    assert played.result.error.retry_after == 60
