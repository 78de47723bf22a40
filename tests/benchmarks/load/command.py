"""Many clients at once for a while: nothing goes wrong, and nothing is left behind.

The figures are no target. What is judged are properties: each client gets what it was to get, each
run has one end, and the process holds afterwards what it held before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

from .clients import Load, Outcomes, put
from .properties import Measured, Property, judge
from .server import Server, serving
from .workload import FAULTS

SUMMARY: Final = "many streaming clients at once: no error, no leak, one end for each run"
_SAMPLE: Final = 0.5
_PERCENT: Final = 100


def run(arguments: Sequence[str]) -> int:
    """Run it with the arguments of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks load")
    add_options(parser)
    return main(parser.parse_args(arguments))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = __doc__
    parser.add_argument("--clients", type=int, default=200, help="how many at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long (%(default)s)")
    parser.add_argument(
        "--interval", type=float, default=0.2, help="seconds between a run's events (%(default)s)"
    )
    parser.add_argument(
        "--deltas", type=int, default=20, help="pieces of text in a run (%(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    parser.add_argument(
        "--break",
        dest="faults",
        action="append",
        default=[],
        choices=FAULTS,
        help="break the server on purpose, to see it reported; repeatable",
    )


def main(options: argparse.Namespace) -> int:
    """Run it; 1 when a property does not hold."""
    load = Load(options.clients, options.seconds, options.interval, options.deltas)
    if not Path("/proc/self/statm").exists():
        sys.stderr.write("The load needs /proc, to look at memory and handles of the server.\n")
        return 1
    measured, figures = asyncio.run(_measure(load, options.faults))
    properties = judge(measured)
    sys.stdout.write(_table(load, properties, figures))
    if options.json is not None:
        options.json.write_text(json.dumps(_report(load, properties, figures), indent=2) + "\n")
    return 0 if all(each.holds for each in properties) else 1


async def _measure(load: Load, faults: list[str]) -> tuple[Measured, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder), faults) as server:
            # What is made once is made now: every kind of run, by as many clients, faster.
            faster = Load(load.clients, load.seconds / 6, load.interval / 2, load.deltas)
            await put(faster, server.url, "warm-up")
            before = await server.idle()
            memory: list[int] = []
            sampling = asyncio.create_task(_sample(server, memory))
            since, used = time.monotonic(), server.processor_seconds()
            outcomes = await put(load, server.url)
            seconds, used = time.monotonic() - since, server.processor_seconds() - used
            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling
            after = await server.idle(before)
        log = server.log.read_text(errors="replace")
    figures = _figures(outcomes, seconds, used, memory)
    collected = after.collected - before.collected
    figures["left to the collector, objects a run"] = round(collected / outcomes.begun)
    return Measured(outcomes, before, after, memory, log), figures


async def _sample(server: Server, memory: list[int]) -> None:
    while True:
        memory.append(await server.memory())
        await asyncio.sleep(_SAMPLE)


def _figures(
    outcomes: Outcomes, seconds: float, used: float, memory: list[int]
) -> dict[str, float]:
    gaps = quantiles(outcomes.gaps or [0.0, 0.0], n=_PERCENT)
    return {
        "seconds": round(seconds, 1),
        "runs": outcomes.begun,
        "events": outcomes.events,
        "events a second": round(outcomes.events / seconds),
        "processor of the server, %": round(_PERCENT * used / seconds),
        "between events, median, ms": round(1000 * gaps[49], 1),
        "between events, 99 of 100, ms": round(1000 * gaps[98], 1),
        "memory at most, MiB": round(max(memory) / 1024 / 1024, 1),
    }


def _table(load: Load, properties: list[Property], figures: dict[str, float]) -> str:
    width = max(len(each.name) for each in properties)
    width = max(width, *(len(name) for name in figures))
    lines = [
        f"{load.clients} clients for {load.seconds:g} s, an event every {load.interval:g} s",
        "",
    ]
    lines += [f"  {name:<{width}}  {value:g}" for name, value in figures.items()]
    lines += [""]
    for each in properties:
        lines.append(
            f"  {each.name:<{width}}  {'ok' if each.holds else 'VIOLATED':<8}  {each.said}"
        )
    violated = sum(not each.holds for each in properties)
    lines += ["", f"{violated} properties are violated." if violated else "All properties hold."]
    return "\n".join(lines) + "\n"


def _report(load: Load, properties: list[Property], figures: dict[str, float]) -> dict[str, Any]:
    return {
        "benchmark": "load",
        "python": platform.python_version(),
        "machine": {"system": platform.system(), "processors": os.cpu_count()},
        "load": {
            "clients": load.clients,
            "seconds": load.seconds,
            "interval": load.interval,
            "deltas": load.deltas,
        },
        "figures": figures,
        "properties": [
            {"name": each.name, "holds": each.holds, "said": each.said} for each in properties
        ],
    }
