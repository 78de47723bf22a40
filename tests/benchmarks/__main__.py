"""Benchmarks, run by name: ``cd tests && python -m benchmarks load``.

Without a name all of them run, one after another. ``--help`` after a name shows its options. The
exit status is 1 when one of them finds a property violated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final, Protocol

from .load import command as load


class Benchmark(Protocol):
    """A module that holds a benchmark."""

    SUMMARY: str

    def add_options(self, parser: argparse.ArgumentParser, /) -> None:
        """Declare its options; each has a default."""

    def main(self, options: argparse.Namespace, /) -> int:
        """Run it, and return the exit status."""


BENCHMARKS: Final[dict[str, Benchmark]] = {"load": load}


def main(arguments: Sequence[str]) -> int:
    """Run what is named, or everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = parser.add_subparsers(dest="name", metavar="NAME")
    for name, benchmark in BENCHMARKS.items():
        benchmark.add_options(names.add_parser(name, help=benchmark.SUMMARY))
    options = parser.parse_args(arguments)
    if options.name is not None:
        return BENCHMARKS[options.name].main(options)
    return max(main([name]) for name in BENCHMARKS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
