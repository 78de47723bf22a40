"""Layers that look at events and let them pass: what a layer costs, and what the host itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ..chains import (
    INPUT,
    EveryEvent,
    EveryText,
    NoHook,
    RareEvent,
    Stage,
    agent_of,
    nested,
    text_run,
)
from ..measuring import Ratio, Samples, Timed, compare
from ..results import Curve, Plot, Result, Row, Size, Table

SUMMARY: Final = "a long text, and a run of five events, through 0 to 50 layers"
_LAYERS: Final = (0, 1, 5, 10, 20, 50)
_TINY_TIMES: Final = 200


def run(size: Size) -> Result:
    """Measure the whole run and its parts, then a run of five events, then the peers."""
    events = size.pick(20_000, 4_000)
    result = _joined(_long(size, events), _tiny(size))
    return _joined(result, _peers(size)) if size.peers else result


def _long(size: Size, events: int) -> Result:
    layers = [n for n in _LAYERS if n in (0, 10, 20, 50) or not size.quick]
    with Stage() as stage:
        agent = agent_of(text_run(events))
        variants: dict[str, Timed] = {"bare": stage.streaming(lambda: agent(INPUT))}
        variants["segment-alone"] = stage.segment(stage.host(NoHook, 10, agent), agent)
        for n in layers:
            if n and not (size.quick and n > 20):
                wrapped = nested(agent, n)
                variants[f"nested-{n}"] = stage.streaming(lambda w=wrapped: w(INPUT))  # type: ignore[misc]
                host = stage.host(EveryEvent, n, agent)
                variants[f"segment-{n}"] = stage.segment(host, agent)
                variants[f"every-{n}"] = stage.running(host)
            variants[f"rare-{n}"] = stage.running(stage.host(RareEvent, n, agent))
        samples = compare(variants, rounds=size.pick(15, 5))
    return _long_result(samples, layers, events)


def _long_result(samples: Samples, layers: list[int], events: int) -> Result:
    def row(name: str, variant: str, baseline: str, against: str) -> Row:
        value = samples.median(variant) / events * 1e9
        return Row(name, against, samples.ratio(variant, baseline), value)

    hooked = [n for n in layers if f"every-{n}" in samples.seconds]
    rows = [
        row("bare async for", "bare", "bare", "bare"),
        row("segment, no hook overridden", "segment-alone", "bare", "bare"),
        row("host.run, no layers", "rare-0", "bare", "bare"),
        *(row(f"nested generators, N = {n}", f"nested-{n}", "bare", "bare") for n in hooked),
        *(row(f"segment alone, N = {n}", f"segment-{n}", "bare", "bare") for n in hooked),
        *(row(f"segment alone, N = {n}", f"segment-{n}", f"nested-{n}", "nested") for n in hooked),
        *(row(f"host.run, every event, N = {n}", f"every-{n}", "bare", "bare") for n in hooked),
        *(
            row(f"host.run, every event, N = {n}", f"every-{n}", f"nested-{n}", "nested")
            for n in hooked
        ),
        *(
            row(f"host.run, nobody takes the class, N = {n}", f"rare-{n}", "rare-0", "N = 0")
            for n in layers
            if n
        ),
    ]
    figures = {
        "segment-alone": samples.ratio("segment-alone", "bare"),
        "run-without-layers": samples.ratio("rare-0", "bare"),
        "unhandled-flat": samples.ratio("rare-50", "rare-0"),
        "hooks-nested-10": samples.ratio("segment-10", "nested-10"),
        "hooks-nested-20": samples.ratio("segment-20", "nested-20"),
    }
    curves = [
        Curve("nested generators", _points(samples, "nested", hooked)),
        Curve("compiled hooks alone", _points(samples, "segment", hooked)),
        Curve("host.run, hooks on every event", _points(samples, "every", hooked)),
        Curve("host.run, nobody takes the class", _points(samples, "rare", layers)),
    ]
    plot = Plot("passthrough", "Cost of an event", "layers (N)", "times a bare async for", curves)
    table = Table(
        f"{events:,} events of one text message, the agent never waits",
        "ns an event",
        rows,
        (
            "bare: the agent's async generator, and an async for that does nothing.",
            "host.run does what nested generators do not: it strips, expands, verifies and folds.",
        ),
    )
    return Result((table,), figures, (plot,))


def _points(samples: Samples, name: str, layers: list[int]) -> list[tuple[float, float]]:
    return [(n, samples.ratio(f"{name}-{n}", "bare").median) for n in layers]


def _tiny(size: Size) -> Result:
    times = size.pick(_TINY_TIMES, 50)
    events = text_run(1)
    with Stage() as stage:
        agent = agent_of(events)
        wrapped = nested(agent, 10)

        variants: Mapping[str, Timed] = {
            "bare": stage.streaming(lambda: agent(INPUT), times=times),
            "nested-10": stage.streaming(lambda: wrapped(INPUT), times=times),
            "run-0": stage.running(stage.host(EveryText, 0, agent), times=times),
            "run-10": stage.running(stage.host(EveryText, 10, agent), times=times),
        }
        samples = compare(variants, rounds=size.pick(15, 5))
    rows = [
        Row(name, "bare", samples.ratio(variant, "bare"), samples.median(variant) / times * 1e6)
        for name, variant in (
            ("bare", "bare"),
            ("nested generators, N = 10", "nested-10"),
            ("host.run, no layers", "run-0"),
            ("host.run, N = 10", "run-10"),
        )
    ]
    table = Table(
        "A run of 5 events, everything included",
        "us a run",
        rows,
        ("The events are prepared; host.run counts ids, contexts, hooks and the end of the run.",),
    )
    return Result((table,), {"tiny-run": samples.ratio("run-10", "bare")})


def _peers(size: Size) -> Result:
    events = 2_000
    with Stage() as stage:
        agent = agent_of(text_run(events))
        ours = {f"interpose-{n}": stage.running(stage.host(EveryEvent, n, agent)) for n in (0, 10)}
        from . import peer_events

        return peer_events.rows(size, ours, events)


def _joined(one: Result, other: Result) -> Result:
    figures: dict[str, Ratio] = {**one.figures, **other.figures}
    return replace(
        one,
        tables=(*one.tables, *other.tables),
        figures=figures,
        plots=(*one.plots, *other.plots),
        left_out=(*one.left_out, *other.left_out),
        versions={**one.versions, **other.versions},
    )
