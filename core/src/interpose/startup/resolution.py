"""The order of the layers: a pure function of what they declare and what the operator says.

**Must**: the operator's ``before`` and ``after``, ``ordered`` capabilities, the host's walls.
**Wish**: a middleware's own ``before`` and ``after``. Without edges the order is the default one:
stage, file order, id. What the order guarantees:

- every edge holds, or an error or the plan names it;
- without an edge against the default order, the order is the default order;
- a single edge moves only the layer that declares it;
- adding or removing a layer never changes the order among layers that no chain of edges ties to it;
- the order in which plugins were discovered does not matter.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from interpose.errors import Problem
from interpose.plan import EXPANSION_WALL, HISTORY_WALL, STAGES, Edge, OverruledWish
from interpose.startup.candidates import Candidate
from interpose.startup.edges import (
    chain_layers,
    chain_places,
    collect_edges,
    explain_chain,
)
from interpose.startup.graph import Leading, graph_of, shortest_cycles, sort

_WALLS = (HISTORY_WALL, EXPANSION_WALL)
_RANK = {"operator": 0, "capability": 1, "wall": 2, "middleware": 3}

Key = tuple[int, int, int]
"""A layer's place: beside which default position, how far outside of it, its own position."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The order of the active layers, outermost first, and why.

    ``edges`` are those in force, ``overruled`` the wishes that musts turned round, ``held`` the
    edges that took a layer out of its default place. With an error among the ``problems`` that
    makes ordering impossible, ``order`` is None.
    """

    order: tuple[str, ...] | None
    edges: tuple[Edge, ...] = ()
    overruled: tuple[OverruledWish, ...] = ()
    held: Mapping[str, tuple[Edge, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def default_order(layers: Iterable[Candidate]) -> list[Candidate]:
    """Sort by stage, file order and id: the order that holds where nobody says otherwise."""
    rank = {stage: index for index, stage in enumerate(STAGES)}
    # An unknown stage is an error of its own (refusals); here it only must not stop the others.
    return sorted(
        layers,
        key=lambda item: (rank.get(item.effective_stage, len(STAGES)), item.file_index, item.id),
    )


def resolve(layers: Iterable[Candidate], ordered: Iterable[Edge] = ()) -> Resolution:
    """Order the layers of one agent; ``ordered`` are the edges of ordered capabilities.

    Layers that are not active take part with the operator's edges and are dropped at the end.
    """
    base = default_order(layers)
    declared, problems = collect_edges(base)
    edges = sorted({*declared, *ordered}, key=_edge_key)
    nodes = [layer.id for layer in base]

    overruled: tuple[OverruledWish, ...] = ()
    if _has_cycle(_graph(nodes, edges)):  # otherwise no must is against another one, or a wish
        musts = [edge for edge in edges if edge.strength == "must"]
        impossible = _cycles(nodes, musts, _must_cycle)
        if impossible:
            return Resolution(None, tuple(edges), problems=(*problems, *impossible))
        edges, overruled = _overrule(nodes, edges, musts)
        impossible = _cycles(nodes, edges, _wish_cycle)
        if impossible:
            return Resolution(None, tuple(edges), overruled, problems=(*problems, *impossible))

    placed, held = place(nodes, edges)
    active = {layer.id for layer in base if layer.active}
    return Resolution(
        order=tuple(node for node in placed if node in active),
        edges=tuple(edges),
        overruled=overruled,
        held=held,
        problems=tuple(problems),
    )


def place(
    nodes: Sequence[str], edges: Sequence[Edge]
) -> tuple[list[str], dict[str, tuple[Edge, ...]]]:
    """Sort ``nodes`` (in default order) along ``edges`` (acyclic); say which edge moved whom.

    The layer that declares an edge moves, the layer it names stays. ``before`` takes the place
    just outside the outermost layer named, if that is further out than its own; ``after`` waits
    until those named are placed and goes next.
    """
    inward: dict[str, list[Edge]] = {node: [] for node in (*nodes, *_WALLS)}
    waiting = dict.fromkeys(inward, 0)
    for edge in edges:
        inward[edge.outer].append(edge)
        waiting[edge.inner] += 1
    key, pulled = _keys(nodes, inward)
    held: dict[str, tuple[Edge, ...]] = {node: (edge,) for node, edge in pulled.items()}

    ready = [(key[node], node) for node, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    placed: list[str] = []
    furthest: Key = min(key.values(), default=(0, 0, 0))
    while ready:
        own, node = heapq.heappop(ready)
        placed.append(node)
        furthest = max(furthest, own)
        for edge in reversed(inward[node]):  # the strongest of parallel edges is the last to open
            inner = edge.inner
            waiting[inner] -= 1
            if waiting[inner] == 0:
                heapq.heappush(ready, (key[inner], inner))
                if key[inner] < furthest and inner not in _WALLS:
                    # Something that belongs behind it is placed already: this edge held it back.
                    held[inner] = (*held.get(inner, ()), edge)
    return placed, held


def _keys(
    nodes: Sequence[str], inward: Mapping[str, Sequence[Edge]]
) -> tuple[dict[str, Key], dict[str, Edge]]:
    """Return each node's key, and the edge that pulled it outwards where there is one."""
    position = {node: index for index, node in enumerate(nodes)}
    # A wall is no layer: it takes the first place it can get, and nobody moves towards it.
    key: dict[str, Key] = {wall: (-1, -index, -1) for index, wall in enumerate(_WALLS)}
    pulled: dict[str, Edge] = {}
    graph = graph_of(inward, ((edge.outer, edge.inner) for out in inward.values() for edge in out))
    for node in reversed(sort(graph, {node: index for index, node in enumerate(inward)})):
        if node in _WALLS:
            continue
        own = position[node]
        key[node] = (own, 0, own)
        for edge in inward[node]:
            if edge.mover != node:
                continue
            anchor, depth, _ = key[edge.inner]
            if (anchor, depth - 1, own) < key[node]:
                key[node] = (anchor, depth - 1, own)
                pulled[node] = edge
    return key, pulled


def _overrule(
    nodes: Sequence[str], edges: Sequence[Edge], musts: Sequence[Edge]
) -> tuple[list[Edge], tuple[OverruledWish, ...]]:
    """Drop each wish whose outer layer the musts lead to from its inner one."""
    graph = _graph(nodes, musts)
    leading = Leading(graph)
    strongest = _strongest(musts)
    kept: list[Edge] = []
    overruled: list[OverruledWish] = []
    for edge in edges:
        if edge.strength == "wish" and leading.leads(edge.inner, edge.outer):
            path = leading.path(edge.inner, edge.outer)
            overruled.append(OverruledWish(edge, _steps(path, strongest)))
        else:
            kept.append(edge)
    return kept, tuple(overruled)


def _cycles(
    nodes: Sequence[str],
    edges: Sequence[Edge],
    problem: Callable[[Sequence[Edge], Mapping[str, int]], Problem],
) -> list[Problem]:
    graph = _graph(nodes, edges)
    if not _has_cycle(graph):
        return []
    position = {node: index for index, node in enumerate(nodes)}
    strongest = _strongest(edges)
    return [problem(_steps(cycle, strongest), position) for cycle in shortest_cycles(graph)]


def _must_cycle(chain: Sequence[Edge], position: Mapping[str, int]) -> Problem:
    operators = [edge for edge in chain if edge.origin == "operator"]
    against = _against_default(operators, position)
    if against:
        one = f"{against.said} of {against.declared_by}"
        hint = f"remove one of the operator's edges, for example {one}"
    else:
        hint = "these layers cannot serve one agent together: switch one of them off"
    return _cycle_problem(chain, hint)


def _wish_cycle(chain: Sequence[Edge], position: Mapping[str, int]) -> Problem:
    # A must of the opposite direction overrules the wish, and the rest of the chain is acyclic.
    wish = _against_default([edge for edge in chain if edge.origin == "middleware"], position)
    if wish is None:  # pragma: no cover - a cycle of musts was reported before
        return _cycle_problem(chain, "")
    return _cycle_problem(
        chain,
        "state the order in the file; it overrules what a middleware wishes, for example\n"
        f'[middleware.{wish.inner}]\nlayer = {{ before = ["{wish.outer}"] }}',
    )


def _cycle_problem(chain: Sequence[Edge], hint: str) -> Problem:
    lines = [
        f"layers {chain_layers(chain)} ask for an order that goes round in a circle",
        *explain_chain(chain),
    ]
    return Problem("order-cycle", "\n".join(lines), chain_places(chain), hint)


def _against_default(edges: Sequence[Edge], position: Mapping[str, int]) -> Edge | None:
    """Return the first edge that runs against the default order, else the last one, else None."""
    for edge in edges:
        if position.get(edge.outer, -1) > position.get(edge.inner, -1):
            return edge
    return edges[-1] if edges else None


def _has_cycle(graph: Mapping[str, Sequence[str]]) -> bool:
    return len(sort(graph, {node: index for index, node in enumerate(graph)})) < len(graph)


def _graph(nodes: Sequence[str], edges: Iterable[Edge]) -> dict[str, list[str]]:
    return graph_of((*nodes, *_WALLS), ((edge.outer, edge.inner) for edge in edges))


def _strongest(edges: Iterable[Edge]) -> dict[tuple[str, str], Edge]:
    """Of several edges between two layers, the one to show: edges are sorted strongest first."""
    found: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        found.setdefault((edge.outer, edge.inner), edge)
    return found


def _steps(path: Sequence[str], strongest: Mapping[tuple[str, str], Edge]) -> tuple[Edge, ...]:
    return tuple(strongest[pair] for pair in pairwise(path))


def _edge_key(edge: Edge) -> tuple[str, str, int, str, str]:
    return (edge.outer, edge.inner, _RANK[edge.origin], edge.declared_by, edge.said)
