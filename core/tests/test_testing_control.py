"""The checks of calling, control flow, failures, loops, pauses and writes, one edge at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    UserMessage,
)

from interpose import (
    Ask,
    CallModel,
    CallRun,
    CallStep,
    CallTool,
    EndInfo,
    LifespanContext,
    Middleware,
    ModelConfig,
    ModelRequest,
    Reject,
    RunContext,
    Settings,
    Skip,
    Stage,
    ToolCall,
    ToolCallInfo,
    ToolResult,
    Transient,
)
from interpose.testing import ContractViolation, Finding, contract
from interpose.testing.contracts.call_spying import spied
from interpose.testing.contracts.loop_playing import calling, play_loop, play_turn
from interpose.testing.contracts.loop_tools import MOST
from interpose.testing.contracts.subject import Subject, subject_of

Cls = type[Middleware[Any, Any]]


def found(cls: Cls, check: str, **options: Any) -> Finding | None:
    """Run one check of a middleware."""
    checks = {each.name: each for each in contract(cls, **options)}
    try:
        checks[check]()
    except ContractViolation as violation:
        return violation.finding
    return None


def told(cls: Cls, check: str, **options: Any) -> str:
    """Return what happened, by one check that has to find something."""
    finding = found(cls, check, **options)
    assert finding is not None
    return finding.happened


def subject(cls: Cls, settings: dict[str, Any] | None = None) -> Subject:
    return subject_of(cls, settings, None, None, ())


async def passing(stream: AsyncIterator[BaseEvent]) -> AsyncIterator[BaseEvent]:
    async for event in stream:
        yield event


# call-next ---------------------------------------------------------------------------------
class Footer(Middleware):
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        tools = 0
        async for event in call_next(run_input):
            tools += event.type.value == "TOOL_CALL_START"
            yield event
        if tools:
            yield TextMessageStartEvent(message_id="footer", role="assistant")


def test_what_is_yielded_after_the_terminal_is_told_with_the_smallest_stream() -> None:
    check = next(each for each in contract(Footer) if each.name == "call-next")
    with pytest.raises(ContractViolation) as caught:
        check()
    assert str(caught.value) == (
        "Footer breaks its contract: call-next\n"
        "  happened: around_run yielded after the terminal event, and that is lost: "
        '{"type":"TEXT_MESSAGE_START","messageId":"footer","role":"assistant"} (a plain stream)\n'
        "  expected: what is to be seen is yielded before RUN_FINISHED: look for it in the loop\n"
        "  why it matters: What call_next gives is the rest of the run. Called twice it does "
        "everything twice, left early it loses what was still to come, and its ending with it.\n"
        "  the smallest stream that shows it:\n"
        '    {"type":"TOOL_CALL_START","toolCallId":"call","toolCallName":"look_up"}\n'
        '    {"type":"TOOL_CALL_END","toolCallId":"call"}'
    )


def test_a_second_call_that_the_host_refuses_is_found_though_it_is_swallowed() -> None:
    class Again(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            try:
                return await call_next(call)
            except Transient:
                try:
                    return await call_next(call)
                except Exception:  # noqa: BLE001 - as such code does
                    return ToolResult("It failed.", error="It failed.")

    assert told(Again, "call-next") == (
        "call_next was called 2 times, in around_tool_call: layer 'again' called call_next of "
        "around_tool_call a second time (a tool fails)"
    )


def test_an_endless_repetition_is_found_and_no_check_waits_for_its_end() -> None:
    class Endless(Middleware):
        stage = Stage.CALL
        may_repeat = True

        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> AsyncIterator[BaseEvent]:
            while True:
                try:
                    async for event in passing(call_next(request)):
                        yield event
                except Transient:
                    await ctx.sleep(1)
                else:
                    return

    assert "more than 50 times" in told(Endless, "call-next")
    assert found(Endless, "exceptions") is None
    assert found(Endless, "writes-once") is None


def test_a_call_that_is_not_awaited_is_found_and_python_does_not_warn() -> None:
    class Forgetful(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            call_next(call)
            return ToolResult("done")

    assert told(Forgetful, "call-next").startswith("call_next(call) was called and never awaited")


def test_a_coroutine_in_place_of_a_result_is_found() -> None:
    class Hasty(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            return call_next(call)  # type: ignore[return-value]

    assert "never awaited" in told(Hasty, "call-next")


def test_an_input_and_a_request_that_are_changed_in_place_are_found() -> None:
    class Adds(Middleware):
        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            run_input.messages.append(UserMessage(id="more", content="Be short."))
            async for event in call_next(run_input):
                yield event

    class Warms(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> AsyncIterator[BaseEvent]:
            request.settings["temperature"] = 1  # type: ignore[index]
            async for event in call_next(request):
                yield event

    assert told(Adds, "call-next").startswith("around_run changed the input in place")
    assert told(Warms, "call-next").startswith("around_model_call changed the request in place")


def test_a_call_with_nothing_is_told_with_what_the_host_wants() -> None:
    class Empty(Middleware):
        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(None):  # type: ignore[arg-type]
                yield event

    finding = found(Empty, "call-next")
    assert finding is not None
    assert "called call_next with a NoneType" in finding.happened
    assert finding.expected == "pass the run_input on, or a changed copy of it"


def test_a_stream_that_is_left_before_its_end_is_found() -> None:
    class Leaves(Middleware):
        async def around_step(
            self, ctx: RunContext, call_next: CallStep
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next():
                yield event
                if isinstance(event, TextMessageEndEvent):
                    break

    class LeavesTheRun(Middleware):
        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(run_input):
                if isinstance(event, RunFinishedEvent):
                    break
                yield event

    assert told(Leaves, "call-next") == (
        "around_step left the stream of call_next before its end: what came later is lost "
        "(a plain loop)"
    )
    assert "the run failed" in told(LeavesTheRun, "call-next")


def test_a_hook_that_neither_goes_on_nor_answers_is_found() -> None:
    class Silent(Middleware):
        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            return
            yield

    assert "the run failed" in told(Silent, "call-next")


def test_a_layer_that_stops_a_long_answer_with_an_ending_is_right() -> None:
    class Stops(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> AsyncIterator[BaseEvent]:
            length = 0
            async for event in call_next(request):
                if isinstance(event, TextMessageContentEvent):
                    length += len(event.delta)
                    if length > 40:
                        yield TextMessageEndEvent(message_id=event.message_id)
                        return
                yield event

    assert found(Stops, "call-next") is None


def test_a_class_that_does_not_let_itself_be_subclassed_is_not_watched() -> None:
    class Closed(Middleware):
        def __init_subclass__(cls) -> None:
            raise TypeError("closed")

        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(run_input):
                yield event

    assert spied(subject(Closed)) is None
    assert found(Closed, "call-next") is None


# control-flow ------------------------------------------------------------------------------
def test_a_refusal_that_becomes_a_result_is_found() -> None:
    class Calm(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            try:
                return await call_next(call)
            except Exception:  # noqa: BLE001 - as such code does
                return ToolResult("It failed.", error="It failed.")

    assert told(Calm, "control-flow") == (
        "around_tool_call of a layer further in raises Reject, and the run ends as success"
    )


def test_a_retry_that_swallows_the_question_of_a_tool_is_found() -> None:
    class Insists(Middleware):
        stage = Stage.CALL
        may_repeat = True

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            try:
                return await call_next(call)
            except (Reject, asyncio.CancelledError):
                raise
            except BaseException:  # noqa: BLE001 - as such code does
                return await call_next(call)

    assert found(Insists, "control-flow") is not None


def test_a_layer_that_holds_on_to_a_cancelled_tool_is_found() -> None:
    class Holds(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            try:
                return await call_next(call)
            except asyncio.CancelledError:
                await asyncio.Event().wait()
                raise

    assert told(Holds, "control-flow") == (
        "the run was cancelled while a tool waited, and it went on"
    )


def test_who_answers_or_refuses_in_place_of_the_agent_swallows_nothing() -> None:
    class Closed(Middleware):
        def setup(self, ctx: RunContext) -> None:
            raise Reject("closed", "We are closed.")

        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            """Pass everything."""

    class Answers(Middleware):
        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            ctx.finish("We are closed.")
            yield RunFinishedEvent(thread_id=ctx.thread_id, run_id=ctx.run_id)

    for cls in (Closed, Answers):
        assert found(cls, "control-flow") is None
        assert found(cls, "exceptions") is None


# exceptions, unusual-payloads --------------------------------------------------------------
def test_the_text_of_an_exception_in_the_stream_is_found() -> None:
    class Talks(Middleware):
        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            try:
                return await call_next(call)
            except RuntimeError as error:
                return ToolResult(f"It failed: {error}", error=str(error))

    said = told(Talks, "exceptions")
    assert said.startswith("the tool 'crash' raised an exception, and the consumer was shown")


def test_a_stream_that_stopped_and_counts_as_a_success_is_found() -> None:
    class Closes(Middleware):
        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            from interpose.errors import TruncatedStream

            try:
                async for event in call_next(run_input):
                    yield event
            except TruncatedStream:
                yield RunFinishedEvent(thread_id=ctx.thread_id, run_id=ctx.run_id)

    assert told(Closes, "exceptions") == (
        "the agent's stream stopped without an ending, and the run ended as success and the text "
        "'Well, hello.'"
    )


def test_an_isolated_hook_that_fails_is_found_in_the_log_of_the_operator() -> None:
    class Tallies(Middleware):
        on_failure = "skip"

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            ctx.log.debug("{}", end.info.usage)  # type: ignore[union-attr]

    assert told(Tallies, "unusual-payloads") == (
        "a cancelled run: on_end failed (AttributeError: 'AbortInfo' object has no attribute "
        "'usage')"
    )


def test_a_refusal_is_no_failure_of_a_hook() -> None:
    class Strict(Middleware):
        def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> None:
            if not run_input.messages:
                raise Reject("empty", "Say something.", status=422)

    assert found(Strict, "unusual-payloads") is None


def test_the_bare_event_that_a_hook_cannot_take_is_the_only_one_shown() -> None:
    class Names(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            if event.type.value == "STATE_SNAPSHOT":
                event.snapshot.get("name")  # type: ignore[attr-defined]

    finding = found(Names, "unusual-payloads")
    assert finding is not None
    assert [event.type.value for event in finding.stream] == ["STATE_SNAPSHOT"]


# loops -------------------------------------------------------------------------------------
def test_what_a_tool_is_given_must_not_depend_on_the_pieces() -> None:
    class Masks(Middleware):
        rewrites_history = True

        def on_event(self, ctx: RunContext, event: BaseEvent) -> BaseEvent:
            if event.type.value == "TOOL_CALL_ARGS" and "parcel" in event.delta:  # type: ignore[attr-defined]
                return event.model_copy(update={"delta": "{}"})
            return event

    assert found(Masks, "loop-stream") is not None


def test_requests_that_grow_in_any_way_are_found() -> None:
    class Longer(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            said = " ".join(config.system_prompts or ())
            return ModelConfig(system_prompts=(f"{said} Be short.",), persist=True)

    class Reminds(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            more = UserMessage(id=f"r-{ctx.iteration}", content="Be short.")
            return ModelConfig(messages=(*(config.messages or ()), more), persist=True)

    class Once(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig | None:
            if "Be short." in (config.system_prompts or ()):
                return None
            return ModelConfig(
                system_prompts=(*(config.system_prompts or ()), "Be short."), persist=True
            )

    assert "adds to the system prompt" in told(Longer, "steady-config")
    assert "'user: Be short.'" in told(Reminds, "steady-config")
    assert found(Once, "steady-config") is None


def test_an_answer_that_the_loop_does_not_take_is_found() -> None:
    class Odd(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Any:
            return {"type": "skip"}

    assert "on_before_tool_call of layer 'odd' returned a dict" in told(Odd, "loop-stream")


# resume ------------------------------------------------------------------------------------
def test_what_is_kept_in_the_class_does_not_reach_another_process() -> None:
    class Keeps(Middleware):
        seen: ClassVar[tuple[str, ...]] = ()

        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            type(self).seen = (*self.seen, ctx.run_id)
            known = f"You have answered {len(dict.fromkeys(self.seen))} questions."
            return ModelConfig(system_prompts=(known,))

    assert "in the same process and in another one" in told(Keeps, "resume")
    assert Keeps.seen == ()


def test_a_limit_by_time_and_texts_by_chance_are_no_state_that_is_missed() -> None:
    class Slow(Middleware[Any, dict[str, float]]):
        @classmethod
        @asynccontextmanager
        async def lifespan(
            cls, settings: Any, ctx: LifespanContext
        ) -> AsyncGenerator[dict[str, float]]:
            yield {}

        def setup(self, ctx: RunContext) -> None:
            now = ctx.clock.time()
            if now - self.shared.get(ctx.thread_id, 0.0) < 60:
                raise Reject("slow", "One run a minute.", status=429)
            self.shared[ctx.thread_id] = now

    class Luck(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            return ModelConfig(system_prompts=(f"Your lucky number is {random.random()}.",))  # noqa: S311

    assert found(Slow, "resume") is None
    assert found(Luck, "resume") is None


# writes-once, own-results ------------------------------------------------------------------
class Cache(Middleware[Any, dict[str, ToolResult]]):
    """Keeps results by what ``key`` says."""

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: Any, ctx: LifespanContext
    ) -> AsyncGenerator[dict[str, ToolResult]]:
        yield {}

    def key(self, ctx: RunContext, call: ToolCall) -> str:
        return f"{call.name} {sorted(call.args.items())}"

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Skip | None:
        known = self.shared.get(self.key(ctx, call))
        return None if known is None else Skip(known, cached=True)

    def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
        self.shared[self.key(ctx, info.call)] = info.result


def test_results_that_are_found_again_by_too_little_are_found() -> None:
    class ByName(Cache):
        def key(self, ctx: RunContext, call: ToolCall) -> str:
            return call.name

    class ByQuery(Cache):
        def key(self, ctx: RunContext, call: ToolCall) -> str:
            return f"{call.name} {call.args.get('query')}"

    class OfWrites(Cache):
        def key(self, ctx: RunContext, call: ToolCall) -> str:
            user = "bob" if "run-4" in ctx.run_id else "ada"
            return f"{user} {super().key(ctx, call)}"

    assert "look_up(query='beta') got the answer to look_up(query='alpha')" in told(
        ByName, "own-results"
    )
    assert "look_up(amount=2) got the answer to look_up(amount=1)" in told(ByQuery, "own-results")
    assert "for the user bob got the answer to a call for the user ada" in told(
        Cache, "own-results"
    )
    assert "'place_order', which writes, was not executed" in told(OfWrites, "own-results")


def test_a_write_that_is_repeated_since_the_bookkeeping_failed_is_found() -> None:
    class Books(Middleware):
        stage = Stage.CALL
        may_repeat = True

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            try:
                result = await call_next(call)
                ctx.attributes["books"].append(call.id)  # nobody has made them
            except KeyError:
                return await call_next(call)
            return result

    assert told(Books, "writes-once") == (
        "the tool succeeds: the call 'call-1-1' of the tool 'place_order', which writes, was "
        "executed 2 times"
    )


# Playing -----------------------------------------------------------------------------------
class Mail(Settings):
    tool: str = "send_mail"
    model: str = "small"


class Routes(Middleware[Mail]):
    """Lets people decide about the tool of its settings, and asks the model of its settings."""

    def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
        return ModelConfig(model=self.settings.model)

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Ask | None:
        return Ask("Sure?") if call.name == self.settings.tool else None


def test_people_agree_to_what_the_middleware_and_the_tools_ask() -> None:
    turns = (calling("send_mail", "look_up"), calling("ask_first"), "Done.")
    heard = asyncio.run(play_turn(subject(Routes), turns))
    assert [run.result.outcome for run in heard.runs] == ["interrupt", "interrupt", "success"]
    assert [each.tool for each in heard.executed] == ["send_mail", "look_up", "ask_first"]
    assert [each.tool for each in heard.begun].count("ask_first") == 2
    assert {request.model for request in heard.requests} == {"small"}


def test_a_call_has_the_same_key_in_the_process_that_goes_on_with_it() -> None:
    turns = (calling("send_mail"), "Done.")
    put_back: list[int] = []
    playing = play_turn(subject(Routes), turns, new_process=lambda: put_back.append(1))
    heard = asyncio.run(playing)
    assert [each.key for each in heard.executed] == ["run-1:call-1-1"]
    assert put_back == [1]


def test_a_tool_that_is_called_on_and_on_succeeds_in_the_end() -> None:
    class Endless(Middleware):
        stage = Stage.CALL
        may_repeat = True

        async def around_tool_call(
            self, ctx: RunContext, call: ToolCall, call_next: CallTool
        ) -> ToolResult:
            while True:
                try:
                    return await call_next(call)
                except Transient:
                    pass

    heard = asyncio.run(play_loop(subject(Endless), (calling("flicker"), "Done.")))
    assert len(heard.of("flicker")) == MOST + 1
    assert heard.last.result.outcome == "success"
