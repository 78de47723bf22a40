"""Serving: server-sent events over loopback, from a real server to a client that only reads."""

from __future__ import annotations

import re
from contextlib import ExitStack
from importlib.metadata import version  # noqa: TID251 - of packages that are not ours
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from .. import peers
from ..environments import PythonEnvironment
from ..measuring import Ratio, Samples, Timed, compare
from ..results import Result, Row, Size, Table
from ..serving.client import ServingError, body_of, read, server
from ..serving.source import FRAME

SUMMARY: Final = "server-sent events over loopback, in bursts and one by one, and a gateway"

_UVLOOP: Final = PythonEnvironment("uvloop", peers.SCRIPTS / "pins" / "uvloop.txt")
_BASE: Final = "starlette"
_HOOKS: Final = "interpose-hooks"
_NAMES: Final = {
    _BASE: "Starlette, SDK's encoder",
    "interpose": "Interpose",
    _HOOKS: "Interpose, ten hooks",
    "encoded": "encoded before, one write an event",
    "encoded-together": "encoded before, 64 events a write",
}
_MORE: Final = (
    "More is better. One server has all variants, and gives the same bytes for each; what was "
    "encoded before has neither agent nor run behind it."
)
_LESS: Final = (
    "Less is better. In front of what was encoded before, the gateway's own work is all there is: "
    "it reads, checks and encodes each event again. Gateway and server are processes of their own."
)
_GUARDED: Final = (_BASE, _HOOKS)


def run(size: Size) -> Result:
    """Measure."""
    left_out: list[str] = []
    tables: list[Table] = []
    figures: dict[str, Ratio] = {}
    with ExitStack() as running:
        url = running.enter_context(server())
        _check(*(f"{url}/{name}" for name in _NAMES))
        burst = _measured(url, "asyncio", tables, size, wakes=False, connections=1)
        single = _measured(url, "asyncio", tables, size, wakes=True, connections=1)
        figures = {
            "sse-burst": burst.ratio(_BASE, _HOOKS),
            "sse-per-wake": single.ratio(_BASE, _HOOKS),
        }
        if not size.quick:
            for wakes in (False, True):
                _measured(url, "asyncio", tables, size, wakes=wakes, connections=20)
            tables.append(_gateway(running, url, size))
            try:
                packages = _uvloop(size)
            except peers.Unavailable as error:
                left_out.append(f"uvloop: {error}")
            else:
                other = running.enter_context(server("uvloop", packages=packages))
                for connections in (1, 20):
                    for wakes in (False, True):
                        _measured(
                            other, "uvloop", tables, size, wakes=wakes, connections=connections
                        )
    names = ("uvicorn", "starlette", "h11", "ag-ui-protocol")
    return Result(
        tables, figures, left_out=left_out, versions={name: version(name) for name in names}
    )


def _uvloop(size: Size) -> list[Path]:
    """Return where uvloop is, if not among our own packages."""
    if find_spec("uvloop") is not None:
        return []
    if not size.peers:
        raise peers.Unavailable("it is not installed")
    _UVLOOP.make()
    return list(_UVLOOP.folder.glob("lib/python*/site-packages"))


def _check(*urls: str) -> None:
    """See that all of them give the same bytes."""
    bodies = set()
    for url in urls:
        _, [answer] = read(url, deltas=200, wakes=False)
        bodies.add(re.sub(rb'"run-\d+"', b'"run"', body_of(answer)))
    if len(bodies) != 1:
        raise ServingError("the variants do not do the same work")


def _timed(url: str, *, deltas: int, wakes: bool, connections: int) -> Timed:
    return lambda: read(url, deltas=deltas, wakes=wakes, connections=connections)[0]


def _measured(
    url: str, loop: str, tables: list[Table], size: Size, *, wakes: bool, connections: int
) -> Samples:
    """Compare all variants, and add the table."""
    deltas = size.pick(3_000, 1_500) if wakes else size.pick(5_000, 2_000)
    if connections > 1:
        deltas //= 10
    names = _GUARDED if size.quick else tuple(_NAMES)
    found = compare(
        {
            name: _timed(f"{url}/{name}", deltas=deltas, wakes=wakes, connections=connections)
            for name in names
        },
        rounds=size.pick(15, 7),
    )
    source = "the loop turns before each event" if wakes else "the agent never waits"
    many = "1 connection" if connections == 1 else f"{connections} connections"
    tables.append(
        Table(
            f"Throughput, {loop}, {many}, {source}",
            "events a second",
            [
                Row(
                    _NAMES[name],
                    _NAMES[_BASE],
                    found.ratio(_BASE, name),
                    (deltas + FRAME) * connections / found.median(name),
                )
                for name in names
            ],
            [_MORE],
        )
    )
    return found


def _gateway(running: ExitStack, upstream: str, size: Size) -> Table:
    """Compare a connection through a host with a direct one, to the same agent."""
    deltas = size.pick(2_000, 500)
    timed: dict[str, Timed] = {}
    pairs: list[tuple[str, str]] = []
    for variant, wakes, said in (
        ("encoded-together", False, "encoded before, 64 events a write"),
        ("starlette", False, "Starlette and an agent, in bursts"),
        ("starlette", True, "Starlette and an agent, one by one"),
    ):
        direct = f"{upstream}/{variant}"
        through = f"{running.enter_context(server(upstream=direct))}/gateway"
        _check(direct, through)
        pairs.append((f"through a gateway, {said}", f"direct, {said}"))
        for name, url in zip(pairs[-1], (through, direct), strict=True):
            timed[name] = _timed(url, deltas=deltas, wakes=wakes, connections=1)
    found = compare(timed, rounds=size.pick(15, 5))
    return Table(
        "A gateway in front of a server, asyncio, 1 connection; time",
        "us an event",
        [
            Row(
                through,
                direct,
                found.ratio(through, direct),
                found.median(through) / (deltas + FRAME) * 1e6,
            )
            for through, direct in pairs
        ],
        [_LESS],
    )
