"""Cases 1 to 18 and 58: chains of layers, what they see of messages and state, and resuming."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    Interrupt,
    MessagesSnapshotEvent,
    ResumeEntry,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    UserMessage,
)
from conformance import agent, outline, text_chunk, tool_chunk, valid
from playing import finished, play, say, started

from interpose import (
    CallRun,
    Host,
    InputError,
    Layer,
    Middleware,
    Result,
    RunContext,
    middleware,
    on,
)

HI = UserMessage(id="u", content="hi")
ASKED = RunAgentInput(thread_id="t", run_id="r", messages=[HI], state={"n": 0})


@middleware
async def passes(
    ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
) -> AsyncIterator[BaseEvent]:
    async for event in call_next(run_input):
        yield event


@middleware
async def capitals(
    ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
) -> AsyncIterator[BaseEvent]:
    async for event in call_next(run_input):
        if isinstance(event, TextMessageContentEvent):
            event = event.model_copy(update={"delta": event.delta.upper()})  # noqa: PLW2901
        yield event


# -- functions, classes, order ------------------------------------------------------------------


def test_case_01_a_function_that_maps_one_event_changes_that_one_and_no_order() -> None:
    said = [CustomEvent(name="acme:n", value=1), *say("a", "b")]
    before, after = play([], agent(*said)), play([capitals], agent(*said))
    changed = [
        (old, new)
        for old, new in zip(outline(before.events), outline(after.events), strict=True)
        if old != new
    ]
    assert changed == [
        ("TEXT_MESSAGE_CONTENT m a", "TEXT_MESSAGE_CONTENT m A"),
        ("TEXT_MESSAGE_CONTENT m b", "TEXT_MESSAGE_CONTENT m B"),
    ]
    valid(after.events)


def test_case_02_a_class_sees_and_alters_the_result_of_a_run() -> None:
    class Doubles(Middleware):
        @on(RunFinishedEvent)
        def end(self, ctx: RunContext, event: RunFinishedEvent) -> Result:
            doubled = 2 * int(event.result or 0)
            return event.model_copy(update={"result": doubled})

    async def answers(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield finished(run_input).model_copy(update={"result": 21})

    played = play([Doubles], answers)
    assert played.result.result == 42
    valid(played.events)


def test_case_03_metadata_on_run_started_leaves_chunks_expanded_which_is_our_divergence() -> None:
    @middleware
    async def stamps(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            stamped = isinstance(event, RunStartedEvent)
            yield event.model_copy(update={"metadata": {"by": "us"}}) if stamped else event

    played = play([stamps], agent(text_chunk("m", "hi")))
    assert played.events[0].metadata == {"by": "us"}
    assert played.types[1:-1] == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert play([], agent(text_chunk("m", "hi"))).types == played.types, "with no layer at all, too"
    valid(played.events)


def test_case_04_an_inner_layers_event_is_seen_further_out_and_is_in_the_messages() -> None:
    seen: list[str] = []

    class Outer(Middleware):
        @on(TextMessageStartEvent)
        def look(self, ctx: RunContext, event: TextMessageStartEvent) -> None:
            seen.append(event.message_id)

    class Inner(Middleware):
        @on(RunFinishedEvent)
        def add(self, ctx: RunContext, event: RunFinishedEvent) -> Result:
            return [*say("added", message="added"), event]

    played = play([Outer, Inner], agent(*say("hello")))
    assert seen == ["m", "added"]
    assert [message.id for message in played.result.messages[1:]] == ["m", "added"]
    valid(played.events)


def test_case_05_a_layer_that_only_passes_gives_the_same_on_either_side() -> None:
    one = play([capitals, passes], agent(*say("hello")), asked=ASKED)
    other = play([passes, capitals], agent(*say("hello")), asked=ASKED)
    assert one.result.messages == other.result.messages
    assert one.result.text == "HELLO"
    assert valid(one.events) == valid(other.events)


def test_case_06_input_goes_in_in_order_and_events_come_out_in_reverse() -> None:
    trace: list[str] = []

    class Traced(Middleware):
        def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> None:
            trace.append(f"{ctx.layer} input")

        async def around_run(
            self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
        ) -> AsyncIterator[BaseEvent]:
            trace.append(f"{ctx.layer} in")
            async for event in call_next(run_input):
                if isinstance(event, RunStartedEvent):
                    trace.append(f"{ctx.layer} out")
                yield event

    play([Layer(Traced, id="first"), Layer(Traced, id="second")], agent())
    assert trace == [
        *("first input", "second input"),
        *("first in", "second in"),
        *("second out", "first out"),
    ]


def test_case_07_without_layers_the_agents_stream_is_unchanged_and_still_verified() -> None:
    events = [
        CustomEvent(name="acme:n", value=None),
        *say("hello"),
        StateSnapshotEvent(snapshot=[1]),
    ]
    played = play([], agent(*events))
    assert played.events[1:-1] == events
    valid(played.events)
    twice = [TextMessageStartEvent(message_id="m"), TextMessageStartEvent(message_id="m")]
    assert play([], agent(*twice)).error[0] == "invalid-stream"


def test_case_08_a_layer_that_never_goes_on_answers_alone_and_is_verified() -> None:
    calls: list[RunAgentInput] = []

    @middleware
    async def answers(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in say("cached"):
            yield event
        yield finished(run_input)

    @middleware
    async def breaks(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield TextMessageContentEvent(message_id="never-opened", delta="x")

    played = play([answers], agent(calls=calls))
    assert played.result.text == "cached"
    valid(played.events)
    assert play([breaks], agent(calls=calls)).error[0] == "invalid-stream"
    assert calls == []


def test_case_11_a_replay_takes_every_stage_and_here_the_layers_too(tmp_path: Path) -> None:
    recorded: list[dict[str, Any]] = [
        {"type": "RUN_STARTED", "threadId": "old", "runId": "old"},
        {"type": "THINKING_START"},
        {"type": "THINKING_END"},
        {"type": "SMELL"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "hi", "mood": ":)"},
        {"type": "RUN_FINISHED", "threadId": "old", "runId": "old", "outcome": None},
    ]
    file = tmp_path / "capture.jsonl"
    file.write_text("\n".join(json.dumps(raw) for raw in recorded))
    config = tmp_path / "interpose.toml"
    config.write_text(f'[agent]\nuse = "scripted"\nfile = "{file.name}"\n')

    async def replay() -> list[BaseEvent]:
        async with Host.from_config(config, layers=[capitals], environ={}) as host:
            return [event async for event in host.run(ASKED)]

    events = valid(asyncio.run(replay()))
    assert [event.type.value for event in events] == [
        *("RUN_STARTED", "REASONING_START", "REASONING_END"),
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"),
    ]
    assert outline(events)[4] == "TEXT_MESSAGE_CONTENT m HI"
    file.write_text("\n".join(json.dumps(raw) for raw in recorded[:-1]))
    last = asyncio.run(replay())[-1]
    assert last.type.value == "RUN_ERROR", "a truncated recording is no success"


# -- messages and state -------------------------------------------------------------------------


class Watches(Middleware):
    """Notes messages and state at each event."""

    tracks_state = True

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Result:
        messages = [
            (
                message.role,
                getattr(message, "content", None),
                len(getattr(message, "tool_calls", None) or ()),
            )
            for message in ctx.messages
        ]
        seen: dict[str, list[Any]] = ctx.attributes["seen"]
        seen.setdefault(ctx.layer, []).append((event.type.value, messages, ctx.state))
        return event


def watched(layers: int, *events: Any, asked: Any = ASKED) -> list[list[Any]]:
    """Return what each of so many layers saw, outermost first."""
    seen: dict[str, list[Any]] = {}

    async def main() -> None:
        names = [f"w{number}" for number in range(layers)]
        async with Host([Layer(Watches, id=name) for name in names], agent=agent(*events)) as host:
            valid([event async for event in host.run(asked, attributes={"seen": seen})])

    asyncio.run(main())
    return [seen[f"w{number}"] for number in range(layers)]


def test_case_12_messages_and_state_are_those_after_the_event() -> None:
    [seen] = watched(1, *say("a", "b"), StateSnapshotEvent(snapshot={"n": 1}))
    user = ("user", "hi", 0)
    assert seen == [
        ("RUN_STARTED", [user], {"n": 0}),
        ("TEXT_MESSAGE_START", [user, ("assistant", "", 0)], {"n": 0}),
        ("TEXT_MESSAGE_CONTENT", [user, ("assistant", "a", 0)], {"n": 0}),
        ("TEXT_MESSAGE_CONTENT", [user, ("assistant", "ab", 0)], {"n": 0}),
        ("TEXT_MESSAGE_END", [user, ("assistant", "ab", 0)], {"n": 0}),
        ("STATE_SNAPSHOT", [user, ("assistant", "ab", 0)], {"n": 1}),
        ("RUN_FINISHED", [user, ("assistant", "ab", 0)], {"n": 1}),
    ]


@pytest.mark.parametrize("layers", [2, 3])
def test_case_13_stacked_layers_each_track_the_message_of_a_chunk_stream(layers: int) -> None:
    seen = watched(layers, text_chunk("m", "Hel"), text_chunk(None, "lo"))
    assert seen == [seen[0]] * layers
    assert seen[0][-1][1] == [("user", "hi", 0), ("assistant", "Hello", 0)]


def test_case_14_tool_call_chunks_become_a_message_with_calls_at_every_layer() -> None:
    seen = watched(2, tool_chunk("c", "f", "{"), tool_chunk(None, None, "}"))
    assert [each[-1][1] for each in seen] == [[("user", "hi", 0), ("assistant", None, 1)]] * 2


def test_case_15_a_snapshot_and_deltas_evolve_step_by_step_in_each_layer() -> None:
    deltas = [
        StateDeltaEvent.model_validate({"delta": [{"op": "replace", "path": "/n", "value": value}]})
        for value in (2, 3)
    ]
    seen = watched(2, StateSnapshotEvent(snapshot={"n": 1}), *deltas)
    assert [[state["n"] for _, _, state in each] for each in seen] == [[0, 1, 2, 3, 3]] * 2


def test_case_16_a_snapshot_of_messages_replaces_the_tracked_ones_in_every_layer() -> None:
    whole = MessagesSnapshotEvent(messages=[UserMessage(id="v", content="new")])
    seen = watched(2, *say("gone"), whole)
    assert [each[-1][1] for each in seen] == [[("user", "new", 0)]] * 2


def test_case_18_what_was_there_comes_first_and_the_state_stays_without_state_events() -> None:
    [seen] = watched(1, *say("hello"))
    assert seen[-1] == ("RUN_FINISHED", [("user", "hi", 0), ("assistant", "hello", 0)], {"n": 0})
    falsy = ASKED.model_copy(update={"state": 0})
    [seen] = watched(1, asked=falsy)
    assert seen[-1][2] == 0


# -- resuming -----------------------------------------------------------------------------------


def answer(id_: str, status: Any) -> ResumeEntry:
    return ResumeEntry(interrupt_id=id_, status=status)


OPEN = Interrupt(id="open", reason="approval")
OVER = Interrupt(id="over", reason="approval", expires_at="2020-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("resume", "settles"),
    [
        ([], False),
        ([answer("open", "resolved")], False),
        ([answer("open", "resolved"), answer("over", "resolved")], False),
        ([answer("open", "resolved"), answer("over", "cancelled")], True),
        ([answer("open", "cancelled"), answer("over", "cancelled")], True),
    ],
)
def test_case_58_every_pending_interrupt_is_settled_before_the_agent_runs(
    resume: list[ResumeEntry],
    settles: bool,  # noqa: FBT001
) -> None:
    calls: list[RunAgentInput] = []
    trace: list[str] = []

    class Sets(Middleware):
        def setup(self, ctx: RunContext) -> None:
            trace.append("setup")

    async def main() -> None:
        async with Host([Sets], agent=agent(calls=calls)) as host:
            asked = ASKED.model_copy(update={"resume": resume})
            await host.run(asked, pending=[OPEN, OVER])

    if settles:
        asyncio.run(main())
        assert (len(calls), trace) == (1, ["setup"])
    else:
        with pytest.raises(InputError):
            asyncio.run(main())
        assert (calls, trace) == ([], [])
