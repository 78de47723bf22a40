"""One process of the memory workload: ``python -m benchmarks.suspended VARIANT RUNS TICKS``.

It begins so many runs, each of which waits in the middle of a text, and prints as JSON what they
hold and how long they take to go on: ``bytes`` of resident memory a run, ``seconds`` of all ticks.
In a tick every run gets one event, so that each is woken once.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from ag_ui.core import BaseEvent, RunAgentInput

from interpose import Host, Layer

from .chains import Agent, Events, EveryText, nested, text_run

_EVENTS: Final = text_run(1)
_DELTA: Final = _EVENTS[2]

Play = Callable[[RunAgentInput], AsyncIterator[BaseEvent]]


class Ticking:
    """Agents that give the beginning of a run, then a delta at each tick."""

    def __init__(self, ticks: int) -> None:
        self.ticks = ticks
        self._next: asyncio.Future[None] | None = None
        self.waiting = 0

    async def agent(self, run_input: RunAgentInput) -> Events:
        """Play one run."""
        for event in _EVENTS[:2]:
            yield event
        for _ in range(self.ticks):
            self.waiting += 1
            await asyncio.shield(self._following())
            yield _DELTA
        for event in _EVENTS[3:]:
            yield event

    def tick(self) -> None:
        """Let all of them give one event."""
        self.waiting = 0
        following, self._next = self._following(), None
        following.set_result(None)

    def _following(self) -> asyncio.Future[None]:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        return self._next


async def measure(variant: str, runs: int, ticks: int) -> dict[str, float]:
    """Return the figures of one variant: ``bare``, ``nested-10``, ``run-0``, ``run-10``."""
    ticking = Ticking(ticks)
    async with AsyncExitStack() as hosts:
        play = await _player(variant, ticking.agent, hosts)
        await _drive(play, ticking, 100, 1)  # what is made once is made now
        gc.collect()
        before = _resident()
        tasks = [asyncio.create_task(_consume(play, number)) for number in range(runs)]
        await _until(ticking, runs)
        gc.collect()
        held = (_resident() - before) / runs
        since = time.thread_time()
        for _ in range(ticks):
            ticking.tick()
            await _until(ticking, runs, tasks)
        seconds = time.thread_time() - since
        await asyncio.gather(*tasks)
    return {"bytes": held, "seconds": seconds}


async def _drive(play: Play, ticking: Ticking, runs: int, ticks: int) -> None:
    tasks = [asyncio.create_task(_consume(play, number)) for number in range(runs)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        ticking.tick()
    await asyncio.gather(*tasks)
    ticking.waiting = 0


async def _player(variant: str, agent: Agent, hosts: AsyncExitStack) -> Play:
    kind, _, count = variant.partition("-")
    if kind in ("bare", "nested"):
        return nested(agent, int(count or 0))
    layers = [Layer(EveryText, id=f"layer-{number}") for number in range(int(count))]
    host = await hosts.enter_async_context(Host(layers, agent=agent))
    return lambda run_input: aiter(host.run(run_input))


async def _consume(play: Play, number: int) -> None:
    run_input = RunAgentInput(thread_id="thread", run_id="run", messages=[])
    async for _ in play(run_input):
        pass


async def _until(
    ticking: Ticking, runs: int, tasks: list[asyncio.Task[None]] | None = None
) -> None:
    """Let the loop turn until all runs wait again, or have ended."""
    while ticking.waiting < runs and not (tasks and tasks[-1].done()):  # noqa: ASYNC110 - a turn of the loop is what is measured
        await asyncio.sleep(0)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    found = asyncio.run(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    sys.stdout.write(json.dumps(found) + "\n")
