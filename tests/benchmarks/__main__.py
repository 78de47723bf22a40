"""Benchmarks: Interpose beside what a user would pick instead, on the same work, as ratios.

``python -m benchmarks`` runs every workload, ``python -m benchmarks startup memory`` some of them,
and ``python -m benchmarks load`` the load test, which has options of its own. ``--quick`` measures
within 50 seconds what guards against regressions, without peers, and exits with 1 when a ratio is
beyond its guard.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from . import comparing
from .load import command as load
from .results import Benchmark

BENCHMARKS: Final[dict[str, Benchmark]] = {"load": load}


def main(arguments: Sequence[str]) -> int:
    """Run what is named; without a name, the comparison of all workloads."""
    if arguments and arguments[0] in BENCHMARKS:
        return BENCHMARKS[arguments[0]].run(arguments[1:])
    return comparing.run(arguments, others=BENCHMARKS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
