"""What ``strict`` finds and names, and what a trace counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import agent_of, play, say

from interpose import (
    DROP,
    CallRun,
    Covers,
    Host,
    Layer,
    Middleware,
    RunContext,
    Scan,
    TextTransform,
    Trace,
    middleware,
    on,
)


class Loses(Middleware):
    @on(TextMessageStartEvent)
    def lose(self, ctx: RunContext, event: TextMessageStartEvent) -> Any:
        return DROP


class Watch(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
        """Look on."""


def test_strict_names_the_layer_that_breaks_the_stream() -> None:
    layers = [Layer(Watch, id="outer"), Loses, Layer(Watch, id="inner")]
    strict = play(layers, strict=True)
    assert strict.error[0] == "invalid-stream"
    assert "layer 'loses' broke the stream" in str(strict.result.error)
    assert "layer" not in str(play(layers).result.error)


def test_strict_names_the_agent_that_breaks_the_stream() -> None:
    played = play([Watch], agent_of(*say("a")[1:]), strict=True)
    assert "the agent broke the stream" in str(played.result.error)


def test_strict_finds_events_that_are_changed_in_place() -> None:
    class Mutates(Middleware):
        @on(TextMessageContentEvent)
        def change(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            event.delta = "changed"
            return event

    played = play([Mutates], strict=True)
    assert "layer 'mutates' changed an event in place" in str(played.result.error)


def test_strict_finds_inputs_that_are_changed_in_place() -> None:
    class Mutates(Middleware):
        def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> None:
            run_input.messages.clear()

    played = play([Mutates], strict=True)
    assert "layer 'mutates' changed the input in place" in str(played.result.error)


def test_strict_lets_endings_of_the_hosts_own_pass() -> None:
    class Aborts(Middleware):
        @on(TextMessageContentEvent)
        def stop(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            ctx.abort("enough")

    assert play([Watch, Aborts], strict=True).result.outcome == "cancelled"


class Shout(TextTransform):
    covers = Covers.TEXT

    def scan(self, text: str, start: int, final: bool) -> Scan:  # noqa: FBT001 - the contract
        keep = len(text) if final else max(start, text.rfind(" ") + 1)
        return Scan([(start, keep, text[start:keep].upper())], keep_from=keep)


@settings(max_examples=40, deadline=None)
@given(
    chain=st.lists(st.sampled_from(("watch", "shout", "upper", "wrap")), max_size=5),
    deltas=st.lists(st.text(alphabet="ab ", max_size=5), max_size=5),
)
def test_strict_gives_the_same_events_for_chains_that_keep_the_rules(
    chain: list[str], deltas: list[str]
) -> None:
    class Upper(Middleware):
        @on(TextMessageContentEvent)
        async def up(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            return event.model_copy(update={"delta": event.delta.upper()})

    @middleware
    async def wrap(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            yield event

    kinds: dict[str, Any] = {"watch": Watch, "shout": Shout, "upper": Upper, "wrap": wrap}
    layers = [Layer(kinds[kind], id=f"l{number}") for number, kind in enumerate(chain)]
    agent = agent_of(*say(*deltas))
    loose, strict = play(layers, agent), play(layers, agent, strict=True)
    assert loose.types == strict.types
    assert loose.text == strict.text


def traced(layers: list[Any], agent: Any, trace: Trace) -> str:
    async def main() -> str:
        async with Host(layers, agent=agent) as host:
            return (await host.run("hi", trace=trace)).text

    return asyncio.run(main())


def test_a_trace_counts_what_each_layer_got_gave_dropped_and_held() -> None:
    class NoEnds(Middleware):
        @on(TextMessageEndEvent)
        def twice(self, ctx: RunContext, event: TextMessageEndEvent) -> Any:
            return [TextMessageContentEvent(message_id="m", delta="!"), event]

    trace = Trace()
    assert traced([NoEnds, Shout], agent_of(*say("ab", "cd", "ef gh")), trace) == "ABCDEF GH!"
    added, shout = trace.layers["no-ends"], trace.layers["shout"]
    assert (shout.received, shout.dropped, shout.held) == (7, 2, 4)
    assert (added.received, added.sent, added.dropped) == (shout.sent, shout.sent + 1, 0)
    assert trace.events == []
    assert [row["layer"] for row in trace.to_json()] == ["no-ends", "shout"]


def test_a_trace_measures_a_layers_own_time() -> None:
    class Slow(Middleware):
        @on(TextMessageContentEvent)
        async def wait(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            await asyncio.sleep(0.05)

    trace = Trace()
    traced([Watch, Slow, Layer(Watch, id="inner")], agent_of(*say("a", "b")), trace)
    assert trace.layers["slow"].seconds > 0.08
    others = trace.layers["watch"].seconds + trace.layers["inner"].seconds
    assert others < trace.layers["slow"].seconds


def test_a_trace_keeps_content_only_when_asked() -> None:
    trace = Trace(content=True)
    traced([Shout], agent_of(*say("secret")), trace)
    texts = [
        (seen.direction, seen.event.delta)
        for seen in trace.events
        if isinstance(seen.event, TextMessageContentEvent)
    ]
    assert texts == [("in", "secret"), ("out", "SECRET")]
    assert "secret" not in repr(Trace())
