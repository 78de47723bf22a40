"""How results are shown: as text, as JSON, and as the page of the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from . import page, plots, records
from .measuring import Ratio
from .results import Result, Size
from .targets import TARGETS
from .wording import number, quartiles, verdict

RECORD: Final = f"{page.FOLDER}/results.json"
"""Where the documentation keeps the record that its page is written from."""


def text(result: Result) -> str:
    """Return a result's tables for a terminal."""
    lines: list[str] = []
    for table in result.tables:
        lines += ["", table.title]
        names = [f"{row.name} / {row.against}" for row in table.rows]
        ratios = [quartiles(row.ratio) for row in table.rows]
        first, second = (max(map(len, column), default=0) for column in (names, ratios))
        for row, name, ratio in zip(table.rows, names, ratios, strict=True):
            value = "" if row.value is None else f"{number(row.value)} {table.unit}"
            lines.append(f"  {name:<{first}}  {ratio:<{second}}  {value}".rstrip())
        lines += [f"  {note}" for note in table.notes]
    lines += [f"left out: {line}" for line in result.left_out]
    return "\n".join(lines) + "\n"


def targets(figures: Mapping[str, Ratio]) -> str:
    """Return what became of the targets that were measured."""
    lines = ["", "== targets"]
    for target in TARGETS:
        if target.key in figures:
            found = figures[target.key]
            limit = f"{target.sense} {target.limit:g}"
            lines.append(f"  {target.what}: {quartiles(found)}, {limit}: {verdict(target, found)}")
    return "\n".join(lines) + "\n"


def write_json(file: Path, results: Mapping[str, Result], size: Size) -> None:
    """Write everything that was found, and what it was measured on; see :mod:`.records`."""
    records.write(file, records.record(results, size))


def write_pages(folder: Path, results: Mapping[str, Result], size: Size) -> None:
    """Write the page of the documentation, its plots, and the record that they come from."""
    write_pages_of(folder, records.record(results, size))


def write_pages_of(folder: Path, kept: records.Record) -> None:
    """Write page, plots and record from a record; what cannot be drawn is left out."""
    (folder / RECORD).parent.mkdir(parents=True, exist_ok=True)
    records.write(folder / RECORD, kept)
    every = [plot for result in kept.results.values() for plot in result.plots]
    plots.draw(every, folder / page.FOLDER)
    text = page.render(kept, page.picture_files(folder))
    (folder / page.NAME).write_text(text, encoding="utf-8")
