"""Resolution: the time to a plan for 10 to 2,000 layers that constrain each other."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import linear_regression
from typing import Final

from ag_ui.core import BaseEvent, RunAgentInput

from interpose import Capability, Host, Layer, Middleware, RunContext
from interpose.startup.planning import Configured, plan_agents

from ..measuring import Ratio, Samples, Timed, compare, processor_time, ratio_of
from ..results import Curve, Plot, Result, Row, Size, Table

SUMMARY: Final = "planning 10 to 2,000 layers, sparse, chained and densely constrained"

_SIZES: Final = (10, 30, 100, 300, 500, 1000, 2000)
_LARGE: Final = 500
"""The growth is held against its target from this number of layers on."""

_REPEATED: Final = 100
"""A measurement plans as often as it takes to plan about so many layers."""

_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one layer asks for: by number, the layers that it has to do with."""

    outside_of: Sequence[int] = ()
    """``before`` of the operator."""
    inside_of: Sequence[int] = ()
    """``after`` of the operator."""
    before: Sequence[int] = ()
    """The wish of its middleware."""
    after: Sequence[int] = ()
    """The wish of its middleware."""
    needs: Sequence[int] = ()
    """Whose ordered capability its middleware requires."""


Shape = Callable[[int, random.Random], list[_Asked]]


def _sparse(layers: int, chance: random.Random) -> list[_Asked]:
    hidden = _hidden_order(layers, chance)
    asked = []
    for number in range(layers):
        outer, _ = _around(hidden, number, 1, chance)
        asked.append(_Asked(inside_of=outer) if number % 5 == 0 else _Asked())
    return asked


def _chain(layers: int, _: random.Random) -> list[_Asked]:
    """Each layer outside of the one that the file names before it: all of the order turns round."""
    return [_Asked(outside_of=[number - 1] if number else []) for number in range(layers)]


def _dense(layers: int, chance: random.Random) -> list[_Asked]:
    return _constrained(layers, chance, 2)


def _crowded(layers: int, chance: random.Random) -> list[_Asked]:
    return _constrained(layers, chance, max(1, layers // 100))


def _constrained(layers: int, chance: random.Random, each: int) -> list[_Asked]:
    hidden = _hidden_order(layers, chance)
    asked = []
    for number in range(layers):
        outer, inner = _around(hidden, number, 3 * each, chance)
        asked.append(
            _Asked(
                outside_of=inner[:each],
                inside_of=outer[:each],
                before=inner[each : 2 * each],
                after=outer[each : 2 * each],
                needs=outer[2 * each :],
            )
        )
    return asked


def _hidden_order(layers: int, chance: random.Random) -> list[int]:
    """Return each layer's place in an order other than the file's, which all edges agree with."""
    places = list(range(layers))
    chance.shuffle(places)
    return places


def _around(
    places: list[int], number: int, count: int, chance: random.Random
) -> tuple[list[int], list[int]]:
    """Choose up to ``count`` layers outside and as many inside of a layer."""
    own = places[number]
    others = chance.sample(range(len(places)), min(len(places), 4 * count))
    outer = [other for other in others if places[other] < own]
    inner = [other for other in others if places[other] > own]
    return outer[:count], inner[:count]


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    shape: Shape
    about: str


_CASES: Final = (
    _Case("sparse", _sparse, "an operator's edge for every fifth layer"),
    _Case("chain", _chain, "each layer outside of the one before it in the file"),
    _Case(
        "dense",
        _dense,
        "up to 10 edges a layer: 2 operator's before and 2 after, as many wishes, and 2 ordered "
        "capabilities required of others (layers far out or far in find fewer)",
    ),
    _Case(
        "crowded",
        _crowded,
        "as dense, with 5 edges a layer for every 100 layers: their number grows with n squared",
    ),
)
_HELD: Final = "dense"
"""The case whose growth is held against the target."""


@dataclass(frozen=True, slots=True)
class _Grown:
    """What was found for one case: seconds by the number of layers, in rounds, and the edges."""

    edges: Mapping[int, int]
    planning: Samples
    making: Samples | None

    def work(self, layers: int) -> float:
        """Return what the time is held against: n log n and the edges."""
        return layers * math.log2(layers) + self.edges[layers]

    def by_work(self, layers: int, base: int) -> Ratio:
        """Return the time for a unit of work, against that of another number of layers."""
        grown = self.work(layers) / self.work(base)
        found = self.planning.ratio(str(layers), str(base))
        return Ratio(found.median / grown, found.low / grown, found.high / grown)

    def exponent(self, sizes: Sequence[int]) -> Ratio:
        """Fit each round's times against the work by least squares, both as logarithms."""
        work = [math.log(self.work(layers)) for layers in sizes]
        columns = [self.planning.seconds[str(layers)] for layers in sizes]
        rounds = [[math.log(taken) for taken in times] for times in zip(*columns, strict=True)]
        return ratio_of([linear_regression(work, times).slope for times in rounds])


def run(size: Size) -> Result:
    """Measure planning alone, and the making of the host that it is a part of."""
    sizes = [layers for layers in _SIZES if not size.quick or layers <= _LARGE]
    cases = [case for case in _CASES if not size.quick or case.name == _HELD]
    found = {case: _grow(case, sizes, size) for case in cases}
    large = [layers for layers in sizes if layers >= _LARGE]
    return Result(
        tables=[
            *(_table(case, grown, sizes) for case, grown in found.items()),
            *([] if size.quick else [_fits(found, sizes, large)]),
        ],
        figures=_figures(found, large),
        plots=[_plot(found, sizes)],
    )


def _figures(found: Mapping[_Case, _Grown], large: Sequence[int]) -> dict[str, Ratio]:
    held = {case.name: grown for case, grown in found.items()}[_HELD]
    return {"resolution-growth": held.exponent(large)} if len(large) > 1 else {}


def _grow(case: _Case, sizes: Sequence[int], size: Size) -> _Grown:
    edges: dict[int, int] = {}
    planning: dict[str, Timed] = {}
    making: dict[str, Timed] = {}
    for layers in sizes:
        given = _layers(case.shape(layers, random.Random(_SEED)))  # noqa: S311 - no secret
        host = _host(given)
        edges[layers] = len(host.plan().edges)
        repeats = max(1, _REPEATED // layers)
        planning[str(layers)] = _repeated(partial(plan_agents, _configured(host)), repeats)
        making[str(layers)] = _repeated(partial(_host, given), 1)
    return _Grown(
        edges,
        compare(planning, rounds=size.pick(5, 2), warm_up=0),
        compare(making, rounds=3, warm_up=0) if case.name == _HELD and not size.quick else None,
    )


def _repeated(work: Callable[[], object], times: int) -> Timed:
    timed = processor_time(lambda: [work() for _ in range(times)])
    return lambda: timed() / times


def _layers(asked: Sequence[_Asked]) -> list[Layer]:
    """Write the layers as an application does: a middleware each, and the operator's edges."""
    capabilities = [
        Capability[str](f"grown/value-{number}", scope="run", ordered=True)
        for number in range(len(asked))
    ]
    return [
        Layer(
            type(
                f"Layer{number}",
                (_Passing,),
                {
                    "provides": (capabilities[number],),
                    "requires": tuple(capabilities[other] for other in each.needs),
                    "before": tuple(f"layer{other}" for other in each.before),
                    "after": tuple(f"layer{other}" for other in each.after),
                },
            ),
            before=[f"layer{other}" for other in each.outside_of],
            after=[f"layer{other}" for other in each.inside_of],
        )
        for number, each in enumerate(asked)
    ]


class _Passing(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
        """Let it pass."""


class _Agent:
    async def run(self, run_input: RunAgentInput) -> AsyncGenerator[BaseEvent]:
        """Answer nothing: only the order is of interest."""
        return
        yield


def _host(layers: Sequence[Layer]) -> Host:
    return Host(layers=layers, agent=_Agent())


def _configured(host: Host) -> Configured:
    return host._prepared.configured  # what planning is given


def _table(case: _Case, grown: _Grown, sizes: Sequence[int]) -> Table:
    smallest = sizes[0]
    notes = [
        "Planning alone (plan_agents): from declared layers to one explained plan.",
        "A ratio that stays level means time that grows as n log n + edges.",
    ]
    if grown.making is not None:
        taken = grown.making.median(str(sizes[-1])) * 1000
        notes.append(f"Host(layers=...) of {sizes[-1]} layers, this included: {taken:,.0f} ms.")
    return Table(
        f"planning, {case.name}: {case.about}",
        "ms to a plan",
        [
            Row(
                f"{layers} layers, {grown.edges[layers]} edges",
                f"{smallest} layers, by n log n + edges",
                grown.by_work(layers, smallest),
                grown.planning.median(str(layers)) * 1000,
            )
            for layers in sizes
        ],
        notes,
    )


def _fits(found: Mapping[_Case, _Grown], sizes: Sequence[int], large: Sequence[int]) -> Table:
    return Table(
        "growth of planning: the exponent of time against n log n + edges, by least squares",
        "",
        [
            Row(f"{case.name}, {of[0]} to {of[-1]} layers", "1 = linear in it", grown.exponent(of))
            for case, grown in found.items()
            for of in (sizes, large)
        ],
    )


def _plot(found: Mapping[_Case, _Grown], sizes: Sequence[int]) -> Plot:
    return Plot(
        "resolution",
        "Planning: time by number of layers",
        "layers",
        "milliseconds",
        [
            Curve(
                case.name,
                [(layers, grown.planning.median(str(layers)) * 1000) for layers in sizes],
            )
            for case, grown in found.items()
        ],
        logarithmic=True,
    )
