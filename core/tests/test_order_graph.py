"""Sorting and cycles in graphs, against plain definitions."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.startup.graph import (
    Leading,
    graph_of,
    needed_first,
    reachable,
    shortest_cycles,
    shortest_path,
    sort,
)

NODES = range(6)
edges = st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=12)
quick = settings(max_examples=80, deadline=None)


@quick
@given(edges)
def test_sorting_leaves_out_nodes_exactly_when_there_is_a_cycle(
    pairs: list[tuple[int, int]],
) -> None:
    graph = graph_of(NODES, pairs)
    cyclic = any(node in reachable(graph, node) for node in graph)
    assert (len(sort(graph, {node: node for node in NODES})) < len(graph)) == cyclic
    assert (len(needed_first(graph)) < len(graph)) == cyclic
    assert bool(shortest_cycles(graph)) == cyclic


@quick
@given(edges)
def test_each_knot_has_one_closed_cycle_without_a_shorter_one(pairs: list[tuple[int, int]]) -> None:
    graph = graph_of(NODES, pairs)
    cycles = shortest_cycles(graph)
    knots = [
        frozenset(n for n in reachable(graph, c[0]) if c[0] in reachable(graph, n)) for c in cycles
    ]
    assert len(set(knots)) == len(knots)
    assert set().union(*knots) == {node for node in graph if node in reachable(graph, node)}
    for cycle, knot in zip(cycles, knots, strict=True):
        assert cycle[0] == cycle[-1] == min(cycle)
        assert all(head in graph[tail] for tail, head in pairwise(cycle))
        lengths = [len(shortest_path(graph, node, node) or ()) for node in knot]
        assert len(cycle) == min(lengths)


def test_needed_first_pulls_the_needed_forward_and_leaves_the_needing_in_place() -> None:
    graph = graph_of("abcd", [("d", "a")])
    assert needed_first(graph) == ["d", "a", "b", "c"]
    assert sort(graph, dict(zip("abcd", range(4), strict=True))) == ["b", "c", "d", "a"]


@quick
@given(edges)
def test_leading_knows_every_path_and_finds_the_shortest_that_a_search_finds(
    pairs: list[tuple[int, int]],
) -> None:
    graph = graph_of(NODES, [(tail, head) for tail, head in pairs if tail < head])
    leading = Leading(graph)
    for start in graph:
        assert {goal for goal in graph if leading.leads(start, goal)} == reachable(graph, start)
        for goal in reachable(graph, start):
            assert leading.path(start, goal) == shortest_path(graph, start, goal)


@quick
@given(edges, st.integers(0, 7))
def test_a_path_that_must_be_shorter_is_the_shortest_or_none(
    pairs: list[tuple[int, int]], limit: int
) -> None:
    graph = graph_of(NODES, pairs)
    for start in graph:
        for goal in graph:
            path = shortest_path(graph, start, goal)
            fits = len(path or ()) < limit
            assert shortest_path(graph, start, goal, shorter_than=limit) == (path if fits else None)
            assert shortest_path(graph, start, goal, shorter_than=math.inf) == path


def test_the_first_of_the_shortest_cycles_of_a_knot_is_the_one_shown() -> None:
    graph = graph_of("dcba", [*pairwise("abca"), *pairwise("bda"), *pairwise("dcd")])
    assert shortest_cycles(graph) == [["d", "c", "d"]]
    graph = graph_of("dcba", [*pairwise("abca"), *pairwise("bda")])
    assert shortest_cycles(graph) == [["d", "a", "b", "d"]]
