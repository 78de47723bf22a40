"""A run that is to stop stops, whatever it is doing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import BaseEvent

from interpose.runtime.run import Run
from interpose.testing.clocks import FakeClock
from interpose.testing.contracts.aftermath import Watch, told_of_closing
from interpose.testing.contracts.bench import Bench, Opened, own_files, settled, where
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.players import Player, StreamPlayer, players
from interpose.testing.contracts.playing import listening
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.scripts import Script, message
from interpose.testing.contracts.state_image import StateImage
from interpose.testing.contracts.subject import Subject

_TURNS: Final = 400
"""Turns of the loop within which a run that was cancelled ends; most need less than ten."""
_LATE: Final = 250
"""Naps of 10 ms that it gets then: more than twice the deadline for what a hook does."""
_MOMENTS: Final = 30
"""Moments at which a run is cancelled, spread over all turns of the loop that it takes."""
_EXPECTED: Final = (
    "a cancelled run ends at once: CancelledError and GeneratorExit pass, what has to be done "
    "first is short, and nothing is awaited for ever in a finally or a terminal hook"
)


async def honours_cancel(subject: Subject) -> Finding | None:
    """Cancel runs at every event, while the agent waits, and at every turn of the loop."""
    image = StateImage(subject)
    try:
        for player in players(subject):
            events = message() if isinstance(player, StreamPlayer) else ()
            cancelling = _Cancelling(subject, image, player, events)
            for look in (
                cancelling.between_events,
                cancelling.while_the_agent_waits,
                cancelling.while_the_layer_waits,
                cancelling.at_every_turn,
            ):
                finding = await look()
                if finding is not None:
                    return finding
        return None
    finally:
        image.restore()


@dataclass(slots=True)
class _Consumer:
    """A task that iterates over a run. ``events``: what it has got."""

    run: Run[Any]
    events: list[BaseEvent]
    task: asyncio.Task[None]


class _Cancelling:
    """Cancels runs around one agent."""

    def __init__(
        self, subject: Subject, image: StateImage, player: Player, events: Sequence[BaseEvent]
    ) -> None:
        self._subject = subject
        self._image = image
        self._bench = Bench(subject, player)
        self._events = tuple(events)
        self._files = own_files(subject.cls)
        self._workers: Counter[str] = Counter()

    async def between_events(self) -> Finding | None:
        """Call ``run.cancel``, or go away, while nobody waits for an event, at each of them."""
        for at in range(1, len(self._events) + 2):
            for how in ("run.cancel was called", "the consumer went away"):
                self._image.restore()
                with listening() as logged:
                    async with self._bench.opened() as opened:
                        driven = opened.drive(Script(self._events))
                        if not await driven.play(most=at) or driven.is_over:
                            return None
                        over = driven.record.run_id in self._bench.player.over
                        if how.startswith("run"):
                            driven.run.cancel("the kit cancels it")
                            ends = await driven.play()
                        else:
                            ends = await driven.leave()
                        result = driven.result
                        said = "" if ends else f"it waits in {self._where(driven.task)}"
                        may = (*_STOPPED, "success") if over else _STOPPED
                        if ends and result is not None and result.outcome not in may:
                            said = f"it ended as {result.outcome}"
                said = said or told_of_closing(logged)
                if said:
                    return self._finding(f"{how} after event {at}: {said}", at)
        return None

    async def while_the_agent_waits(self) -> Finding | None:
        """Call ``run.cancel``, or cancel the consumer, while the agent gives nothing."""
        for at in range(len(self._events) + 1):
            for how in ("run.cancel was called", "the consumer's task was cancelled"):
                script = Script(self._events, ending="waits", after=at)
                self._image.restore()
                with listening() as logged:
                    async with self._bench.opened() as opened:
                        watch = Watch(self._subject, self._image, opened, self._workers)
                        consumer = _consume(opened, script)
                        await _rest(consumer)
                        is_run = how.startswith("run")
                        if is_run:
                            consumer.run.cancel("the kit cancels it")
                        else:
                            consumer.task.cancel()
                        said = await self._ends(consumer, may_close=is_run)
                        if is_run and not said:
                            outcome = (await consumer.run).outcome
                            said = "" if outcome in _STOPPED else f"it ended as {outcome}"
                        said = said or await self._left(watch, opened, script)
                said = said or told_of_closing(logged)
                if said:
                    return self._finding(f"{how} while the agent waited: {said}", at)
        return None

    async def while_the_layer_waits(self) -> Finding | None:
        """Cancel the consumer while the clock stands still, and the layer waits for it."""
        self._image.restore()
        with listening() as logged:
            async with self._bench.opened(FakeClock()) as opened:
                consumer = _consume(opened, Script(self._events))
                await _rest(consumer)
                if consumer.task.done() or not opened.clock.sleepers:
                    return None
                waits = self._where(consumer.task)
                consumer.task.cancel()
                said = await self._ends(consumer)
        said = said or told_of_closing(logged)
        if not said:
            return None
        told = f"the consumer's task was cancelled while the layer waited in {waits}"
        return self._finding(f"{told}: {said}", None)

    async def at_every_turn(self) -> Finding | None:
        """Cancel the consumer at every turn of the loop."""
        turns = await self._length()
        for turn in range(1, turns, max(1, turns // _MOMENTS)):
            self._image.restore()
            with listening() as logged:
                async with self._bench.opened() as opened:
                    watch = Watch(self._subject, self._image, opened, self._workers)
                    consumer = _consume(opened, Script(self._events))
                    for _ in range(turn):
                        await asyncio.sleep(0)
                    if consumer.task.done():
                        return None
                    waits = where(consumer.task, self._files, only=True)
                    got = len(consumer.events)
                    consumer.task.cancel()
                    said = await self._ends(consumer)
                    said = said or await self._left(watch, opened, Script(self._events), turn)
            said = said or told_of_closing(logged)
            if said:
                moment = f"while it waited in {waits}" if waits else f"after {got} events"
                told = f"the consumer's task was cancelled {moment}"
                return self._finding(f"{told}: {said}", got)
        return None

    async def _length(self) -> int:
        """Return how many turns of the loop a run takes."""
        self._image.restore()
        async with self._bench.opened() as opened:
            consumer = _consume(opened, Script(self._events))
            for turn in range(_TURNS):
                if consumer.task.done():
                    return turn
                await asyncio.sleep(0)
        return _TURNS

    async def _ends(self, consumer: _Consumer, *, may_close: bool = False) -> str:
        """Wait for the end of a run that was cancelled; say what is wrong with it.

        ``may_close``: it may still close what is open in its stream.
        """
        before = len(consumer.events)
        task = consumer.task
        # Late is not told by a clock: where the host had to force an end, it said so.
        if not await settled(task.done, turns=_TURNS, naps=_LATE):
            return f"it waits in {self._where(task)}, and does not end"
        after = len(consumer.events) - before
        if after and not may_close:
            return f"it went on, and gave {after} more event{'s' if after > 1 else ''}"
        return ""

    async def _left(
        self, watch: Watch, opened: Opened, script: Script, turns: int | None = None
    ) -> str:
        """Say which task the cancelled run has left, unless it serves the next run, too."""
        left = await watch.tasks()
        if not left:
            return ""
        again = _consume(opened, script)
        if turns is None:
            await _rest(again)
        for _ in range(turns or 0):
            await asyncio.sleep(0)
        again.task.cancel()
        await self._ends(again)
        more = await watch.tasks()
        if len(more) > len(left):
            return f"a task goes on: {watch.told(more[-1])}"
        watch.are_workers(left)
        return ""

    def _where(self, task: asyncio.Task[Any]) -> str:
        return where(task, self._files)

    def _finding(self, happened: str, at: int | None) -> Finding:
        said = f"{happened}{self._bench.player.said}"
        return Finding(said, _EXPECTED, self._events if at is None else self._events[:at])


_STOPPED: Final = ("cancelled", "error")
"""Outcomes of a cancelled run: an error where its stream could not be closed in order."""


def _consume(opened: Opened, script: Script) -> _Consumer:
    run = opened.run(script)
    events: list[BaseEvent] = []

    async def consume() -> None:
        async with run:
            async for event in run:
                events.append(event)  # noqa: PERF401 - what came before a cancellation counts

    return _Consumer(run, events, asyncio.create_task(consume(), name="the consumer"))


async def _rest(consumer: _Consumer) -> None:
    """Wait until nothing happens any more."""
    still = 0
    seen = -1
    for _ in range(_TURNS):
        still = still + 1 if len(consumer.events) == seen else 0
        seen = len(consumer.events)
        if consumer.task.done() or still > 50:  # noqa: PLR2004 - more than the clock of the kit needs
            return
        await asyncio.sleep(0)


RULES: Final = (
    Rule(
        "honours-cancel",
        "A user who closes the window, and a server that shuts down, cancel runs. One that goes "
        "on costs money for nobody, and holds up the shutdown.",
        honours_cancel,
    ),
)
