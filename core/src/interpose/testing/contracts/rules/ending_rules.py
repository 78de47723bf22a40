"""However a run ends, everything that it took is given back, and every hook copes."""

from __future__ import annotations

import traceback
from collections import Counter
from typing import Final

from interpose.testing.contracts.aftermath import (
    Gauges,
    Numbers,
    Watch,
    begun_in,
    open_generator,
    told_of_failure,
)
from interpose.testing.contracts.bench import Bench, Driven, own_files, where
from interpose.testing.contracts.endings import (
    Ending,
    endings,
    endings_by_others,
    success,
    template,
)
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.neighbours import inner, outer
from interpose.testing.contracts.players import Player, StreamPlayer, players
from interpose.testing.contracts.playing import listening
from interpose.testing.contracts.recording import own_streams
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.state_image import StateImage
from interpose.testing.contracts.subject import Subject

_EXPECTED: Final = (
    "what a run took is given back however it ends: in on_end, which is called once after every "
    "end, or in a finally around the events"
)
_MISTAKES: Final = (AttributeError, NameError, LookupError, TypeError, AssertionError)
"""What code raises that did not expect to be called in this state."""


async def balanced_hooks(subject: Subject) -> Finding | None:
    """End runs in every way, and look at what is left of them."""
    image = StateImage(subject)
    try:
        for player in players(subject):
            finding = await _Endings(subject, image, player).look()
            if finding is not None:
                return finding
        return None
    finally:
        image.restore()


class _Endings:
    """Ends runs around one agent, and looks at what is left."""

    def __init__(self, subject: Subject, image: StateImage, player: Player) -> None:
        self._subject = subject
        self._image = image
        self._player = player
        self._files = own_files(subject.cls)
        self._gauges = Gauges()
        self._workers: Counter[str] = Counter()

    async def look(self) -> Finding | None:
        """Return what is wrong after one of the ends."""
        bench = Bench(self._subject, self._player)
        is_stream = isinstance(self._player, StreamPlayer)
        own = await own_streams(self._subject) if is_stream else ()
        streams = [(), template(), *own] if is_stream else [()]
        for events in streams:
            good = success(events)
            seen: list[int] = []
            said = await self._said(bench, good, seen=seen)
            if said:
                return self._finding(good, said)
            if is_stream and not events:
                continue  # there is more to see with events
            for ending in endings(events, seen[0], thin=not is_stream or events in own):
                said = await self._said(bench, ending)
                if said:
                    return self._finding(ending, said)
        # What rewrites history stands innermost: nothing can stand further in.
        has_inner = not self._subject.declaration.rewrites_history
        others = [inner()] if has_inner else []
        beside = Bench(self._subject, self._player, outside=[outer()], inside=others)
        for ending in endings_by_others(template() if is_stream else (), has_inner=has_inner):
            said = await self._said(beside, ending)
            if said:
                return self._finding(ending, said)
        return None

    def _finding(self, ending: Ending, said: str) -> Finding:
        sent = ending.script.sent
        stream = sent[: ending.at] if ending.act or ending.beside else sent
        return Finding(f"{ending.said}{self._player.said}: {said}", _EXPECTED, stream)

    async def _said(self, bench: Bench, ending: Ending, seen: list[int] | None = None) -> str:
        """Play a run to this end, and say what is wrong with what is left of it."""
        self._image.restore()
        with listening() as logged:
            async with bench.opened() as opened, begun_in(self._subject) as begun:
                watch = Watch(self._subject, self._image, opened, self._workers)
                before = {} if seen is None else watch.numbers()
                driven = opened.drive(ending.script, **ending.attributes)
                during: list[Numbers] = []
                while seen is not None and not driven.is_over and await driven.play(_next(driven)):
                    during.append(watch.numbers())
                if not await ending.play(driven):
                    waits = where(driven.task, self._files)
                    return f"it does not come to its end, and waits in {waits}"
                tasks = await watch.tasks()
                after = watch.numbers() if seen is not None or self._gauges.before else {}
                if seen is not None:
                    seen.append(len(driven.events))
                    self._gauges.learn(before, during, after)
                said = (
                    told_of_failure(logged)
                    or self._of_error(driven)
                    or self._gauges.missed(after, only_numbers=ending.keeps)
                    or _held(watch.holds(driven))
                    or _open(open_generator(begun))
                )
                if not said and tasks:
                    # A worker that serves all runs may begin with the first of them.
                    again = opened.drive(ending.script, **ending.attributes)
                    await ending.play(again)
                    more = await watch.tasks()
                    if len(more) > len(tasks):
                        said = f"a task goes on for ever: {watch.told(more[-1])}"
                    else:
                        watch.are_workers(tasks)
            watch.workers = Counter()  # the host has stopped, and they with it
            left = [] if said else await watch.tasks()
        if left:
            return f"a task goes on when the host has stopped: {watch.told(left[0])}"
        return said

    def _of_error(self, driven: Driven) -> str:
        """Say what code of the author raised that was not made for this."""
        error = None if driven.result is None else driven.result.error
        if not isinstance(error, _MISTAKES):
            return ""
        frames = traceback.extract_tb(error.__traceback__)
        if not frames or frames[-1].filename not in self._files:
            return ""
        return f"{frames[-1].name} raised {type(error).__name__}: {error}"


def _next(driven: Driven) -> int:
    return len(driven.events) + 1


def _held(path: str) -> str:
    return f"the run is over, and {path} still holds what belongs to it" if path else ""


def _open(name: str) -> str:
    return f"the generator {name} is still open" if name else ""


RULES: Final = (
    Rule(
        "balanced-hooks",
        "Runs end in many ways, and most servers see all of them every day. What is given back "
        "only after a success runs out, one failed run at a time.",
        balanced_hooks,
    ),
)
