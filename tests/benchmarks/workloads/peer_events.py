"""The peers' hooks for events, beside Interpose's: a part of the pass-through workload.

That workload passes its own variants in, so that both sides are measured in the same rounds::

    found = peer_events.rows(size, {"interpose-0": ..., "interpose-10": ...}, events=20_000)
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from .. import peers
from ..measuring import Ratio, Samples, Timed, compare
from ..results import Result, Row, Size, Table

WITHOUT: Final = "interpose-0"
WITH: Final = "interpose-10"

_LAYERS: Final = 10
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
        "Processor time of the one thread that does the work, here and there. The threads that "
        "compile JavaScript and collect its garbage are not counted, which favours the peer."
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
    """A peer's hook. ``events``: of one run. The smaller its share of the run, the more rounds."""

    name: str
    worker: str
    kind: str
    events: int
    rounds: int = 15
    action: str = "events"
    figure: str | None = None


_HOOKS: Final = (
    _Hook("TanStack AI onChunk", "tanstack-ai", "chunk", 5_000, 25, figure="event-tanstack"),
    _Hook(
        "AG-UI TS class middleware, the chain alone", "ag-ui-client", "class", 10_000,
        action="chain", figure="event-ag-ui-class",
    ),
    _Hook("AG-UI TS class middleware, a run", "ag-ui-client", "class", 1_000),
    _Hook(
        "AG-UI TS function middleware, the chain alone", "ag-ui-client", "function", 50_000,
        action="chain",
    ),
    _Hook(
        "pydantic-ai wrap_run_event_stream", "pydantic-ai", "wrap", 1_000, 25,
        figure="event-pydantic-ai",
    ),
    _Hook("pydantic-ai on_event", "pydantic-ai", "observe", 300),
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
    with _frozen(), peers.workers(*names) as (workers, left_out):
        for hook in _HOOKS:
            if hook.worker not in workers:
                continue
            try:
                samples = _compare(each_event, workers[hook.worker], hook)
            except peers.Unavailable as error:
                left_out.append(f"{hook.name}: {error}")
                continue
            theirs = samples.added("with", "without") / _LAYERS * _NANOSECONDS
            ratio = _ratio(samples)
            if ratio is None or theirs <= 0:
                left_out.append(f"{hook.name}: what the layers add was lost in this run's noise")
                continue
            measured.append(Row("Interpose", hook.name, ratio, theirs))
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
    return compare({**ours, **theirs}, rounds=hook.rounds, warm_up=2)


def _ratio(samples: Samples) -> Ratio | None:
    """Return what our layers add against what theirs add; None where noise hides either."""
    try:
        ratio = samples.added_ratio((WITH, WITHOUT), ("with", "without"))
    except ZeroDivisionError:
        return None
    return ratio if ratio.low > 0 else None


def _per(timed: Timed, events: int) -> float:
    """Return the seconds of one event."""
    return timed() / events


@contextmanager
def _frozen() -> Iterator[None]:
    """Keep what is already there from the garbage collector: each measurement begins with a collection."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
