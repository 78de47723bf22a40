"""Directed graphs: sort with priorities, shortest path, shortest cycles. All of it deterministic.

A graph is a mapping from each node to its successors; every node is a key.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, TypeVar

N = TypeVar("N", bound=Hashable)
Graph = Mapping[N, Collection[N]]


def graph_of(nodes: Iterable[N], edges: Iterable[tuple[N, N]]) -> dict[N, list[N]]:
    """Build a graph from pairs; repeated pairs count once, successors keep the pairs' order."""
    successors: dict[N, dict[N, None]] = {node: {} for node in nodes}
    for tail, head in edges:
        successors[tail][head] = None
    return {node: list(heads) for node, heads in successors.items()}


def sort(graph: Graph[N], priority: Mapping[N, Any]) -> list[N]:
    """Return the nodes so that every edge runs forward, smallest ``priority`` first.

    Priorities must differ between nodes. Nodes on a cycle, and what lies behind them, are left
    out: the result is shorter than the graph exactly when there is a cycle.
    """
    waiting = dict.fromkeys(graph, 0)
    for heads in graph.values():
        for head in heads:
            waiting[head] += 1
    ready = [(priority[node], node) for node, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    placed: list[N] = []
    while ready:
        _, node = heapq.heappop(ready)
        placed.append(node)
        for head in graph[node]:
            waiting[head] -= 1
            if waiting[head] == 0:
                heapq.heappush(ready, (priority[head], head))
    return placed


def needed_first(graph: Graph[N]) -> list[N]:
    """Return the nodes so that every edge runs forward, else in the graph's own order.

    Unlike :func:`sort` it moves the needed forward rather than the needing back: each node, the
    first one before all others, comes as early as it can. Shorter than the graph on a cycle.
    """
    last_first = {node: -index for index, node in enumerate(graph)}
    return sort(_reversed(graph), last_first)[::-1]


def shortest_path(graph: Graph[N], start: N, goal: N) -> list[N] | None:
    """Return the nodes of a shortest path of at least one edge, both ends included, or None.

    With ``start == goal`` it is the shortest cycle through that node.
    """
    came_from: dict[N, N] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for head in graph[node]:
            if head == goal:
                path = [goal, node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if head not in came_from and head != start:
                came_from[head] = node
                queue.append(head)
    return None


def reachable(graph: Graph[N], start: N) -> set[N]:
    """Return the nodes that a path of at least one edge leads to."""
    found: set[N] = set()
    stack = list(graph[start])
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(graph[node])
    return found


def shortest_cycles(graph: Graph[N]) -> list[list[N]]:
    """Return a shortest cycle of each knot of nodes that reach each other.

    Each cycle starts at its earliest node in the graph's own order and ends with it again.
    """
    rank = {node: index for index, node in enumerate(graph)}
    remaining = _knots(graph)
    cycles: list[list[N]] = []
    while remaining:
        found = (shortest_path(remaining, node, node) for node in remaining)
        cycle = min((path for path in found if path), key=len)
        cycle = cycle[:-1]
        start = min(range(len(cycle)), key=lambda index: rank[cycle[index]])
        cycles.append([*cycle[start:], *cycle[:start], cycle[start]])
        knot = reachable(remaining, cycle[0])
        knot = {node for node in knot if cycle[0] in reachable(remaining, node)}
        remaining = _knots(_without(remaining, knot))
    return sorted(cycles, key=lambda cycle: rank[cycle[0]])


def _knots(graph: Graph[N]) -> Graph[N]:
    """Strip nodes that no cycle can go through: before the first and behind the last one."""
    priority = {node: index for index, node in enumerate(graph)}
    for _ in range(2):
        graph = _without(graph, set(sort(graph, priority)))
        graph = _reversed(graph)
    return graph


def _without(graph: Graph[N], gone: set[N]) -> Graph[N]:
    return {
        node: [head for head in heads if head not in gone]
        for node, heads in graph.items()
        if node not in gone
    }


def _reversed(graph: Graph[N]) -> Graph[N]:
    return graph_of(graph, ((head, tail) for tail, heads in graph.items() for head in heads))
