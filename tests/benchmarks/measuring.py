"""Comparing: variants of the same work, interleaved in one process, as ratios.

Clocks drift, other processes come and go, and processors change their speed; what survives that is
the ratio of two variants measured right after each other. So each round runs every variant once,
in an order that rotates, and a figure is the median of the rounds' ratios.
"""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

Timed = Callable[[], float]
"""Does the work once, and returns the seconds that it took, by a clock of its own choice."""

_QUARTILES: Final = 4
_DRAWN: Final = 400
"""How often rounds are drawn for the quartiles of a ratio of medians."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How often one variant's time holds another's: the median of all rounds, and the quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds by variant, a list entry for each round."""

    seconds: Mapping[str, list[float]]

    @property
    def rounds(self) -> int:
        """How often each variant was measured."""
        return len(next(iter(self.seconds.values())))

    def ratio(self, variant: str, baseline: str) -> Ratio:
        """Return the time of a variant against a baseline's of the same round."""
        pairs = zip(self.seconds[variant], self.seconds[baseline], strict=True)
        return ratio_of([taken / base for taken, base in pairs])

    def added(self, variant: str, baseline: str) -> float:
        """Return the seconds that a variant takes longer than a baseline of the same round."""
        pairs = zip(self.seconds[variant], self.seconds[baseline], strict=True)
        return median(taken - base for taken, base in pairs)

    def added_ratio(self, ours: tuple[str, str], theirs: tuple[str, str]) -> Ratio:
        """Return what one pair (with, without) adds against what another pair adds.

        What is added is a small difference, and a single round's may be all noise, so that its
        ratio says nothing: this is the ratio of the medians of all rounds, and its quartiles are
        those of the same rounds drawn again and again.
        """
        added = [
            (with_ - out, their - base)
            for with_, out, their, base in zip(
                *(self.seconds[name] for name in (*ours, *theirs)), strict=True
            )
        ]
        found = _of_medians(added)
        drawing = random.Random(0)  # noqa: S311 - the same in each reading of the same figures
        drawn = ratio_of([_of_medians(drawing.choices(added, k=len(added))) for _ in range(_DRAWN)])
        return Ratio(found, drawn.low, drawn.high)

    def median(self, variant: str) -> float:
        """Return the median seconds of a variant."""
        return median(self.seconds[variant])


def _of_medians(added: list[tuple[float, float]]) -> float:
    ours, theirs = (median(column) for column in zip(*added, strict=True))
    return ours / theirs if theirs else math.inf


def ratio_of(values: list[float]) -> Ratio:
    """Return the median and quartiles of some rounds' ratios."""
    if len(values) == 1:
        return Ratio(values[0], values[0], values[0])
    low, _, high = quantiles(values, n=_QUARTILES, method="inclusive")
    return Ratio(median(values), low, high)


def compare(variants: Mapping[str, Timed], *, rounds: int, warm_up: int = 1) -> Samples:
    """Run all variants in each round, the first one of a round rotating.

    The garbage collector runs before each measurement, and not in it: what one variant leaves
    behind is not charged to the next. What was there before is not looked at again.
    """
    gc.collect()
    gc.freeze()
    try:
        return _rounds(variants, rounds, warm_up)
    finally:
        gc.unfreeze()


def _rounds(variants: Mapping[str, Timed], rounds: int, warm_up: int) -> Samples:
    names = list(variants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warm_up, rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            gc.collect()
            gc.disable()
            try:
                taken = variants[name]()
            finally:
                gc.enable()
            if number >= 0:
                seconds[name].append(taken)
    return Samples(seconds)


def processor_time(work: Callable[[], object]) -> Timed:
    """Measure the processor time of this thread: other processes do not count."""

    def timed() -> float:
        since = time.thread_time()
        work()
        return time.thread_time() - since

    return timed


def wall_time(work: Callable[[], object]) -> Timed:
    """Measure the time that passes: for work in other processes or over sockets."""

    def timed() -> float:
        since = time.perf_counter()
        work()
        return time.perf_counter() - since

    return timed
