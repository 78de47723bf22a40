"""Whatever an agent sends and whatever its layers do: what leaves is a valid run of AG-UI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from ag_ui.core import (
    BaseEvent,
    EventType,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageChunkEvent,
    TextMessageEndEvent,
    UserMessage,
)
from anylayers import Act, acts, chains
from anything import Item, finished, started, streams
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from independent import CONTENT, complaints
from playing import agent_of, play

from interpose import (
    DROP,
    AgentContext,
    CallRun,
    Host,
    Layer,
    Middleware,
    Point,
    Result,
    RunContext,
    RunResult,
    on,
)
from interpose.agui import EVENT_CLASSES, Expander, Verifier, strip, to_json

SCRIPTS: dict[str, Sequence[Item]] = {}
FRAMES = (EventType.RUN_STARTED, EventType.RUN_FINISHED, EventType.RUN_ERROR)
OUTCOMES = {"RUN_ERROR": "error", None: "success"}


async def scripted(run_input: RunAgentInput) -> AsyncIterator[Any]:
    for item in SCRIPTS[run_input.run_id]:
        given = item(run_input)
        if isinstance(given, BaseException):
            raise given
        yield given


class Remembers:
    """Plays the same, what its model says through the layers that rewrite history."""

    points = (Point.RUN, Point.EVENTS, Point.HISTORY)

    async def run(self, run_input: RunAgentInput, ctx: AgentContext) -> AsyncIterator[Any]:
        async def said() -> AsyncIterator[BaseEvent]:
            async for event in scripted(run_input):
                if isinstance(event, BaseEvent) and event.type not in FRAMES:
                    yield event

        yield started(run_input)
        async for event in ctx.rewrite(said()):
            yield event
        yield finished(run_input)


class Manner(NamedTuple):
    """How a run is played. ``stop``: after which event it is cancelled, from 1; 0 is never."""

    remembers: bool
    strict: bool
    stop: int


Chain = Sequence[type[Middleware[Any, Any]]]
Played = tuple[RunAgentInput, list[BaseEvent], RunResult]


class Hosts:
    """Hosts that are kept, with a loop of their own: making one costs more than a run."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._hosts: dict[Any, Host] = {}

    def play(self, chain: Chain, acts: Sequence[Act], manner: Manner) -> Played:
        return self._runner.run(self._play(chain, acts, manner))

    async def _play(self, chain: Chain, acts: Sequence[Act], manner: Manner) -> Played:
        host = await self._host(chain, manner)
        asked = RunAgentInput(
            thread_id="t", run_id="r", messages=[UserMessage(id="u", content="hi")]
        )
        names = [f"l{number}" for number in range(len(chain))]
        run = host.run(asked, attributes={"acts": dict(zip(names, acts, strict=False))})
        events: list[BaseEvent] = []
        async for event in run:
            events.append(event)
            if len(events) == manner.stop:
                run.cancel("seen enough")
        return asked, events, await run

    async def _host(self, chain: Chain, manner: Manner) -> Host:
        key = (tuple(chain), manner.remembers, manner.strict)
        if key not in self._hosts:
            layers = [Layer(cls, id=f"l{number}") for number, cls in enumerate(chain)]
            agent = Remembers() if manner.remembers else scripted
            host = Host(layers, agent=agent, strict=manner.strict)
            self._hosts[key] = await host.__aenter__()
        return self._hosts[key]

    def close(self) -> None:
        async def leave() -> None:
            for host in self._hosts.values():
                await host.__aexit__(None, None, None)

        self._runner.run(leave())
        self._runner.close()


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    kept = Hosts()
    yield kept
    kept.close()


def check(asked: RunAgentInput, events: Sequence[BaseEvent], result: RunResult) -> None:
    """Check what holds for every run."""
    kinds = [event.type.value for event in events]
    assert kinds[0] == "RUN_STARTED"
    assert kinds.count("RUN_STARTED") == 1
    assert [kind in {"RUN_FINISHED", "RUN_ERROR"} for kind in kinds].index(True) == len(kinds) - 1

    expander, verifier = Expander(), Verifier(asked.thread_id, asked.run_id)
    for event in events:
        for part in expander.push(event):
            verifier.check(part)
    verifier.finish()
    assert complaints(events, without=CONTENT) == []

    for event in events:
        assert type(event) is EVENT_CLASSES[event.type.value]
        read = strip(json.loads(to_json(event)))
        assert read.warnings == ()
        assert read.event == event

    outcome = getattr(events[-1], "outcome", None)
    expected = OUTCOMES.get(kinds[-1]) or ("success" if outcome is None else outcome.type)
    assert result.outcome == expected


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    stream=streams,
    chain=chains,
    does=st.lists(acts, min_size=4, max_size=4),
    manner=st.builds(
        Manner,
        st.sampled_from([False, False, False, True]),
        st.sampled_from([False, False, True]),
        st.sampled_from([0, 0, 0, 1, 3]),
    ),
)
def test_any_stream_through_any_chain_leaves_as_one_valid_run(
    hosts: Hosts,
    stream: list[Item],
    chain: list[type[Middleware[Any, Any]]],
    does: list[Act],
    manner: Manner,
) -> None:
    SCRIPTS["r"] = stream
    check(*hosts.play(chain, does, manner))


class LosesTheStart(Middleware):
    @on(RunStartedEvent)
    def lose(self, ctx: RunContext, event: RunStartedEvent) -> Result:
        return DROP


class SaysTooMuch(Middleware):
    @on(RunFinishedEvent)
    def say(self, ctx: RunContext, event: RunFinishedEvent) -> Result:
        return [TextMessageEndEvent(message_id="never-opened"), event]


class Finishes(Middleware):
    @on(RunStartedEvent)
    def finish(self, ctx: RunContext, event: RunStartedEvent) -> Result:
        ctx.finish()


@pytest.mark.parametrize(
    "layers",
    [[LosesTheStart], [SaysTooMuch, LosesTheStart], [SaysTooMuch, LosesTheStart, Finishes]],
)
def test_a_start_that_is_lost_is_supplied_before_the_error(layers: list[Any]) -> None:
    played = play(layers, agent_of())
    assert played.types == ["RUN_STARTED", "RUN_ERROR"]
    assert played.error[0] == "invalid-stream"


class EmitsAChunk(Middleware):
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            ctx.emit(TextMessageChunkEvent(message_id="m", delta="hi"))
            yield event


def test_a_chunk_cannot_be_emitted_because_no_layer_would_expand_it() -> None:
    played = play([EmitsAChunk], agent_of())
    assert played.error[0] == "middleware-contract"
    assert "ctx.emit with a TextMessageChunkEvent" in str(played.result.error)
