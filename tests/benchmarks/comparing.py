"""The comparison: runs workloads, prints their tables, and holds the figures against the targets."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from . import records, report
from .measuring import Ratio
from .results import Benchmark, Result, Size, Workload
from .targets import TARGETS

WORKLOADS: Final = (
    "passthrough",
    "chain",
    "redaction",
    "loop",
    "startup",
    "memory",
    "serving",
    "resolution",
)


def run(arguments: Sequence[str], *, others: Mapping[str, Benchmark]) -> int:
    """Run the workloads that are named, all without a name; returns the exit status."""
    options = _options(arguments, others)
    if options.kept is not None:
        return _show(options.kept, options.pages)
    size = Size(quick=options.quick, peers=not options.quick and not options.without_peers)
    sys.stdout.write(_LEGEND)
    results: dict[str, Result] = {}
    for name in options.names or WORKLOADS:
        since = time.monotonic()
        workload = cast("Workload", importlib.import_module(f".workloads.{name}", __package__))
        sys.stdout.write(f"\n== {name}: {workload.SUMMARY}\n")
        sys.stdout.flush()
        results[name] = workload.run(size)
        sys.stdout.write(report.text(results[name]))
        sys.stdout.write(f"-- {name}: {time.monotonic() - since:.0f} s\n")
    figures = records.figures(results)
    sys.stdout.write(report.targets(figures))
    if options.json is not None:
        report.write_json(options.json, results, size)
    if options.pages is not None:
        report.write_pages(options.pages, results, size)
    return _status(figures) if options.quick else 0


_LEGEND: Final = """\
A ratio is the median of the rounds' ratios, with their quartiles in brackets; below 1, the first of
the two takes less. The last column is a median of its own, of this machine, for orientation: two of
them need not divide to the ratio. What noise hides may come out as less than nothing.
"""


def _show(file: Path, pages: Path | None) -> int:
    """Show what was measured before, and write its pages."""
    try:
        kept = records.read(file)
    except OSError as error:
        sys.stderr.write(f"{file} cannot be read: {error.strerror}\n")
        return 2
    except ValueError:
        sys.stderr.write(f"{file} is no record of this benchmark: name a file that --json wrote\n")
        return 2
    for name, result in kept.results.items():
        sys.stdout.write(f"\n== {name}\n{report.text(result)}")
    sys.stdout.write(report.targets(kept.figures))
    if pages is not None:
        report.write_pages_of(pages, kept)
    return 0


def _options(arguments: Sequence[str], others: Mapping[str, Benchmark]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Interpose beside what a user would pick instead, as ratios.",
        epilog="By themselves, with options of their own: "
        + ", ".join(f"{name} ({other.SUMMARY})" for name, other in others.items()),
    )
    parser.add_argument(
        "names", nargs="*", metavar="WORKLOAD", help=f"one or more of {', '.join(WORKLOADS)}"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="within 50 s, without peers; 1 when a ratio is beyond its guard, a target with slack",
    )
    parser.add_argument(
        "--without-peers", action="store_true", help="install nothing, leave the peers out"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here as well")
    parser.add_argument(
        "--pages", type=Path, metavar="DIRECTORY", help="write benchmarks.md and its plots here"
    )
    parser.add_argument(
        "--from",
        dest="kept",
        type=Path,
        metavar="FILE",
        help="measure nothing, and show what --json wrote to this file",
    )
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in WORKLOADS:
            known = ", ".join((*WORKLOADS, *others))
            parser.error(f"there is no benchmark {name!r}; the benchmarks are {known}")
    if options.kept is not None and (options.names or options.quick or options.json):
        parser.error("--from shows all of its file and measures nothing: add nothing but --pages")
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"there is no directory {options.json.parent} to write {options.json.name} to")
    if options.pages is not None and options.pages.exists() and not options.pages.is_dir():
        parser.error(f"{options.pages} is no directory")
    return options


def _status(figures: Mapping[str, Ratio]) -> int:
    broken = [each for each in TARGETS if each.key in figures and each.breaks(figures[each.key])]
    for target in broken:
        found = figures[target.key]
        sys.stdout.write(
            f"REGRESSION: {target.what}: {found}, guarded {target.sense} {target.guard:g}\n"
        )
    if not broken:
        sys.stdout.write("No ratio is beyond its guard.\n")
    return 1 if broken else 0
