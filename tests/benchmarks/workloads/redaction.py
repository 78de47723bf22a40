"""Redaction of long streams, and how far what has left lags behind what has come."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from statistics import quantiles
from typing import Any, Final

from ag_ui.core import BaseEvent

from .. import redactors
from ..measuring import Ratio, Timed, compare, processor_time
from ..redacting import AtOnce, heard, in_host, lag, message, tool_call, tool_result
from ..results import Curve, Plot, Result, Row, Size, Table
from ..texts import literals, result, tokens

SUMMARY: Final = (
    "interpose-redact on text that comes token by token, against the same patterns over the whole "
    "text at once, and against the redactors of peers"
)

_CHARACTERS: Final = (1_000, 10_000, 100_000, 1_000_000)
_LITERALS: Final = (10, 100, 10_000, 100_000)
_OBJECTS: Final = (10, 100, 1_000, 10_000)
_QUICK: Final = 2
"""How many of each a quick run tries."""


def run(size: Size) -> Result:
    """Measure."""
    tables: list[Table] = []
    plots: list[Plot] = []
    for part in (_whole_text, _many_literals, _json_results, _held_back):
        table, plot = part(size)
        tables.append(table)
        plots.append(plot)
    peers = redactors.compared(size)
    return Result(
        tables=[*tables, *peers.tables],
        plots=plots,
        left_out=peers.left_out,
        versions=peers.versions,
    )


def _some(of: tuple[int, ...], size: Size) -> tuple[int, ...]:
    return of[:_QUICK] if size.quick else of


def _expect(found: str, wanted: str) -> None:
    """Refuse to compare what does not do the same work."""
    if found != wanted:
        raise ValueError("the texts that leave are not the same")


def _whole_text(size: Size) -> tuple[Table, Plot]:
    at_once = AtOnce()
    rows: list[Row] = []
    curves: dict[str, list[tuple[float, float]]] = {}
    for characters in _some(_CHARACTERS, size):
        pieces = tokens(characters)
        events = message(pieces)
        _expect(heard(events, {}), at_once("".join(pieces)))
        variants: dict[str, Timed] = {
            "Interpose": partial(in_host, events, {}),
            "a host without layers": partial(in_host, events, None),
            "whole text at once": processor_time(lambda: at_once("".join(pieces))),  # noqa: B023
        }
        rounds = size.pick(3 if characters > 100_000 else 7, 2)
        samples = compare(variants, rounds=rounds)
        label = f"{characters // 1000:,} kB"
        for against in ("whole text at once", "a host without layers"):
            ratio = samples.ratio("Interpose", against)
            value = samples.median("Interpose") / len(pieces) * 1e6
            rows.append(Row(f"{label}, token by token", against, ratio, value))
            curves.setdefault(f"against {against}", []).append((characters, ratio.median))
    return Table(
        "One message, all entities",
        "us for each token",
        rows,
        notes=[
            (
                "The whole text at once is one `re.sub` after the other with the patterns and checks of "
                "interpose-redact on the joined text: it knows all of the text and holds nothing back, "
                "and there is no run around it. The text that leaves is compared, and is the same."
            ),
            ("The time of Interpose is that of the whole run, its agent and host included."),
        ],
    ), Plot(
        "redaction-length",
        "Redaction token by token",
        "length of the message (characters)",
        "time against the other",
        [Curve(name, points) for name, points in curves.items()],
        logarithmic=True,
    )


def _many_literals(size: Size) -> tuple[Table, Plot]:
    pieces = tokens(1_000 if size.quick else 10_000)
    events = message(pieces)
    text = "".join(pieces)
    rows, growth = [], []
    for count in _some(_LITERALS, size):
        secrets = literals(count)
        settings = {"entities": [], "literals": secrets}

        def replace_each(secrets: list[str] = secrets) -> str:
            cleared = text
            for secret in secrets:
                cleared = cleared.replace(secret, "[literal]")
            return cleared

        _expect(heard(events, settings), text)
        samples = compare(
            {
                "Interpose": partial(in_host, events, settings),
                "at once": processor_time(replace_each),
            },
            rounds=size.pick(3, 2),
        )
        value = samples.median("Interpose") / len(pieces) * 1e6
        ratio = samples.ratio("Interpose", "at once")
        rows.append(Row(f"{count:,} literals", "`str.replace` of each at once", ratio, value))
        growth.append((float(count), value))
    return Table(
        "Many literals",
        "us for each token",
        rows,
        notes=[
            f"One message of {len(text):,} characters in which none of them is, token by token."
        ],
    ), Plot(
        "redaction-literals",
        "Literals that are looked for",
        "literals",
        "time for each token (us)",
        [Curve("Interpose", growth)],
        logarithmic=True,
    )


def _json_results(size: Size) -> tuple[Table, Plot]:
    at_once = AtOnce()
    rows, curve, other = [], [], []
    for objects in _some(_OBJECTS, size):
        content = result(objects)
        events = tool_result(content)
        _expect(
            heard(events, {}).removeprefix("{}"), json.dumps(at_once.value(json.loads(content)))
        )
        samples = compare(
            {
                "Interpose": partial(in_host, events, {}),
                "at once": processor_time(
                    lambda: json.dumps(at_once.value(json.loads(content)))  # noqa: B023
                ),
            },
            rounds=size.pick(3, 2),
        )
        value = samples.median("Interpose") * 1e3
        ratio = samples.ratio("Interpose", "at once")
        rows.append(Row(f"{objects:,} objects", "each string of the loaded JSON", ratio, value))
        curve.append((float(objects), value))
        other.append((float(objects), samples.median("at once") * 1e3))
    return Table(
        "A tool's result in JSON",
        "ms",
        rows,
        notes=[
            (
                "Each object has six members, four of them strings. The other loads the JSON, searches "
                "each string, and writes it again; Interpose leaves as it was written what it does "
                "not edit."
            )
        ],
    ), Plot(
        "redaction-json",
        "A tool's result in JSON",
        "objects",
        "time (ms)",
        [Curve("Interpose", curve), Curve("each string of the loaded JSON", other)],
        logarithmic=True,
    )


def _held_back(size: Size) -> tuple[Table, Plot]:
    characters = 1_000 if size.quick else 10_000
    prose = tokens(characters, values=False)
    cases: dict[str, tuple[list[str], Callable[[list[str]], list[BaseEvent]], dict[str, Any]]] = {
        "prose": (prose, message, {}),
        "prose with values": (tokens(characters), message, {}),
        "prose, addresses alone": (prose, message, {"entities": ["email"]}),
        "prose, an address without bounds": (
            prose,
            message,
            {"entities": [], "patterns": {"address": r"\S+@\S+"}},
        ),
        "arguments of a tool": (_cut(result(characters // 100)), tool_call, {}),
    }
    rows, curves = [], []
    for name, (pieces, events, settings) in cases.items():
        lags = lag(events(pieces), settings | {"action": "mask"})
        step = sum(map(len, pieces)) / len(pieces)
        cuts = quantiles(lags, n=100, method="inclusive")
        for label, held in (("median", cuts[49]), ("99 of 100", cuts[98]), ("most", max(lags))):
            ratio = Ratio(held / step, held / step, held / step)
            rows.append(Row(f"{name}: {label}", "length of a token", ratio, held))
        curves.append(Curve(name, _shares(lags)))
    return Table(
        "How much is held back",
        "characters",
        rows,
        notes=[
            (
                "After each token: how many characters have come and not left. Values are masked here, "
                "so that a text keeps its length. Not a time, but what a reader waits for: one token "
                "is what the ratio counts in."
            )
        ],
    ), Plot(
        "redaction-held",
        "How much is held back",
        "characters held back, at most",
        "share of tokens (%)",
        curves,
    )


def _shares(lags: list[int]) -> list[tuple[float, float]]:
    """Return which share of the tokens, in percent, holds back at most so many characters."""
    return [
        (float(most), 100 * sum(each <= most for each in lags) / len(lags))
        for most in sorted(set(lags))
    ]


def _cut(text: str) -> list[str]:
    return [text[at : at + 5] for at in range(0, len(text), 5)]
