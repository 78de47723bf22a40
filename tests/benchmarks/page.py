"""The page of the documentation, as Markdown, from a record alone."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from .machine import Machine
from .records import Record
from .remarks import REMARKS
from .results import Plot, Result, Table
from .targets import TARGETS, Target
from .wording import number, quartiles, verdict

NAME: Final = "benchmarks.md"
FOLDER: Final = "benchmarks"
"""Where plots and record are, beside the page."""

TITLES: Final = MappingProxyType(
    {
        "passthrough": "Pass-through",
        "chain": "A chain of real middlewares",
        "redaction": "Redaction of long streams",
        "loop": "Model and tool calls",
        "startup": "Startup",
        "memory": "Memory and concurrency",
        "serving": "Serving",
        "resolution": "Resolution",
    }
)

_INTRODUCTION: Final = """\
# Benchmarks

Interpose beside what you would pick instead, on the same work. `python -m benchmarks`, started in `tests/`, measures it
anew, and [CONTRIBUTING](../CONTRIBUTING.md) tells how this page is written: no line of it by hand, but for the remarks.

## How to read it

- **A ratio is the time of the first against the second of a row.** `0.30` means three tenths of its time, `2.0` twice
  its time. Rows about memory compare bytes, rows about throughput say so, and there more is better.
- **Both are measured in turns, in one run.** Each round runs every variant once, and the one that begins rotates. A
  ratio is the median of all rounds; half of the rounds lie within the range in parentheses.
- **Absolute figures are of this machine alone.** They are there to tell what matters: a tenth of a microsecond in each
  event is nothing beside a model that sends a word in twenty milliseconds.
- *Bare* is the agent's own generator in an `async for`. *Nested* is one async generator for each middleware around the
  last one, as it is written by hand.
- Peers are used as their documentation says. Where they do more for their time than Interpose does, or less, a note
  says so.
"""


def render(record: Record, drawn: Collection[str], remarks: Mapping[str, str] = REMARKS) -> str:
    """Return the page. ``drawn``: the names of the plots that there are files of."""
    parts = [_INTRODUCTION, _targets(record, remarks)]
    parts += [_workload(name, result, drawn) for name, result in record.results.items()]
    parts.append(_left_out(record, drawn))
    parts.append(_measured_on(record))
    return "\n".join(parts)


def _targets(record: Record, remarks: Mapping[str, str]) -> str:
    figures = record.figures
    rows: list[Sequence[str]] = []
    for target in TARGETS:
        limit = f"{target.sense} {target.limit:g}"
        if target.key in figures:
            found = figures[target.key]
            rows.append((target.what, limit, quartiles(found), verdict(target, found)))
        else:
            rows.append((target.what, limit, "", "not measured"))
    lines = [
        "## Targets\n",
        (
            "The ratios that Interpose is held to. The limits are for CPython 3.12, and a change that "
            "goes far beyond one of them fails the checks.\n"
        ),
        *_rows(("what", "limit", "measured", ""), rows),
    ]
    said = [target for target in TARGETS if target.key in figures and target.key in remarks]
    if said:
        lines += ["", *(_remark(target, remarks[target.key]) for target in said)]
    return "\n".join(lines) + "\n"


def _remark(target: Target, remark: str) -> str:
    return f"- *{_plain(target.what)}*: {remark}"


def _workload(name: str, result: Result, drawn: Collection[str]) -> str:
    workload = importlib.import_module(f".workloads.{name}", __package__)
    summary = str(workload.SUMMARY)
    lines = [f"## {TITLES[name]}\n", f"{summary[0].upper()}{summary[1:].rstrip('.')}."]
    for table in result.tables:
        lines += ["", *_table(table)]
    for plot in result.plots:
        if plot.name in drawn:
            lines += ["", _picture(plot)]
    return "\n".join(lines) + "\n"


def _table(table: Table) -> Iterator[str]:
    yield f"### {_plain(table.title)}\n"
    with_values = any(row.value is not None for row in table.rows)
    head = ["", "against", "ratio", *([table.unit] if with_values else [])]
    rows = []
    for row in table.rows:
        value = [] if not with_values else ["" if row.value is None else number(row.value)]
        rows.append([row.name, row.against, quartiles(row.ratio), *value])
    yield from _rows(head, rows)
    if table.notes:
        yield ""
        yield from (f"- {note}" for note in table.notes)


def _picture(plot: Plot) -> str:
    return f"![{_plain(plot.title)}]({FOLDER}/{plot.name}.png)"


def _left_out(record: Record, drawn: Collection[str]) -> str:
    lines = [line for result in record.results.values() for line in result.left_out]
    lines += [f"{title}: not run." for name, title in TITLES.items() if name not in record.results]
    if record.size.quick:
        lines.append("This was a quick run: fewer rounds, and no peers.")
    elif not record.size.peers:
        lines.append("This run was without peers.")
    plots = [plot.name for result in record.results.values() for plot in result.plots]
    if missing := [name for name in plots if name not in drawn]:
        lines.append(f"Plots that could not be drawn: {', '.join(missing)}.")
    said = [f"- {_plain(line)}" for line in dict.fromkeys(lines)] or ["Nothing."]
    return "\n".join(["## What was left out\n", *said]) + "\n"


def _measured_on(record: Record) -> str:
    peers = {
        name: version
        for result in record.results.values()
        for name, version in result.versions.items()
        if name not in record.versions
    }
    rows: list[Sequence[str]] = [("date", record.measured), *_facts(record.machine)]
    rows += [(name, version) for name, version in record.versions.items()]
    rows += sorted(peers.items())
    lines = [
        "## What it was measured on\n",
        *_rows(("", ""), rows),
        "",
        f"All figures are in [{FOLDER}/results.json]({FOLDER}/results.json).",
    ]
    return "\n".join(lines) + "\n"


def _facts(machine: Machine) -> Iterator[tuple[str, str]]:
    yield "system", machine.system
    yield "processor", f"{machine.processor}, {machine.processors} of them for the benchmarks"
    if machine.memory is not None:
        yield "memory", f"{machine.memory:g} GiB"
    built = {True: ", built with optimisations", False: ", built without optimisations", None: ""}
    yield "Python", f"{machine.python}{built[machine.optimised]}"


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(_plain(cell) for cell in cells)} |"


def _plain(text: str) -> str:
    """Escape what Markdown would take for markup; code in backticks stays code."""
    pieces = text.split("`")
    for index in range(0, len(pieces), 2):
        for sign in "\\*_<[|":
            pieces[index] = pieces[index].replace(sign, f"\\{sign}")
    return "`".join(pieces)


def picture_files(folder: Path) -> set[str]:
    """Return the names of the plots that there are files of below ``folder``."""
    return {file.stem for file in (folder / FOLDER).glob("*.png")}
