"""Many runs at once: what a suspended run holds, and what it costs to let all of them go on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from ..measuring import Ratio, ratio_of
from ..results import Result, Row, Size, Table

SUMMARY: Final = "thousands of suspended runs: bytes of a run, and the throughput of all of them"
_VARIANTS: Final = ("bare", "nested-10", "run-0", "run-10")
_TESTS: Final = Path(__file__).parents[2]
_LONGEST: Final = 300.0
"""Seconds that one process may take."""


def run(size: Size) -> Result:
    """Measure each variant in fresh processes, one after another in each round."""
    if not Path("/proc/self/statm").exists():
        return Result((), left_out=("memory: needs /proc, to see the memory of a process",))
    runs, ticks = size.pick(10_000, 1_000), size.pick(10, 2)
    rounds = size.pick(5, 1)
    held: dict[str, list[float]] = {name: [] for name in _VARIANTS}
    taken: dict[str, list[float]] = {name: [] for name in _VARIANTS}
    for number in range(rounds):
        turn = number % len(_VARIANTS)
        for name in _VARIANTS[turn:] + _VARIANTS[:turn]:
            found = _measure(name, runs, ticks)
            held[name].append(found["bytes"])
            taken[name].append(found["seconds"] / runs / ticks * 1e9)
    return Result(
        (_memory(held, runs), _throughput(taken, runs)),
        {"memory-run": _added(held, "run-10", "nested-10")},
    )


def _measure(variant: str, runs: int, ticks: int) -> dict[str, float]:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "benchmarks.suspended", variant, str(runs), str(ticks)],
        cwd=_TESTS,
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _added(held: dict[str, list[float]], ours: str, theirs: str) -> Ratio:
    columns = zip(held[ours], held[theirs], held["bare"], strict=True)
    return ratio_of([(our - bare) / (their - bare) for our, their, bare in columns])


def _memory(held: dict[str, list[float]], runs: int) -> Table:
    rows = [
        Row(_NAMES[name], "bare", _ratio(held, name), sum(held[name]) / len(held[name]))
        for name in _VARIANTS
    ]
    rows += [
        Row(f"added by {_NAMES[name]}", "added by nested, N = 10", _added(held, name, "nested-10"))
        for name in ("run-0", "run-10")
    ]
    notes = (
        "bare: the agent's generator and a task; resident memory, so with what the allocator keeps.",
        "host.run also holds ids, the transcript, what is open, and of each layer an instance.",
    )
    return Table(f"Memory of {runs:,} suspended runs", "bytes a run", rows, notes)


def _throughput(taken: dict[str, list[float]], runs: int) -> Table:
    rows = [
        Row(_NAMES[name], "bare", _ratio(taken, name), sum(taken[name]) / len(taken[name]))
        for name in _VARIANTS
    ]
    title = f"{runs:,} runs that are woken once for each event"
    return Table(title, "ns an event", rows)


def _ratio(found: dict[str, list[float]], name: str) -> Ratio:
    return ratio_of([value / base for value, base in zip(found[name], found["bare"], strict=True)])


_NAMES: Final = {
    "bare": "bare",
    "nested-10": "nested generators, N = 10",
    "run-0": "host.run, no layers",
    "run-10": "host.run, N = 10",
}
