"""What a workload finds: tables for people, figures for targets, curves for plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .measuring import Ratio


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured. ``quick``: within seconds, without peers, for regressions only."""

    quick: bool
    peers: bool

    def pick(self, full: int, quick: int) -> int:
        """Return the number for this size."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. ``value``: the absolute figure, in the table's unit, of this machine only."""

    name: str
    against: str
    ratio: Ratio
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """What a plot shows: values of a series by N."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of cost against N. ``name``: of its file, without the ending."""

    name: str
    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that belong together; ``unit`` of their values; ``notes``: what a reader must know."""

    title: str
    unit: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What a workload found.

    ``figures``: by the keys of :mod:`benchmarks.targets`. ``left_out``: what could not be measured
    here, a line each with the reason. ``versions``: of the peers.
    """

    tables: Sequence[Table]
    figures: Mapping[str, Ratio] = field(default_factory=dict)
    plots: Sequence[Plot] = ()
    left_out: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


class Workload(Protocol):
    """A module below :mod:`benchmarks.workloads`."""

    SUMMARY: str

    def run(self, size: Size, /) -> Result:
        """Measure."""


class Benchmark(Protocol):
    """A module that is run by itself, with options of its own."""

    SUMMARY: str

    def run(self, arguments: Sequence[str], /) -> int:
        """Run it, and return the exit status."""
