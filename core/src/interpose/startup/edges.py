"""The edges between layers: who must or would like to lie outside whom, and who said so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from interpose.errors import Problem, nearest
from interpose.plan import EXPANSION_WALL, HISTORY_WALL, Edge
from interpose.startup.candidates import Candidate, Reference, listed, places, source

_SWITCHED = {"off": "switched off", "failed": "left out because it failed"}


def collect_edges(layers: Sequence[Candidate]) -> tuple[list[Edge], list[Problem]]:
    """Return every edge but those of ``ordered`` capabilities, and problems with the references.

    Layers that are not active keep the operator's edges: a chain that the operator wrote holds
    also while its middle link is switched off. Their wishes and walls do not count.
    """
    active = [layer for layer in layers if layer.active]
    musts, problems = operator_edges(layers)
    return [*musts, *wish_edges(active), *wall_edges(active)], problems


def operator_edges(layers: Sequence[Candidate]) -> tuple[list[Edge], list[Problem]]:
    """Return the musts of the file; unknown ids are errors, ids that are switched off notes."""
    by_id = {layer.id: layer for layer in layers}
    edges: list[Edge] = []
    problems: list[Problem] = []
    for layer in layers:
        for word, reference in _operator_references(layer):
            target = by_id.get(reference.name)
            problem = _reference_problem(layer, word, reference, target, by_id)
            if problem:
                problems.append(problem)
            if target is None or target is layer:
                continue
            edges.append(
                _directed(
                    layer, target.id, word, reference.name, place=reference.place or layer.place
                )
            )
    return edges, problems


def _operator_references(layer: Candidate) -> Iterator[tuple[str, Reference]]:
    for reference in layer.operator_before:
        yield "before", reference
    for reference in layer.operator_after:
        yield "after", reference


def _reference_problem(
    layer: Candidate,
    word: str,
    reference: Reference,
    target: Candidate | None,
    known: Iterable[str],
) -> Problem | None:
    where = places(reference.place or layer.place)
    said = f'layer {layer.id} says {word} = ["{reference.name}"]'
    if target is None:
        others = sorted(set(known) - {layer.id})
        near = nearest(reference.name, others)
        return Problem(
            "unknown-layer",
            f"{said}, but there is no layer {reference.name}",
            where,
            f"did you mean {near}?" if near else f"layers are: {', '.join(others) or 'no others'}",
        )
    if target is layer:
        return Problem(
            "order-cycle", f"{said}: a layer cannot be {word} itself", where, "remove it"
        )
    if layer.active and target.state in _SWITCHED:
        return Problem(
            "layer-off", f"{said}, and that is {_SWITCHED[target.state]}", where, severity="note"
        )
    return None


def wish_edges(active: Sequence[Candidate]) -> list[Edge]:
    """Return what the middlewares wish; names that match no other active middleware are ignored."""
    named = by_name(active)
    return [
        _directed(layer, other.id, word, name, origin_is_operator=False)
        for layer in active
        for word, names in (("before", layer.before), ("after", layer.after))
        for name in names
        for other in named.get(name, ())
        if other.middleware != layer.middleware
    ]


def by_name(layers: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    """Index layers by what a middleware calls them: a middleware id, or ``cap:<name>``."""
    found: dict[str, list[Candidate]] = {}
    for layer in layers:
        names = {layer.middleware, *(f"cap:{item.name}" for item in layer.provides)}
        for name in names:
            found.setdefault(name, []).append(layer)
    return found


def wall_edges(active: Sequence[Candidate]) -> list[Edge]:
    """Return the edges to and from the host's walls.

    A rewriter has to be innermost, or what lies inside it would alter the stream after the
    history was cut from it. A raw layer sits inside the expansion, so no expanded one can be
    further in. One barrier node for each wall keeps the number of edges linear.
    """
    edges = _wall(
        HISTORY_WALL,
        [item for item in active if item.alters_the_stream and not item.rewrites_history],
        "works on the stream and does not rewrite history",
        [item for item in active if item.rewrites_history],
        "rewrites history",
    )
    edges += _wall(
        EXPANSION_WALL,
        [item for item in active if item.in_the_stream and item.form != "raw"],
        "works on the expanded stream",
        [item for item in active if item.form == "raw"],
        'has form = "raw"',
    )
    return edges


def _wall(
    wall: str, outside: list[Candidate], why_outside: str, inside: list[Candidate], why_inside: str
) -> list[Edge]:
    if not outside or not inside:
        return []
    return [
        *(_wall_edge(layer, layer.id, wall, why_outside) for layer in outside),
        *(_wall_edge(layer, wall, layer.id, why_inside) for layer in inside),
    ]


def _wall_edge(layer: Candidate, outer: str, inner: str, said: str) -> Edge:
    # Nobody is the mover: were it the outer layers, all of them would leave their places.
    return Edge(
        outer=outer,
        inner=inner,
        strength="must",
        origin="wall",
        declared_by=layer.id,
        distribution=source(layer.distribution, layer.version),
        place=layer.place,
        said=said,
    )


def ordered_edge(provider: Candidate, consumer: Candidate, capability: str) -> Edge:
    """Return the must of an ``ordered`` capability: its provider is outside who requires it."""
    return Edge(
        outer=provider.id,
        inner=consumer.id,
        strength="must",
        origin="capability",
        declared_by=consumer.id,
        distribution=source(consumer.distribution, consumer.version),
        place=consumer.place,
        said=f"requires {capability}, which is ordered",
        mover=consumer.id,
    )


def _directed(
    layer: Candidate,
    other: str,
    word: str,
    name: str,
    *,
    place: str = "",
    origin_is_operator: bool = True,
) -> Edge:
    outer, inner = (layer.id, other) if word == "before" else (other, layer.id)
    return Edge(
        outer=outer,
        inner=inner,
        strength="must" if origin_is_operator else "wish",
        origin="operator" if origin_is_operator else "middleware",
        declared_by=layer.id,
        distribution=source(layer.distribution, layer.version),
        place=place or layer.place,
        said=f'{word} = ["{name}"]',
        mover=layer.id,
    )


def explain(edge: Edge, through: Edge | None = None) -> str:
    """Say in one line which order an edge asks for, who declared it and where.

    ``through``: the second half of a chain through a wall, which is one step for a reader.
    """
    at = f" ({edge.place})" if edge.place else ""
    if edge.origin == "operator":
        return (
            f"{edge.outer} outside {edge.inner}: "
            f"the operator's {edge.said} of {edge.declared_by}{at}"
        )
    if edge.origin == "middleware":
        return (
            f"{edge.outer} outside {edge.inner}: "
            f"wish {edge.said} of {edge.declared_by} ({_from(edge)})"
        )
    if edge.origin == "capability":
        return f"{edge.outer} outside {edge.inner}: {edge.declared_by} {edge.said} ({_from(edge)})"
    if through is None:
        return f"{edge.outer} outside {edge.inner}: {edge.declared_by} {edge.said} ({_from(edge)})"
    return (
        f"{edge.outer} outside {through.inner}: "
        f"{edge.declared_by} {edge.said} ({_from(edge)}), "
        f"{through.declared_by} {through.said} ({_from(through)})"
    )


def explain_chain(chain: Sequence[Edge]) -> list[str]:
    """Explain a chain of edges, one line a step; the two halves of a wall make one step."""
    lines: list[str] = []
    steps = iter(chain)
    for edge in steps:
        is_wall = edge.inner in (HISTORY_WALL, EXPANSION_WALL)
        lines.append(explain(edge, next(steps, None) if is_wall else None))
    return lines


def chain_places(chain: Sequence[Edge]) -> tuple[str, ...]:
    """Return the places of all edges of a chain."""
    return places(*(edge.place for edge in chain))


def chain_layers(chain: Sequence[Edge]) -> str:
    """List the layers that a chain goes through, without the walls, for a person."""
    names = dict.fromkeys(edge.outer for edge in chain)
    return listed([name for name in names if not name.startswith("wall:")])


def _from(edge: Edge) -> str:
    return f"{edge.distribution}, {edge.place}" if edge.place else edge.distribution
