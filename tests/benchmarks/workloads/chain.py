"""Real chains: recordings through the first-party plugins, and what encoding the events costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from ag_ui.core import BaseEvent, RunAgentInput
from ag_ui.encoder import EventEncoder
from starlette.requests import Request
from starlette.types import Message

from interpose import Host
from interpose.agents.rebind import rebind
from interpose.agui import encode, read_capture, typed
from interpose.server import response

from ..measuring import Samples, Timed, compare
from ..results import Result, Row, Size, Table
from ..serving.source import agent, asking, layers

SUMMARY: Final = "recordings through the first-party plugins, and encoding behind ten hooks"

CAPTURES: Final = Path(__file__).parents[2] / "captures"
_PLUGINS: Final = {
    "redact": {"entities": ["email", "card"], "action": "mask"},
    "logging": {"events": False},
    "tool-filter": {"deny": ["hidden"]},
}
_BARE: Final = "agent, SDK's encoder"
_GENERATOR: Final = "ten hooks, SDK's encoder"
_SERVED: Final = "ten hooks, served"
_GUARDED: Final = (_BARE, _GENERATOR, _SERVED)

_SAME: Final = (
    "Each gives the same bytes. Served: as the response of a route gives them, without a socket; "
    "the agent never waits, so that many events are joined."
)
_SHORT: Final = (
    "The recordings are of LangGraph's and pydantic-ai's agents, and short: what a run costs once "
    "is a large part. All are encoded by our encoder."
)

Encode = Callable[[BaseEvent], str]
Played = Callable[[RunAgentInput, Callable[[str], object]], Coroutine[Any, Any, None]]
"""Plays a run, and hands over the text of what it encodes."""


def run(size: Size) -> Result:
    """Measure."""
    with asyncio.Runner() as runner:
        encoding = _encoding(runner, size)
        figures = {
            "encoding-generator": encoding.ratio(_GENERATOR, _BARE),
            "encoding-served": encoding.ratio(_SERVED, _BARE),
        }
        return Result(
            [_encoding_table(encoding, _deltas(size)), _recordings(runner, size)], figures
        )


# Encoding behind hooks -----------------------------------------------------------------------
def _deltas(size: Size) -> int:
    return size.pick(10_000, 5_000)


def _encoding(runner: asyncio.Runner, size: Size) -> Samples:
    """Encode the events of one long run in every way."""
    sdk = EventEncoder().encode
    stack = AsyncExitStack()
    try:
        none, ten = (
            runner.run(stack.enter_async_context(Host(layers(many), agent=agent)))
            for many in (0, 10)
        )
        variants: dict[str, Played] = {
            _BARE: _alone(agent, sdk),
            "agent, our encoder": _alone(agent, encode),
            "no hooks, SDK's encoder": _hosted(none, sdk),
            _GENERATOR: _hosted(ten, sdk),
            "ten hooks, our encoder": _hosted(ten, encode),
            "no hooks, served": _served(none),
            _SERVED: _served(ten),
        }
        _check(runner, variants)
        timed = {
            name: _timed(runner, play, _deltas(size))
            for name, play in variants.items()
            if not size.quick or name in _GUARDED
        }
        return compare(timed, rounds=size.pick(15, 7))
    finally:
        runner.run(stack.aclose())


def _encoding_table(found: Samples, events: int) -> Table:
    return Table(
        "Encoding one run of text deltas, processor time",
        "us an event",
        [
            Row(name, _BARE, found.ratio(name, _BARE), found.median(name) / events * 1e6)
            for name in found.seconds
        ],
        [_SAME],
    )


def _alone(source: Callable[[RunAgentInput], AsyncIterator[BaseEvent]], write: Encode) -> Played:
    async def play(run_input: RunAgentInput, take: Callable[[str], object]) -> None:
        async for event in source(run_input):
            take(write(event))

    return play


def _hosted(host: Host, write: Encode) -> Played:
    async def play(run_input: RunAgentInput, take: Callable[[str], object]) -> None:
        async with host.run(run_input) as run:
            async for event in run:
                take(write(event))

    return play


def _served(host: Host) -> Played:
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def play(run_input: RunAgentInput, take: Callable[[str], object]) -> None:
        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                take(message["body"].decode())

        answer = response(host.run(run_input), Request(scope))
        await answer(scope, receive, send)

    return play


def _check(runner: asyncio.Runner, variants: dict[str, Played]) -> None:
    """See that all variants give the same."""
    said = set()
    for play in variants.values():
        parts: list[str] = []
        runner.run(play(asking("checked", deltas=20), parts.append))
        said.add("".join(parts))
    if len(said) != 1:
        raise RuntimeError("the variants do not do the same work")


def _timed(runner: asyncio.Runner, play: Played, deltas: int) -> Timed:
    number = 0

    async def once(run_input: RunAgentInput) -> float:
        since = time.thread_time()
        await play(run_input, len)
        return time.thread_time() - since

    def timed() -> float:
        nonlocal number
        number += 1
        return runner.run(once(asking(f"run-{number}", deltas=deltas)))

    return timed


# Recordings ----------------------------------------------------------------------------------
def _recordings(runner: asyncio.Runner, size: Size) -> Table:
    """Play every recording alone, through a host, and through the first-party plugins."""
    recordings = [
        typed(read_capture(file.read_text(encoding="utf-8"), file.name), file.name).events
        for file in sorted(CAPTURES.glob("*/*"))
        if file.suffix in {".jsonl", ".sse"}
    ]
    events = sum(map(len, recordings))
    times = size.pick(5, 1)

    async def replay(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        recording = recordings[int(run_input.forwarded_props or 0)]
        for event in rebind(recording, run_input.thread_id, run_input.run_id)[0]:
            yield event

    number = 0

    def all_of(play: Played) -> Timed:
        async def once() -> float:
            nonlocal number
            since = time.thread_time()
            for _ in range(times):
                for index in range(len(recordings)):
                    number += 1
                    run_input = asking(f"run-{number}", deltas=0)
                    run_input.forwarded_props = index
                    await play(run_input, len)
            return time.thread_time() - since

        return lambda: runner.run(once())

    stack = AsyncExitStack()
    try:
        none, chain = (
            runner.run(stack.enter_async_context(Host(agent=replay, overrides=overrides)))
            for overrides in ({}, {"middleware": _PLUGINS})
        )
        base, plain, all_three = "agent", "host without layers", "redact, tool-filter, logging"
        found = compare(
            {
                base: all_of(_alone(replay, encode)),
                plain: all_of(_hosted(none, encode)),
                all_three: all_of(_hosted(chain, encode)),
            },
            rounds=size.pick(15, 3),
        )
    finally:
        runner.run(stack.aclose())
    pairs = [(plain, base), (all_three, plain), (all_three, base)]
    return Table(
        f"{len(recordings)} recordings, {events} events in all, whole runs, encoded; processor time",
        "us an event",
        [
            Row(
                name, against, found.ratio(name, against), found.median(name) / events / times * 1e6
            )
            for name, against in pairs
        ],
        [_SHORT],
    )
