"""The peers' hooks for events, beside Interpose's: a part of the pass-through workload.

That workload passes its own variants in, so that both sides are measured in the same rounds::

    found = peer_events.rows(size, {"interpose-0": ..., "interpose-10": ...}, events=20_000)
"""

# ruff: noqa: TID252 - what "benchmarks" is below depends on where it is run from

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from .. import peers
from ..measuring import Ratio, Samples, Timed, compare
from ..results import Result, Row, Size, Table

WITHOUT: Final = "interpose-0"
WITH: Final = "interpose-10"

_LAYERS: Final = 10
_ROUNDS: Final = 15
_NANOSECONDS: Final = 1e9

_NOTES: Final = (
    (
        "The ratios are of what ten no-op layers add to an event, here and there: runs with ten, less "
        "runs without. In ns: a layer of the peer."
    ),
    (
        "A peer runs a pipeline of its own in a process of its own, and does more for a hook than call "
        "it. What the pipeline costs without hooks is in none of these figures."
    ),
    (
        "Processor time: of the thread here, of all threads of the process there, so those that "
        "compile JavaScript and collect its garbage are counted."
    ),
    (
        "The chain alone is what the AG-UI client composes, without its run around it: the same "
        "difference with less noise, and what the target is held against."
    ),
    (
        "A function middleware over RxJS is compiled into the loop by V8. No hook in Python comes "
        "near that, and no target says so."
    ),
)


@dataclass(frozen=True, slots=True)
class _Hook:
    """A peer's hook. ``events``: of one run, so that it takes some tens of milliseconds."""

    name: str
    worker: str
    kind: str
    events: int
    action: str = "events"
    figure: str | None = None


_HOOKS: Final = (
    _Hook("TanStack AI onChunk", "tanstack-ai", "chunk", 5_000, figure="event-tanstack"),
    _Hook(
        "AG-UI TS class middleware, the chain alone", "ag-ui-client", "class", 20_000, "chain",
        "event-ag-ui-class",
    ),
    _Hook("AG-UI TS class middleware, a run", "ag-ui-client", "class", 2_000),
    _Hook("AG-UI TS function middleware, the chain alone", "ag-ui-client", "function", 50_000,
          "chain"),
    _Hook(
        "pydantic-ai wrap_run_event_stream", "pydantic-ai", "wrap", 500,
        figure="event-pydantic-ai",
    ),
    _Hook("pydantic-ai on_event", "pydantic-ai", "observe", 500),
    _Hook("JavaScript nested async generators", "javascript", "nested", 20_000),
)  # fmt: skip


def rows(size: Size, ours: Mapping[str, Timed], events: int) -> Result:
    """Measure the peers' hooks for events against Interpose's.

    :param ours: ``"interpose-0"`` and ``"interpose-10"``: a whole run of so many events through no
        layer, and through ten whose hooks see every event; by the processor time of the thread.
    :param events: of such a run.
    :returns: a table of the cost of an event and layer, ours against theirs, with the figures
        ``event-tanstack``, ``event-ag-ui-class`` and ``event-pydantic-ai``; without a table where
        no peer is asked for or available.
    """
    if not size.peers:
        return Result(())
    each_event = {name: partial(_per, ours[name], events) for name in (WITHOUT, WITH)}
    measured: list[Row] = []
    figures: dict[str, Ratio] = {}
    names = dict.fromkeys(hook.worker for hook in _HOOKS)
    with peers.workers(*names) as (workers, left_out):
        for hook in _HOOKS:
            if hook.worker not in workers:
                continue
            try:
                samples = _compare(each_event, workers[hook.worker], hook)
            except peers.Unavailable as error:
                left_out.append(f"{hook.name}: {error}")
                continue
            ratio = samples.added_ratio((WITH, WITHOUT), ("with", "without"))
            measured.append(Row("Interpose", hook.name, ratio, _layer(samples, "with", "without")))
            if hook.figure is not None:
                figures[hook.figure] = ratio
        versions = {
            name: version for each in workers.values() for name, version in each.versions.items()
        }
    table = Table("A hook for every event, beside the peers'", "ns (the peer's)", measured, _NOTES)
    return Result((table,) if measured else (), figures, (), left_out, versions)


def _compare(ours: Mapping[str, Timed], worker: peers.Worker, hook: _Hook) -> Samples:
    def run(layers: int) -> float:
        return worker.time(
            hook.action, layers=layers, kind=hook.kind, events=hook.events, clock="processor"
        )

    theirs = {
        "without": partial(_per, partial(run, 0), hook.events),
        "with": partial(_per, partial(run, _LAYERS), hook.events),
    }
    return compare({**ours, **theirs}, rounds=_ROUNDS, warm_up=2)


def _per(timed: Timed, events: int) -> float:
    """Return the seconds of one event."""
    return timed() / events


def _layer(samples: Samples, with_: str, without: str) -> float:
    return samples.added(with_, without) / _LAYERS * _NANOSECONDS
