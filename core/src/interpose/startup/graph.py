"""Directed graphs: sort with priorities, shortest path, shortest cycles. All of it deterministic.

A graph is a mapping from each node to its successors; every node is a key.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

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


def shortest_path(
    graph: Graph[N],
    start: N,
    goal: N,
    *,
    shorter_than: float = math.inf,
    through: Callable[[N], bool] | None = None,
) -> list[N] | None:
    """Return the nodes of a shortest path of at least one edge, both ends included, or None.

    With ``start == goal`` it is the shortest cycle through that node. ``shorter_than``: the number
    of nodes that it must stay below. ``through``: leaves out nodes that cannot lead to the goal.
    """
    came_from: dict[N, N] = {}
    queue = deque([(start, 1)])
    while queue:
        node, length = queue.popleft()
        if length + 1 >= shorter_than:
            return None
        for head in graph[node]:
            if head == goal:
                path = [goal, node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if head not in came_from and head != start and (through is None or through(head)):
                came_from[head] = node
                queue.append((head, length + 1))
    return None


class Leading(Generic[N]):
    """Which nodes of a graph without cycles lead to which, for many questions about it.

    A set of nodes is kept as the bits of one integer, so that joining two costs next to nothing.
    """

    def __init__(self, graph: Graph[N]) -> None:
        self._graph = graph
        self._bit = {node: 1 << index for index, node in enumerate(graph)}
        self._behind: dict[N, int] = {}
        for node in reversed(sort(graph, self._bit)):
            behind = 0
            for head in graph[node]:
                behind |= self._bit[head] | self._behind[head]
            self._behind[node] = behind

    def leads(self, start: N, goal: N) -> bool:
        """Say whether there is a path of at least one edge."""
        return bool(self._behind[start] & self._bit[goal])

    def path(self, start: N, goal: N) -> list[N]:
        """Return a shortest path; there must be one."""
        through = partial(self.leads, goal=goal)
        return shortest_path(self._graph, start, goal, through=through) or []


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
    cycles: list[list[N]] = []
    for knot in _knots(graph):
        cycle: list[N] = []
        for node in knot:
            limit = len(cycle) or math.inf
            cycle = shortest_path(knot, node, node, shorter_than=limit) or cycle
        cycle = cycle[:-1]
        start = min(range(len(cycle)), key=lambda index: rank[cycle[index]])
        cycles.append([*cycle[start:], *cycle[:start], cycle[start]])
    return sorted(cycles, key=lambda cycle: rank[cycle[0]])


def _knots(graph: Graph[N]) -> Iterator[Graph[N]]:
    """Return the parts whose nodes all reach each other, as graphs in the graph's own order.

    From the node that a search leaves last, what leads to it and is in no knot yet is its knot
    (the algorithm of Kosaraju).
    """
    rank = {node: index for index, node in enumerate(graph)}
    against = _reversed(graph)
    knot_of: dict[N, N] = {}
    for last in reversed(_left(graph)):
        if last in knot_of:
            continue
        knot_of[last] = last
        knot = [last]
        for node in knot:  # grows as it is walked
            for tail in against[node]:
                if tail not in knot_of:
                    knot_of[tail] = last
                    knot.append(tail)
        if len(knot) > 1 or last in graph[last]:
            yield {
                tail: sorted(
                    (h for h in graph[tail] if knot_of.get(h) == last), key=rank.__getitem__
                )
                for tail in sorted(knot, key=rank.__getitem__)
            }


def _left(graph: Graph[N]) -> list[N]:
    """Return the nodes in the order in which a search, the deepest first, has done with them."""
    left: list[N] = []
    met: set[N] = set()
    for root in graph:
        way = [] if root in met else [(root, iter(graph[root]))]
        met.add(root)
        while way:
            node, heads = way[-1]
            head = next((head for head in heads if head not in met), None)
            if head is None:
                left.append(node)
                way.pop()
            else:
                met.add(head)
                way.append((head, iter(graph[head])))
    return left


def _reversed(graph: Graph[N]) -> Graph[N]:
    return graph_of(graph, ((head, tail) for tail, heads in graph.items() for head in heads))
