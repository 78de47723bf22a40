"""Numbered cases of a chat loop: the order of hooks, events, and the end of a plain run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    RunStartedEvent,
    TextMessageContentEvent,
)
from looping import THREAD, Spy, asking, calls, loop

from interpose import (
    DROP,
    AbortInfo,
    Capability,
    EndInfo,
    ErrorInfo,
    FinishInfo,
    IterationInfo,
    Middleware,
    ModelConfig,
    Result,
    RunContext,
    ToolCall,
    ToolCallInfo,
    on,
)
from interpose.loop import ToolContext, tool


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


def logging(log: list[str], name: str = "") -> type[Middleware]:  # noqa: C901 - a hook each
    """Return a layer that writes down which hook is called."""
    say = f"{name} {{}}".format if name else "{}".format

    class Logs(Middleware):
        def on_config(self, ctx: RunContext, config: ModelConfig) -> None:
            log.append(say(f"config {ctx.phase}"))

        def on_start(self, ctx: RunContext) -> None:
            log.append(say("start"))

        def on_iteration(self, ctx: RunContext, info: IterationInfo) -> None:
            log.append(say(f"iteration {info.index}"))

        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            log.append(say(event.type.value))

        def on_usage(self, ctx: RunContext, usage: Any) -> None:
            log.append(say("usage"))

        def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> None:
            log.append(say(f"before {call.id}"))

        def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
            log.append(say(f"after {info.call.id}"))

        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            log.append(say("finish"))

        def on_abort(self, ctx: RunContext, info: AbortInfo) -> None:
            log.append(say("abort"))

        def on_error(self, ctx: RunContext, info: ErrorInfo) -> None:
            log.append(say("error"))

        def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            log.append(say(f"end {end.kind}"))

    Logs.__name__ = name or "Logs"
    return Logs


def test_case_1_a_plain_answer_starts_and_finishes_once() -> None:
    """One text turn: on_start once, on_finish once, which hears why the model stopped and its text."""
    log: list[str] = []
    infos: list[FinishInfo] = []

    class Ends(Middleware):
        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            infos.append(info)

    loop([logging(log), Ends], Spy("Hello"))

    assert (log.count("start"), log.count("finish")) == (1, 1)
    (info,) = infos
    assert info.loop is not None
    assert (info.outcome, info.loop.finish_reason, info.loop.content) == (
        "success",
        "stop",
        "Hello",
    )
    assert info.loop.iterations == 1


def test_case_2_the_hooks_of_a_tool_turn_and_a_text_turn_come_in_one_order() -> None:
    """Configuration, start, then per iteration: configuration, events, usage, tools, results."""
    log: list[str] = []

    loop([logging(log)], Spy(calls("look"), "done"), [look])

    assert log == [
        "config init",
        "start",
        "RUN_STARTED",
        "STEP_STARTED",
        "iteration 0",
        "config before_model",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "usage",
        "before call-1-1",
        "after call-1-1",
        "TOOL_CALL_RESULT",
        "STEP_FINISHED",
        "STEP_STARTED",
        "iteration 1",
        "config before_model",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "usage",
        "STEP_FINISHED",
        "RUN_FINISHED",
        "finish",
        "end finish",
    ]


def test_case_5_layers_are_called_outermost_first_and_events_pass_them_innermost_first() -> None:
    """Of two layers the outer one's sequential hooks come first; an event reaches the inner first."""
    log: list[str] = []

    loop([logging(log, "outer"), logging(log, "inner")], Spy(calls("look"), "done"), [look])

    for hook in ("config init", "start", "iteration 0", "before call-1-1", "after call-1-1"):
        assert log.index(f"outer {hook}") < log.index(f"inner {hook}"), hook
    assert log.index("inner TOOL_CALL_START") < log.index("outer TOOL_CALL_START")
    assert log.index("inner finish") < log.index("outer finish")


def test_case_6_no_event_comes_before_a_slow_on_start_has_ended() -> None:
    """The run waits for on_start."""
    log: list[str] = []

    class Slow(Middleware):
        async def on_start(self, ctx: RunContext) -> None:
            log.append("starts")
            for _ in range(5):
                await asyncio.sleep(0)
            log.append("started")

        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            log.append(event.type.value)

    loop([Slow], Spy("Hello"))

    assert log[:3] == ["starts", "started", "RUN_STARTED"]


def test_case_7_a_slow_event_hook_keeps_the_order_of_events() -> None:
    """Events leave in the order in which they came, however long a hook takes for some of them."""

    class Uneven(Middleware):
        async def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            for _ in range(ctx.event_index % 3):
                await asyncio.sleep(0)

    played = loop([Uneven], Spy("one two three four"))

    assert played.text == "one two three four"
    assert played.types == loop([], Spy("one two three four")).types


def test_case_8_each_event_hook_knows_how_many_events_came_before() -> None:
    """ctx.event_index counts the agent's events from 0, without gaps."""
    indices: list[int] = []

    class Counts(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            indices.append(ctx.event_index)

    played = loop([Counts], Spy("Hello there"))

    assert indices == list(range(len(played.events)))


@pytest.mark.parametrize("given", [THREAD, None])
def test_case_9_a_run_has_the_thread_that_it_was_given_or_a_new_one(given: str | None) -> None:
    """A given thread id is kept in events and contexts; without one each run makes its own."""
    threads: list[str] = []

    class Reads(Middleware):
        def on_start(self, ctx: RunContext) -> None:
            threads.append(ctx.thread_id)

    played = [loop([Reads], Spy("Hello"), run={"thread_id": given}) for _ in range(2)]

    for each, thread in zip(played, threads, strict=True):
        assert isinstance(each.events[0], RunStartedEvent)
        assert each.events[0].thread_id == thread
    assert all(threads)
    assert (threads[0] == threads[1] == given) is (given is not None)


def test_case_10_a_successful_run_calls_exactly_one_terminal_hook() -> None:
    """on_finish, and neither on_abort nor on_error."""
    log: list[str] = []

    loop([logging(log)], Spy("Hello"))

    assert [each for each in log if each in ("finish", "abort", "error")] == ["finish"]


def test_case_11_a_layer_that_does_nothing_changes_nothing() -> None:
    """A run without layers and one with an idle layer give the same events."""

    class Idle(Middleware):
        pass

    def shape(layers: list[type[Middleware]]) -> list[dict[str, Any]]:
        played = loop(layers, Spy(calls("look"), "done"), [look], asked=asking())
        ids = ("message_id", "parent_message_id")
        return [event.model_dump(exclude=set(ids)) for event in played.events]

    assert shape([]) == shape([Idle])


def test_case_12_layers_and_tools_get_the_very_object_that_the_caller_provided() -> None:
    """A value provided for a run reaches a layer and a tool as it is."""
    caller = object()
    user = Capability[object]("test/user", scope="run")
    found: list[object] = []

    class Reads(Middleware):
        requires = (user,)

        def on_start(self, ctx: RunContext) -> None:
            found.append(ctx[user])

    @tool
    async def whoami(ctx: ToolContext) -> str:
        """Say who asks."""
        found.append(ctx[user])
        return "you"

    loop(
        [Reads],
        Spy(calls("whoami"), "done"),
        [whoami],
        run={"provide": {user: caller}},
        host={"provides": [user], "strict": False},
    )

    assert len(found) == 2
    assert all(each is caller for each in found)


# -- events -------------------------------------------------------------------------------------


class Shout(Middleware):
    @on(TextMessageContentEvent)
    def text(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        return event.model_copy(update={"delta": event.delta.upper()})


def test_case_22_a_dropped_event_does_not_reach_the_layers_further_out() -> None:
    """DROP ends an event's way; neither the outer layer nor the consumer sees it."""
    log: list[str] = []

    class Silences(Middleware):
        @on(TextMessageContentEvent)
        def text(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
            return DROP

    played = loop([logging(log), Silences], Spy("Hello"))

    assert "TEXT_MESSAGE_CONTENT" not in log
    assert played.text == ""


def test_case_23_each_of_several_events_goes_through_the_next_layer() -> None:
    """What a layer makes of one event is handled one by one further out."""

    class Doubles(Middleware):
        @on(TextMessageContentEvent)
        def text(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
            return [event, event.model_copy(update={"delta": "!"})]

    log: list[str] = []
    played = loop([logging(log), Shout, Doubles], Spy("hey"))

    assert played.text == "HEY!"
    assert log.count("TEXT_MESSAGE_CONTENT") == 2


def test_case_24_two_transforming_layers_compose_in_order() -> None:
    """The inner layer's result is what the outer one changes."""

    class Wraps(Middleware):
        @on(TextMessageContentEvent)
        def text(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
            return event.model_copy(update={"delta": f"<b>{event.delta}</b>"})

    assert loop([Shout, Wraps], Spy("hey")).text == "<B>HEY</B>"
    assert loop([Wraps, Shout], Spy("hey")).text == "<b>HEY</b>"


def test_case_27_the_message_so_far_includes_the_event_at_hand() -> None:
    """ctx.messages of an event hook has the current delta already."""
    said: list[str] = []

    class Follows(Middleware):
        tracks_state = True

        @on(TextMessageContentEvent)
        def text(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            said.append(str(ctx.messages[-1].content))

    loop([Follows], Spy("one two"))

    assert said == ["one ", "one two"]
