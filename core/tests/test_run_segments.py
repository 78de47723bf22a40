"""The compiled segments give what the nested streams give: events, and the order of all calls.

A program without segments plays the plain, nested form, as strict and traced runs do.
"""

from __future__ import annotations

import asyncio
import linecache
import traceback
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    EventType,
    RunAgentInput,
    RunErrorEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import agent_of, finished, play, say, started

from interpose import DROP, CallRun, Host, Layer, Middleware, Reject, RunContext, encode, on


@dataclass(frozen=True)
class Hook:
    """An event hook of a generated middleware: for which events, and what it does to them."""

    events: str
    is_async: bool
    actions: tuple[str, ...]


@dataclass(frozen=True)
class Spec:
    """A generated middleware, and the layer that it is used in."""

    hooks: tuple[Hook, ...]
    around: str | None
    kind: str
    skips: bool
    watches: bool
    keeps: bool


EVENTS: dict[str, tuple[type[BaseEvent], ...]] = {
    "content": (TextMessageContentEvent,),
    "args": (ToolCallArgsEvent,),
    "calls": (ToolCallStartEvent, ToolCallEndEvent),
    "custom": (CustomEvent,),
    "error": (RunErrorEvent,),
    "base": (BaseEvent,),
    "all": (),
}
ACTIONS = ("pass", "same", "copy", "class", "drop", "twice", "chunk", "raise", "subclass", "wrong")


class Marked(CustomEvent):
    """An event of a class that AG-UI does not know."""


def act(action: str, event: BaseEvent) -> Any:  # noqa: C901, PLR0911 - one case each
    """Return what a hook returns for an event."""
    if event.type in (EventType.RUN_STARTED, EventType.RUN_FINISHED) and action != "same":
        return event
    match action:
        case "same":
            return event
        case "copy":
            return event.model_copy()
        case "class":
            return CustomEvent(name="changed", value=event.type.value)
        case "drop":
            return DROP
        case "twice":
            return [CustomEvent(name="before", value=1), event]
        case "chunk":
            return [event, TextMessageChunkEvent(message_id="chunked", delta="c")]
        case "raise":
            raise ValueError(event.type.value)
        case "subclass":
            return Marked(name="marked", value=event.type.value)
        case "wrong":
            return "wrong"
    return None


def middleware_of(  # noqa: C901, PLR0915 - one small function per hook
    number: int, spec: Spec, trace: list[str]
) -> Layer:
    """Build the class and the layer of a spec; everything it sees goes into ``trace``."""

    def make(position: int, hook: Hook) -> Any:
        def see(self: Any, ctx: RunContext, event: BaseEvent) -> Any:
            trace.append(f"{ctx.layer}.{position}#{ctx.attempt} {encode(event)}")
            self.seen = getattr(self, "seen", -1) + 1
            return act(hook.actions[self.seen % len(hook.actions)], event)

        async def see_async(self: Any, ctx: RunContext, event: BaseEvent) -> Any:
            await asyncio.sleep(0)
            return see(self, ctx, event)

        return see_async if hook.is_async else see

    async def around_run(
        self: Any, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        trace.append(f"{ctx.layer} in")
        try:
            if spec.around == "short":
                yield started(run_input)
                yield finished(run_input)
                return
            count = 0
            for attempt in (1, 2):
                try:
                    async for event in call_next(run_input):
                        trace.append(f"{ctx.layer} around {event.type.value}")
                        count += 1
                        if spec.around == "raise" and count == 3:
                            raise KeyError(ctx.layer)
                        if spec.around == "forget" and count == 3:
                            yield finished(run_input)
                            return
                        if spec.around == "repeat" and attempt == 1:
                            continue
                        yield event
                except Exception as error:
                    trace.append(f"{ctx.layer} caught {type(error).__name__}")
                    if spec.around != "recover":
                        raise
                    yield finished(run_input)
                    return
                if spec.around != "repeat":
                    return
        finally:
            trace.append(f"{ctx.layer} out")

    def on_message(self: Any, ctx: RunContext, message: Any) -> None:
        trace.append(f"{ctx.layer} message {message.content}")
        ctx.emit(CustomEvent(name="emitted", value=ctx.layer))

    def on_end(self: Any, ctx: RunContext, end: Any) -> None:
        trace.append(f"{ctx.layer} end {end.kind}")

    body: dict[str, Any] = {"on_end": on_end, "__module__": __name__}
    for position, hook in enumerate(spec.hooks):
        classes = EVENTS[hook.events]
        name = f"hook_{position}" if classes else "on_event"
        function = make(position, hook)
        body[name] = on(*classes)(function) if classes else function
    if spec.around and spec.kind == "plain":
        body["around_run"] = around_run
        body["may_repeat"] = spec.around == "repeat"
    if spec.watches:
        body["on_message"] = on_message
    body["tracks_state"] = spec.keeps
    body["rewrites_history"] = spec.kind == "rewriter"
    body["observes_only"] = spec.kind in ("observer", "raw")
    body["form"] = "raw" if spec.kind == "raw" else "expanded"
    skips = spec.skips and spec.kind != "rewriter"
    cls = type(f"L{number}", (Middleware,), body)
    return Layer(cls, id=f"l{number}", on_failure="skip" if skips else None)


hooks = st.builds(
    Hook,
    events=st.sampled_from(sorted(EVENTS)),
    is_async=st.booleans(),
    actions=st.lists(
        st.one_of(st.sampled_from(("pass", "same", "copy")), st.sampled_from(ACTIONS)),
        min_size=1,
        max_size=4,
    ).map(tuple),
)
specs = st.builds(
    Spec,
    hooks=st.lists(hooks, max_size=2, unique_by=lambda hook: hook.events).map(tuple),
    around=st.sampled_from((None, None, "pass", "recover", "short", "repeat", "forget", "raise")),
    kind=st.sampled_from(("plain", "plain", "plain", "rewriter", "observer", "raw")),
    skips=st.booleans(),
    watches=st.booleans(),
    keeps=st.booleans(),
)


def chunk(message: str) -> TextMessageChunkEvent:
    return TextMessageChunkEvent(message_id=message, delta="chunk")


PIECES: dict[str, list[BaseEvent]] = {
    "text": say("a", "b"),
    "chunks": [chunk("c1"), chunk("c1"), chunk("c2")],
    "call": [
        ToolCallStartEvent(tool_call_id="t", tool_call_name="f"),
        ToolCallArgsEvent(tool_call_id="t", delta="{}"),
        ToolCallEndEvent(tool_call_id="t"),
    ],
    "call-chunks": [ToolCallChunkEvent(tool_call_id="k", tool_call_name="f", delta="{}")],
    "custom": [CustomEvent(name="n", value=None)],
    "open": say("never ended", message="open")[:2],
    "error": [RunErrorEvent(message="said so", code="said")],
}
streams = st.tuples(
    st.lists(st.sampled_from(sorted(PIECES)), max_size=4),
    st.sampled_from(("finish", "finish", "stop", "raise")),
)


def outcome(chain: Sequence[Spec], stream: Any, *, nested: bool) -> Any:
    """Play a chain and return the events, and everything that happened in its order."""
    pieces, end = stream
    events: list[Any] = [event for piece in pieces for event in PIECES[piece]]
    if end == "raise":
        events.append(ConnectionError("lost"))
    trace: list[str] = []
    layers = [middleware_of(number, spec, trace) for number, spec in enumerate(chain)]

    async def main() -> list[str]:
        left: list[str] = []
        agent = agent_of(*events, finish=end == "finish")
        async with Host(layers, agent=agent) as host:
            live: Any = host._live
            if nested:
                program = replace(live.programs["default"], segments={})
                live.programs["default"] = program
            async for event in host.run({"threadId": "t", "runId": "r", "messages": []}):
                trace.append(f"consumer {event.type.value}")
                left.append(encode(event))
        return left

    return asyncio.run(main()), trace


@settings(max_examples=120, deadline=None)
@given(chain=st.lists(specs, min_size=1, max_size=5), stream=streams)
def test_compiled_and_nested_chains_do_the_same_in_the_same_order(
    chain: list[Spec], stream: Any
) -> None:
    assert outcome(chain, stream, nested=False) == outcome(chain, stream, nested=True)


def test_a_layer_that_has_failed_sees_nothing_more_of_a_chunk() -> None:
    failing = Spec(
        hooks=(Hook("all", is_async=False, actions=("pass",)),),
        around=None,
        kind="rewriter",
        skips=False,
        watches=False,
        keeps=False,
    )
    stream = (["call-chunks"], "finish")
    compiled = outcome([failing], stream, nested=False)
    assert compiled == outcome([failing], stream, nested=True)
    assert [line[:6] for line in compiled[1] if "TOOL_CALL" in line] == ["l0.0#1"]


class Boom(Middleware):
    @on(TextMessageContentEvent)
    def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
        raise LookupError("in a hook")


def test_a_traceback_shows_the_compiled_line_that_called_the_hook() -> None:
    played = play([Layer(Boom, id="first"), Layer(Boom, id="second")])
    text = "".join(traceback.format_exception(played.result.error))
    assert "<interpose agent default" in text
    assert "answer = hook_0_1(self_0, ctx_0, event)" in text


def test_the_failing_layer_is_found_by_its_line_and_only_outer_layers_see_the_error() -> None:
    seen: list[str] = []

    class Watch(Middleware):
        @on(RunErrorEvent)
        def see(self, ctx: RunContext, event: RunErrorEvent) -> None:
            seen.append(ctx.layer)

    layers = [Layer(Watch, id=name) for name in ("a", "b", "c", "d")]
    play([*layers[:2], Boom, *layers[2:]])
    assert seen == ["b", "a"]


@pytest.mark.parametrize("strict", [False, True])
def test_a_malformed_chunk_that_a_layer_returns_is_that_layers_failure(strict: bool) -> None:  # noqa: FBT001
    seen: list[str] = []

    class Watch(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            seen.append(f"{ctx.layer} {event.type.value}")

    class Bad(Middleware):
        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> list[BaseEvent]:
            return [event, TextMessageChunkEvent(delta="of no message")]

    layers = [Layer(Watch, id="outer"), Bad, Layer(Watch, id="inner")]
    assert play(layers, strict=strict).error[0] == "invalid-stream"
    assert "outer RUN_ERROR" in seen
    assert "inner RUN_ERROR" not in seen


def test_classes_that_nobody_takes_pass_without_a_call() -> None:
    async def main() -> str:
        async with Host([Boom], agent=agent_of()) as host:
            live: Any = host._live
            segment = live.programs["default"].segments[0]
            return str(segment.source)

    source = asyncio.run(main())
    assert source.count("def hooks_") == 1
    name = [name for name in linecache.cache if name.startswith("<interpose agent default")]
    assert name


def test_layers_without_event_hooks_are_not_in_the_chain() -> None:
    class Quiet(Middleware):
        def on_end(self, ctx: RunContext, end: Any) -> None:
            """Look on."""

    async def main() -> Any:
        async with Host([Quiet, Quiet2], agent=agent_of()) as host:
            live: Any = host._live
            return live.programs["default"].segments

    class Quiet2(Quiet):
        pass

    assert asyncio.run(main()) == {}


@pytest.mark.parametrize("strict", [False, True])
def test_reject_in_the_middle_of_a_segment(strict: bool) -> None:  # noqa: FBT001
    class Refuse(Middleware):
        @on(TextMessageContentEvent)
        async def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            raise Reject("no", "No.")

    assert play([Layer(Refuse, id="a"), Layer(Refuse, id="b")], strict=strict).error == (
        "no",
        "No.",
    )
