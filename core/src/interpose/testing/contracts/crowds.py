"""Many runs in one host: at once or one by one, and some of them do not come to a good end."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import BaseEvent

from interpose.runtime.control import Finish, Pause, Stop
from interpose.testing.contracts.bench import Bench, Driven, Opened, own_files, settled, where
from interpose.testing.contracts.outcomes import Outcome, errors, outcome
from interpose.testing.contracts.playing import listening
from interpose.testing.contracts.scripts import ADA, Script, renamed

RUNS: Final = 16
_SEED: Final = 20
_NUMBER: Final = re.compile(rf"{ADA}\d\d", re.IGNORECASE)
_PATIENCE: Final = 45
"""Turns of the loop that a run gets for an event before another one goes on."""

_AT_ONCE: Final = 8
"""Turns after which a consumer is gone that does not wait for anything."""

# What becomes of a run, by its number modulo 8: most go on to the end.
_OF: Final = 8
_RAISES, _CANCELLED, _LEFT, _DROPPED = 6, 2, 4, 0


@dataclass(frozen=True, slots=True)
class Became:
    """What became of a run in a crowd. ``is_limited``: a layer ended it on purpose."""

    number: int
    marker: str
    outcome: Outcome
    is_limited: bool

    @property
    def is_disturbed(self) -> bool:
        """Whether the kit saw to it that the run does not end well."""
        return self.number % _OF in (_RAISES, _CANCELLED, _LEFT, _DROPPED)

    @property
    def leak(self) -> str:
        """Say what of other runs is in it, or return ``""``."""
        own = self.marker
        for text in (self.outcome.told, *self.outcome.heard):
            for found in _NUMBER.findall(text):
                if found.lower() != own:
                    return self.outcome.leak_of(found.lower())
        return ""


@dataclass(frozen=True, slots=True)
class Crowd:
    """What became of many runs, and of one more after them.

    ``stuck``: where a run waits that does not end; ``logged``: errors, by the markers of no run.
    """

    runs: Sequence[Became]
    last: Became | None
    stuck: str
    logged: tuple[str, ...]


def script(number: int, template: Sequence[BaseEvent]) -> Script:
    """Return what the agent does in the run of this number."""
    marker = f"{ADA}{number:02}"
    events = renamed(template, marker)
    if number % _OF == _RAISES:
        return Script(events, marker, ending="raises", after=len(events) // 2)
    return Script(events, marker)


async def play_crowd(bench: Bench, template: Sequence[BaseEvent], *, at_once: bool) -> Crowd:
    """Play :data:`RUNS` runs at once or one by one, then one more."""
    with listening() as logged:
        async with bench.opened() as opened:
            stuck = await _Playing(bench, opened, template, at_once=at_once).play()
            driven = list(opened.driven)
            last: Driven | None = None
            if not stuck:
                last = opened.drive(script(RUNS, template))
                if not await last.play():
                    stuck = where(last.task, own_files(bench.subject.cls))
            scripts = [script(number, template) for number in range(RUNS + 1)]
            runs = [
                _became(bench, opened, each, number, scripts[number])
                for number, each in enumerate(driven)
            ]
            after = None if last is None else _became(bench, opened, last, RUNS, scripts[RUNS])
    lines = tuple(dict.fromkeys(_NUMBER.sub(ADA, line) for line in errors(logged)))
    return Crowd(runs, after, stuck, lines)


class _Playing:
    def __init__(
        self, bench: Bench, opened: Opened, template: Sequence[BaseEvent], *, at_once: bool
    ) -> None:
        self._template = template
        self._files = own_files(bench.subject.cls)
        self._opened = opened
        self._at_once = at_once
        self._chance = random.Random(_SEED)  # noqa: S311 - the same every time

    async def play(self) -> str:
        """Play them; return where one waits that does not come to an end, or ``""``."""
        left = list(range(RUNS))
        runs: dict[int, Driven] = {}
        while left or any(not each.is_over for each in runs.values()):
            ready = [n for n, each in runs.items() if not each.is_over and not each.waits]
            if left and (self._at_once or all(each.is_over for each in runs.values())):
                number = left.pop(0)
                runs[number] = self._opened.drive(script(number, self._template))
            elif ready:
                number = self._chance.choice(ready)
            else:
                waiting = [each for each in runs.values() if each.waits]
                before = len(waiting)
                if not await settled(lambda: sum(w.waits for w in waiting) < before):  # noqa: B023
                    return where(waiting[0].task, self._files)
                continue
            if not await self._step(number, runs[number]):
                return where(runs[number].task, self._files)
        return ""

    async def _step(self, number: int, driven: Driven) -> bool:
        kind = number % _OF
        moment = 1 + number % 5
        if len(driven.events) == moment and kind == _CANCELLED:
            driven.run.cancel("the kit cancels it")
        if len(driven.events) == moment and kind == _LEFT:
            return await driven.leave()
        driven.ask()
        turns = _AT_ONCE if kind == _DROPPED else _PATIENCE
        await settled(lambda: not driven.waits, turns=turns, naps=0)
        if kind == _DROPPED and (driven.waits or len(driven.events) == moment):
            driven.task.cancel()
            # One that takes no notice is left in the other way: that is another check's matter.
            return await settled(lambda: driven.is_over, naps=0) or await driven.leave()
        return True


def _became(bench: Bench, opened: Opened, driven: Driven, number: int, plan: Script) -> Became:
    verdict: Any = driven.record.verdict
    own = isinstance(verdict, Finish | Pause) and verdict.layer == bench.subject.layer_id
    aborted = isinstance(verdict, Stop) and verdict.cause == "abort"
    came = outcome(opened, driven, plan)
    return Became(number, plan.marker, came, is_limited=came.is_refused or own or aborted)
