"""What must hold of a server under load, judged from what was counted. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from .clients import Outcomes
from .server import Holdings

MEMORY_SHARE: Final = 0.05
"""How much more memory the last quarter may take than the second one, as a share of it.

Pools of memory grow to the worst moment, and are not given back. What is left in small pieces is
found in objects and blocks, to the piece.
"""
LEFT_A_RUN: Final = 0.1
"""How many objects, and how many blocks, may be left for each run: a run makes thousands."""
LEFT: Final = {"objects": 100, "allocated blocks": 500}
"""And how many whatever the number of runs: caches fill, and stay full."""


@dataclass(frozen=True, slots=True)
class Property:
    """One property: whether it holds, and the figures that say so."""

    name: str
    holds: bool
    said: str


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was counted. ``memory``: bytes, in equal steps of time while the load was on."""

    outcomes: Outcomes
    before: Holdings
    after: Holdings
    memory: Sequence[int]
    log: str


def judge(found: Measured) -> list[Property]:
    """Return the properties, each with its verdict."""
    held = [
        _same("asyncio tasks", found.before.tasks, found.after.tasks),
        _same("async generators", found.before.generators, found.after.generators),
        _same("file handles", found.before.handles, found.after.handles),
        _same("threads", {"all": found.before.threads}, {"all": found.after.threads}),
    ]
    runs = found.outcomes.begun
    held.append(_left("objects", found.before.objects, found.after.objects, runs))
    held.append(_left("allocated blocks", found.before.blocks, found.after.blocks, runs))
    return [_clients(found), *_hooks(found), *held, _memory(found), _log(found)]


def _clients(found: Measured) -> Property:
    outcomes = found.outcomes
    meant = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.as_meant.items()))
    if not outcomes.unexpected and sum(outcomes.as_meant.values()) == outcomes.begun:
        return Property("clients", holds=True, said=f"{outcomes.begun} runs as meant: {meant}")
    examples = "; ".join(outcomes.examples)
    said = f"{len(outcomes.unexpected)} of {outcomes.begun} runs came out otherwise: {examples}"
    return Property("clients", holds=False, said=said)


def _hooks(found: Measured) -> list[Property]:
    """Each layer hears of the end of each run once, and of the right one."""
    outcomes = found.outcomes
    meant = outcomes.as_meant
    properties = []
    for layer, after in sorted(found.after.tallies.items()):
        before = found.before.tallies.get(layer, {})
        tally = {name: count - before.get(name, 0) for name, count in after.items()}
        begun, ended, wrong = (tally.get(name, 0) for name in ("begun", "ended", "wrong"))
        kinds = {name: tally.get(name, 0) for name in ("finish", "abort", "error")}
        holds = (
            begun == ended == sum(kinds.values()) == outcomes.begun
            and wrong == 0
            and kinds["error"] == meant["fail"]
            # A client may leave when its run has just finished.
            and kinds["abort"] <= meant["leave"]
        )
        told = ", ".join(f"{count} {name}" for name, count in kinds.items())
        said = f"{begun} runs begun, {ended} ended: {told}; {wrong} not with one terminal hook"
        properties.append(Property(f"terminal hooks, {layer}", holds=holds, said=said))
    return properties


def _same(name: str, before: Mapping[str, int], after: Mapping[str, int]) -> Property:
    if before == after:
        said = f"{sum(before.values())} at idle, before and after"
        return Property(name, holds=True, said=said)
    changed = ", ".join(
        f"{each} from {before.get(each, 0)} to {after.get(each, 0)}"
        for each in sorted({*before, *after})
        if before.get(each) != after.get(each)
    )
    return Property(name, holds=False, said=f"not as before: {changed}")


def _left(name: str, before: int, after: int, runs: int) -> Property:
    """Little more is left than there was."""
    most = LEFT[name] + LEFT_A_RUN * runs
    said = f"{after - before:+} to {before} after {runs} runs (most {most:+.0f})"
    return Property(name, holds=after - before <= most, said=said)


def _memory(found: Measured) -> Property:
    quarter = max(1, len(found.memory) // 4)
    second, last = (
        median(found.memory[at : at + quarter] or found.memory) for at in (quarter, 3 * quarter)
    )
    most = MEMORY_SHARE * second
    said = (
        f"median of the second quarter {_mib(second)}, of the last {_mib(last)}: "
        f"{_mib(last - second)} more (most {_mib(most)}; {len(found.memory)} samples)"
    )
    return Property("memory", holds=last - second <= most, said=said)


def _log(found: Measured) -> Property:
    """The log tells the beginning and end of each run, the failures that were meant, no more."""
    lines = found.log[_begin(found.log) :].splitlines()
    # The host itself says why a run failed, beside what the logging layer tells.
    told = [_LINE.match(line) for line in lines if ": run failed: agent-failed (" not in line]
    other = sum(each is None for each in told)
    runs = [each for each in told if each is not None and each["run"].startswith("load-")]
    ended = [each for each in runs if each["what"] == "ended"]
    failed = sum(each["level"] == "ERROR" for each in ended)
    meant = found.outcomes.as_meant["fail"]
    holds = not other and len(ended) == found.outcomes.begun and failed == meant
    said = f"{len(ended)} ends of runs, {failed} of them failures; {other} lines tell anything else"
    return Property("log", holds=holds, said=said)


_LINE: Final = re.compile(
    r"[\d:]{8} (?P<level>INFO|ERROR) +interpose_logging\.layer: "
    r"run (?P<what>started|ended) run_id=(?P<run>\S+) .*?"
    r"(outcome=(success|consumer-gone)|outcome=error code=agent-failed error=RuntimeError|$)"
)


def _begin(log: str) -> int:
    """Return where the warnings of the start are over, which have no time."""
    first = re.search(r"^\d\d:\d\d:\d\d ", log, re.MULTILINE)
    return len(log) if first is None else first.start()


def _mib(size: float) -> str:
    return f"{size / 1024 / 1024:.1f} MiB"
