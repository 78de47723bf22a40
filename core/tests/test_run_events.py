"""Event hooks: what they get, what they may return, in which order."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunErrorEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from playing import agent_of, play, say

from interpose import DROP, Middleware, MiddlewareError, RunContext, Stage, on


def content(text: str, message: str = "m") -> TextMessageContentEvent:
    return TextMessageContentEvent(message_id=message, delta=text)


class Upper(Middleware):
    @on(TextMessageContentEvent)
    def up(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
        return event.model_copy(update={"delta": event.delta.upper()})


class AsyncMark(Middleware):
    @on(TextMessageContentEvent)
    async def mark(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
        return event.model_copy(update={"delta": event.delta + "!"})


def test_an_event_hook_replaces_the_event_and_others_pass() -> None:
    played = play([Upper])
    assert played.text == "HELLO"
    assert played.types == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]


def test_sync_and_async_hooks_chain_innermost_first() -> None:
    class Wrap(Middleware):
        @on(TextMessageContentEvent)
        async def mark(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            return event.model_copy(update={"delta": f"<{event.delta}>"})

    assert play([Wrap, AsyncMark, Upper]).text == "<HELLO!>"
    assert play([AsyncMark, Wrap, Upper]).text == "<HELLO>!"


def test_dropped_events_reach_nobody_further_out() -> None:
    seen: list[str] = []

    class Watch(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            seen.append(event.type.value)

    class NoText(Middleware):
        @on(TextMessageStartEvent, TextMessageContentEvent, TextMessageEndEvent)
        def drop(self, ctx: RunContext, event: BaseEvent) -> Any:
            return DROP

    assert play([Watch, NoText]).types == ["RUN_STARTED", "RUN_FINISHED"]
    assert seen == ["RUN_STARTED", "RUN_FINISHED"]


def test_several_events_pass_one_by_one_before_the_next_is_taken() -> None:
    trace: list[str] = []

    class Outer(Middleware):
        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            trace.append(f"outer {event.delta}")

    class Split(Middleware):
        @on(TextMessageContentEvent)
        def split(self, ctx: RunContext, event: TextMessageContentEvent) -> list[BaseEvent]:
            trace.append(f"split {event.delta}")
            return [content(letter) for letter in event.delta]

    played = play([Outer, Split], agent_of(*say("ab", "c")))
    assert trace == ["split ab", "outer a", "outer b", "split c", "outer c"]
    assert played.text == "abc"


def test_chunks_arrive_expanded_and_chunks_that_a_layer_returns_are_expanded() -> None:
    class Footnote(Middleware):
        @on(TextMessageEndEvent)
        def end(self, ctx: RunContext, event: TextMessageEndEvent) -> list[BaseEvent]:
            return [event, TextMessageChunkEvent(message_id="note", delta="*")]

    outer: list[str] = []

    class Outer(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            outer.append(event.type.value)

    chunks = [TextMessageChunkEvent(message_id="m", delta=delta) for delta in ("a", "b")]
    played = play([Outer, Footnote], agent_of(*chunks))
    assert played.types == outer
    assert played.types[1:] == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]


def test_raw_layers_see_chunks_and_outer_layers_do_not() -> None:
    seen: dict[str, list[str]] = {"raw": [], "expanded": []}

    class Raw(Middleware):
        form = "raw"
        observes_only = True
        stage = Stage.OBSERVE

        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            seen["raw"].append(event.type.value)

    class Expanded(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            seen["expanded"].append(event.type.value)

    play([Expanded, Raw], agent_of(TextMessageChunkEvent(message_id="m", delta="a")))
    assert seen["raw"] == ["RUN_STARTED", "TEXT_MESSAGE_CHUNK", "RUN_FINISHED"]
    assert "TEXT_MESSAGE_CHUNK" not in seen["expanded"]
    assert "TEXT_MESSAGE_START" in seen["expanded"]


def test_a_chain_of_raw_layers_alone_still_gives_expanded_events() -> None:
    class Raw(Middleware):
        form = "raw"
        observes_only = True

        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            """Look on."""

    played = play([Raw], agent_of(TextMessageChunkEvent(message_id="m", delta="a")))
    assert played.types[1:-1] == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
    ]


def test_the_most_derived_event_class_wins_and_on_event_gets_the_rest() -> None:
    taken: list[str] = []

    class Both(Middleware):
        @on(BaseEvent)
        def general(self, ctx: RunContext, event: BaseEvent) -> None:
            taken.append(f"general {event.type.value}")

        @on(TextMessageContentEvent)
        def special(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            taken.append("special")

    class Rest(Middleware):
        @on(TextMessageContentEvent)
        def special(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            taken.append("own")

        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            taken.append(f"rest {event.type.value}")

    play([Both], agent_of(content_start(), content("a"), content_end()))
    assert taken[2] == "special"
    assert taken.count("general TEXT_MESSAGE_CONTENT") == 0
    taken.clear()
    play([Rest])
    assert taken == [
        "rest RUN_STARTED",
        "rest TEXT_MESSAGE_START",
        "own",
        "rest TEXT_MESSAGE_END",
        "rest RUN_FINISHED",
    ]


def content_start() -> TextMessageStartEvent:
    return TextMessageStartEvent(message_id="m", role="assistant")


def content_end() -> TextMessageEndEvent:
    return TextMessageEndEvent(message_id="m")


def test_an_override_keeps_the_mark_of_the_method_it_overrides() -> None:
    class Louder(Upper):
        def up(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            return event.model_copy(update={"delta": event.delta.upper() + "!!"})

    assert play([Louder]).text == "HELLO!!"


@pytest.mark.parametrize("wrong", ["text", 7, {"type": "CUSTOM"}, ["text"], b"x"])
def test_a_wrong_return_fails_the_run_and_names_the_layer(wrong: object) -> None:
    class Wrong(Middleware):
        @on(TextMessageContentEvent)
        def bad(self, ctx: RunContext, event: TextMessageContentEvent) -> Any:
            return wrong

    played = play([Wrong])
    assert played.error == ("middleware-contract", "The run could not be completed.")
    assert str(played.result.error) == (
        f"error[middleware-contract]: bad of layer 'wrong' returned a {type(wrong).__name__}\n"
        "  fix: return an event, a list of events, DROP or None"
    )


def test_a_rewriter_must_say_what_becomes_of_the_event() -> None:
    class Forgetful(Middleware):
        rewrites_history = True

        @on(TextMessageContentEvent)
        def bad(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            return None

    played = play([Forgetful])
    assert played.error[0] == "middleware-contract"
    assert "rewrites history" in str(played.result.error)


def test_an_observer_cannot_change_events() -> None:
    class Spy(Middleware):
        observes_only = True

        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            return content("changed")

    played = play([Spy])
    assert "observes only" in str(played.result.error)
    assert "changed" not in played.text


def test_a_sync_hook_that_returns_an_awaitable_is_refused_by_name() -> None:
    def later(method: Any) -> Any:
        def call(self: object, ctx: object, event: object) -> Any:
            return method(self, ctx, event)

        return call

    class Decorated(Middleware):
        @on(TextMessageContentEvent)
        @later
        async def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            """Do nothing."""

    played = play([Decorated])
    assert "see of layer 'decorated' returned an awaitable" in str(played.result.error)


def test_subclasses_of_events_are_handled_and_leave_as_their_known_class() -> None:
    class Marked(TextMessageContentEvent):
        note: str = "mine"

    class Mark(Middleware):
        @on(TextMessageContentEvent)
        def mark(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            return Marked(message_id=event.message_id, delta=event.delta)

    seen: list[type] = []

    class Outer(Middleware):
        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            seen.append(type(event))

    played = play([Outer, Mark])
    assert seen == [Marked]
    assert type(played.events[2]) is TextMessageContentEvent
    assert played.text == "hello"


def test_unknown_content_from_the_agent_is_stripped_and_unknown_events_are_dropped() -> None:
    async def agent(run_input: Any) -> Any:
        ids = {"threadId": run_input.thread_id, "runId": run_input.run_id}
        yield {"type": "RUN_STARTED", **ids, "novel": 1}
        yield {"type": "FROM_THE_FUTURE"}
        yield {"type": "CUSTOM", "name": "n", "value": {"kept": 1}}
        yield {"type": "RUN_FINISHED", **ids}

    played = play([], agent)
    assert played.types == ["RUN_STARTED", "CUSTOM", "RUN_FINISHED"]
    assert not played.events[0].model_extra
    assert isinstance(played.events[1], CustomEvent)
    assert played.events[1].value == {"kept": 1}


def test_whole_messages_calls_and_usage_are_observed_as_they_reach_the_layer() -> None:
    seen: list[Any] = []

    class Watch(Middleware):
        def on_message(self, ctx: RunContext, message: Any) -> None:
            seen.append(("message", message.role, message.content))

        async def on_tool_call(self, ctx: RunContext, call: Any, result: Any) -> None:
            seen.append(("call", call.name, call.args, result and result.content))

    events: list[BaseEvent] = [
        *say("a", "b"),
        ToolCallStartEvent(tool_call_id="c1", tool_call_name="add"),
        ToolCallArgsEvent(tool_call_id="c1", delta='{"x":'),
        ToolCallArgsEvent(tool_call_id="c1", delta=" 1}"),
        ToolCallEndEvent(tool_call_id="c1"),
        ToolCallResultEvent(message_id="r", tool_call_id="c1", content="2"),
        ToolCallStartEvent(tool_call_id="c2", tool_call_name="ask"),
        ToolCallEndEvent(tool_call_id="c2"),
    ]
    play([Watch, Upper], agent_of(*events))
    assert seen == [
        ("message", "assistant", "AB"),
        ("call", "add", {"x": 1}, "2"),
        ("call", "ask", {}, None),
    ]


def test_the_transcript_of_a_layer_holds_what_the_layer_receives() -> None:
    seen: list[Any] = []

    class Watch(Middleware):
        tracks_state = True

        @on(TextMessageEndEvent)
        def end(self, ctx: RunContext, event: TextMessageEndEvent) -> None:
            seen.append([message.content for message in ctx.messages])

    class Inner(Watch):
        pass

    play([Watch, Upper, Inner], agent_of(*say("he", "llo")))
    assert seen == [["hi", "hello"], ["hi", "HELLO"]]


def test_the_transcript_is_refused_to_a_layer_that_does_not_track_it() -> None:
    class Careless(Middleware):
        @on(TextMessageEndEvent)
        def end(self, ctx: RunContext, event: TextMessageEndEvent) -> None:
            _ = ctx.messages

    assert "tracks_state = True" in str(play([Careless]).result.error)


def test_run_error_is_an_event_for_event_hooks_which_may_flush_before_it() -> None:
    class Hold(Middleware):
        def setup(self, ctx: RunContext) -> None:
            self.held = ""

        @on(TextMessageContentEvent)
        def hold(self, ctx: RunContext, event: TextMessageContentEvent) -> Any:
            self.held += event.delta
            return DROP

        @on(RunErrorEvent)
        def flush(self, ctx: RunContext, event: RunErrorEvent) -> list[BaseEvent]:
            return [content(self.held), event]

    played = play([Hold], agent_of(content_start(), content("a"), content("b"), ValueError("x")))
    assert played.text == "ab"
    assert played.error == ("agent-failed", "The agent failed.")
    assert played.types[-2] == "TEXT_MESSAGE_END"


def test_the_middleware_error_is_public() -> None:
    assert issubclass(MiddlewareError, Exception)
