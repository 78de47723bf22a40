"""The guarantees of the order, each as a property over random layers and edges."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interpose.plan import STAGES
from interpose.startup.candidates import Candidate, Reference
from interpose.startup.edges import ordered_edge
from interpose.startup.resolution import Resolution, default_order, resolve

quick = settings(max_examples=80, deadline=None)
NAMES = [f"l{number}" for number in range(7)]
some_names = st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple)


@st.composite
def plain_layers(draw: st.DrawFn) -> list[Candidate]:
    """Layers of any stages in any file order, without an edge."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, unique=True))
    indexes = draw(st.permutations(range(len(names))))
    return [
        Candidate(
            id=name,
            middleware=f"m-{name}",
            file_index=index,
            stage=draw(st.sampled_from(STAGES)),
        )
        for name, index in zip(names, indexes, strict=True)
    ]


@st.composite
def linked_layers(draw: st.DrawFn) -> list[Candidate]:
    """Layers with musts, wishes and everything that makes walls; some are off."""
    layers = []
    for layer in draw(plain_layers()):
        musts = [
            tuple(Reference(name) for name in draw(some_names) if name != layer.id)
            for _ in range(2)
        ]
        rewrites = draw(st.integers(0, 4)) == 0
        linked = replace(
            layer,
            operator_before=musts[0] if draw(st.booleans()) else (),
            operator_after=musts[1] if draw(st.integers(0, 2)) == 0 else (),
            before=tuple(f"m-{name}" for name in draw(some_names)),
            after=tuple(f"m-{name}" for name in draw(some_names)),
            state=draw(st.sampled_from(["on", "on", "on", "off", "failed", "elsewhere"])),
            rewrites_history=rewrites,
            has_event_hooks=draw(st.booleans()),
            has_around_run=not rewrites and draw(st.booleans()),
            observes_only=draw(st.booleans()),
            form=draw(st.sampled_from(["expanded", "expanded", "raw"])),
        )
        layers.append(linked)
    return layers


def ordered(layers: list[Candidate]) -> list[str]:
    result = resolve(layers)
    assume(result.order is not None)
    return list(result.order or ())


def asked(layers: list[Candidate]) -> set[tuple[str, str]]:
    """Every (outer, inner) that anybody asks for, walls written out pair by pair."""
    ids = {layer.id for layer in layers}
    active = [layer for layer in layers if layer.state == "on"]
    by_middleware = {layer.middleware: layer.id for layer in active}
    pairs = set()
    for layer in layers:
        pairs |= {(layer.id, item.name) for item in layer.operator_before if item.name in ids}
        pairs |= {(item.name, layer.id) for item in layer.operator_after if item.name in ids}
    for layer in active:
        pairs |= {(layer.id, by_middleware[name]) for name in layer.before if name in by_middleware}
        pairs |= {(by_middleware[name], layer.id) for name in layer.after if name in by_middleware}
    pairs = {(outer, inner) for outer, inner in pairs if outer != inner}
    return pairs | walled(layers)


def walled(layers: list[Candidate]) -> set[tuple[str, str]]:
    active = [layer for layer in layers if layer.state == "on"]
    in_stream = [layer for layer in active if layer.has_event_hooks or layer.has_around_run]
    history = {
        (outer.id, inner.id)
        for outer in in_stream
        if not outer.observes_only and not outer.rewrites_history
        for inner in active
        if inner.rewrites_history
    }
    expansion = {
        (outer.id, inner.id)
        for outer in in_stream
        if outer.form != "raw"
        for inner in active
        if inner.form == "raw"
    }
    return history | expansion


def broken(order: list[str], pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    position = {layer: index for index, layer in enumerate(order)}
    return {
        (outer, inner)
        for outer, inner in pairs
        if outer in position and inner in position and position[outer] > position[inner]
    }


@quick
@given(linked_layers())
def test_every_edge_holds_or_an_error_or_the_plan_names_it(layers: list[Candidate]) -> None:
    result = resolve(layers)
    if result.order is None:
        cycles = [problem for problem in result.problems if problem.code == "order-cycle"]
        assert cycles
        assert all(problem.hint for problem in cycles)
        return
    named = {(item.wish.outer, item.wish.inner) for item in result.overruled}
    assert broken(list(result.order), asked(layers)) <= named


@quick
@given(linked_layers())
def test_a_wish_is_overruled_only_by_musts_that_lead_the_other_way(layers: list[Candidate]) -> None:
    result = resolve(layers)
    for item in result.overruled:
        assert item.wish.strength == "wish"
        assert {edge.strength for edge in item.by} == {"must"}
        assert item.by[0].outer == item.wish.inner
        assert item.by[-1].inner == item.wish.outer
        assert all(a.inner == b.outer for a, b in zip(item.by, item.by[1:], strict=False))


@quick
@given(linked_layers())
def test_only_active_layers_are_in_the_order_each_once(layers: list[Candidate]) -> None:
    assert sorted(ordered(layers)) == sorted(item.id for item in layers if item.state == "on")


@quick
@given(linked_layers())
def test_no_edge_against_the_default_order_gives_exactly_the_default_order(
    layers: list[Candidate],
) -> None:
    default = [layer.id for layer in default_order(layers)]
    position = {layer: index for index, layer in enumerate(default)}

    def forward(layer: Candidate, other: str, *, outer: bool) -> bool:
        if other not in position:
            return False
        here, there = position[layer.id], position[other]
        return here < there if outer else there < here

    tame = [
        replace(
            layer,
            operator_before=tuple(
                ref for ref in layer.operator_before if forward(layer, ref.name, outer=True)
            ),
            operator_after=tuple(
                ref for ref in layer.operator_after if forward(layer, ref.name, outer=False)
            ),
            before=tuple(name for name in layer.before if forward(layer, name[2:], outer=True)),
            after=tuple(name for name in layer.after if forward(layer, name[2:], outer=False)),
        )
        for layer in layers
    ]
    assume(not broken(default, walled(tame)))
    active = {layer.id for layer in layers if layer.active}
    result = resolve(tame)
    assert result.order == tuple(name for name in default if name in active)
    assert not result.held


@quick
@given(plain_layers(), st.data())
def test_a_single_edge_moves_only_the_layer_that_declares_it(
    layers: list[Candidate], data: st.DataObject
) -> None:
    mover, named = data.draw(st.permutations(layers))[:2]
    keyword = data.draw(st.sampled_from(["before", "after", "operator_before", "operator_after"]))
    operator = keyword.startswith("operator")
    value = (Reference(named.id),) if operator else (named.middleware,)
    moved = [
        replace(item, **{keyword: value}) if item is mover else item  # type: ignore[arg-type]
        for item in layers
    ]
    default, order = ordered(layers), ordered(moved)
    default.remove(mover.id)
    others = [name for name in order if name != mover.id]
    assert others == default
    before = order.index(mover.id) < order.index(named.id)
    assert before == keyword.endswith("before")


@quick
@given(plain_layers(), st.data())
def test_an_ordered_capability_moves_only_its_consumer(
    layers: list[Candidate], data: st.DataObject
) -> None:
    provider, consumer = data.draw(st.permutations(layers))[:2]
    result = resolve(layers, [ordered_edge(provider, consumer, "principal (version 1)")])
    order = list(result.order or ())
    assert order.index(provider.id) < order.index(consumer.id)
    default = ordered(layers)
    for names in (order, default):
        names.remove(consumer.id)
    assert order == default


def component(result: Resolution, layers: list[Candidate], start: str) -> set[str]:
    """The layers that a chain of edges, in any direction, ties to ``start``."""
    edges = [*result.edges, *(item.wish for item in result.overruled)]
    found, frontier = {start}, {start}
    while frontier:
        frontier = {
            other
            for edge in edges
            for one, other in ((edge.outer, edge.inner), (edge.inner, edge.outer))
            if one in frontier
        } - found
        found |= frontier
    return found


@quick
@given(linked_layers(), st.data())
def test_a_layer_changes_nothing_among_layers_that_no_chain_ties_to_it(
    layers: list[Candidate], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(layers))
    rest = [layer for layer in layers if layer is not gone]
    with_it, without = resolve(layers), resolve(rest)
    assume(with_it.order is not None and without.order is not None)
    tied = component(with_it, layers, gone.id)
    assert [name for name in with_it.order or () if name not in tied] == [
        name for name in without.order or () if name not in tied
    ]


@quick
@given(linked_layers(), st.data())
def test_the_result_does_not_depend_on_the_order_of_discovery(
    layers: list[Candidate], data: st.DataObject
) -> None:
    assert resolve(data.draw(st.permutations(layers))) == resolve(layers)


@quick
@given(linked_layers())
def test_the_walls_keep_rewriters_and_raw_layers_innermost(layers: list[Candidate]) -> None:
    assert not broken(ordered(layers), walled(layers))


@quick
@given(linked_layers())
def test_layers_that_no_edge_moved_keep_their_default_order(layers: list[Candidate]) -> None:
    result = resolve(layers)
    assume(result.order is not None)
    still = [name for name in result.order or () if name not in result.held]
    default = [item.id for item in default_order(layers)]
    assert still == [name for name in default if name in still]
    for name, edges in result.held.items():
        assert all(name in (edge.outer, edge.inner) for edge in edges)
