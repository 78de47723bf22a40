"""How results are shown: as text, as JSON, and as the page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from .measuring import Ratio
from .results import Result, Size
from .targets import TARGETS


def text(result: Result) -> str:
    """Return a result's tables for a terminal."""
    lines: list[str] = []
    for table in result.tables:
        lines += ["", table.title]
        width = max(len(f"{row.name} / {row.against}") for row in table.rows)
        for row in table.rows:
            value = "" if row.value is None else f"   {row.value:,.1f} {table.unit}"
            lines.append(f"  {f'{row.name} / {row.against}':<{width}}  {row.ratio}{value}")
        lines += [f"  {note}" for note in table.notes]
    lines += [f"left out: {line}" for line in result.left_out]
    return "\n".join(lines) + "\n"


def targets(figures: Mapping[str, Ratio]) -> str:
    """Return what became of the targets that were measured."""
    lines = ["", "== targets"]
    for target in TARGETS:
        if target.key in figures:
            found = figures[target.key]
            said = "met" if target.is_met(found) else "MISSED"
            lines.append(f"  {said:<7} {found!s:<24} {target.sense} {target.limit:g}: {target.what}")
    return "\n".join(lines) + "\n"


def write_json(file: Path, results: Mapping[str, Result], size: Size) -> None:
    """Write everything that was found."""
    held = {"size": asdict(size), "results": {name: asdict(each) for name, each in results.items()}}
    file.write_text(json.dumps(held, indent=2) + "\n", encoding="utf-8")


def write_pages(folder: Path, results: Mapping[str, Result], size: Size) -> None:
    """Write the page of the documentation, and its plots."""
    raise NotImplementedError
