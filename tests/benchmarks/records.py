"""What is kept of a run of the benchmarks, as JSON: enough to write all pages from it again.

The object of the JSON is a :class:`Record`, and those within it are named as their classes are in
:mod:`benchmarks.results`. A ratio is ``{"median", "low", "high"}``: the median of all rounds, and
the quartiles. Figures have five significant digits; ``null`` stands for what is not known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from .machine import Machine, machine, versions
from .measuring import Ratio
from .results import Result, Size

FORMAT: Final = 1
_DIGITS: Final = 5


@dataclass(frozen=True, slots=True)
class Record:
    """A run. ``measured``: the day. ``versions``: of Interpose and what it stands on.

    ``results``: by the names of the workloads; each has its tables, figures by the keys of
    :mod:`benchmarks.targets`, plots, what was left out, and the versions of its peers.
    """

    measured: str
    size: Size
    machine: Machine
    versions: Mapping[str, str]
    results: Mapping[str, Result]
    format: int = field(default=FORMAT)

    @property
    def figures(self) -> dict[str, Ratio]:
        """All workloads' figures."""
        return figures(self.results)


def figures(results: Mapping[str, Result]) -> dict[str, Ratio]:
    """Return all workloads' figures, by the targets' keys."""
    return {key: ratio for each in results.values() for key, ratio in each.figures.items()}


def record(results: Mapping[str, Result], size: Size) -> Record:
    """Return a record of what was just measured here."""
    today = datetime.now(UTC).date().isoformat()
    return Record(today, size, machine(), versions(), results)


def write(file: Path, kept: Record) -> None:
    """Write a record."""
    held = _rounded(_RECORDS.dump_python(kept, mode="json"))
    file.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(file: Path) -> Record:
    """Read a record. Raises :class:`ValueError` if it is none, or one of another format."""
    kept = _RECORDS.validate_json(file.read_bytes())
    if kept.format != FORMAT:
        raise ValueError(f"{file.name} has format {kept.format}, and this reads {FORMAT}")
    return kept


_RECORDS: Final = TypeAdapter(Record)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
