"""Merging trees, weakest first: tables per key, everything else replaced by the stronger.

``{ "$append" = [...] }`` extends the weaker list instead. A key that a stronger source mentions
keeps its place, and new ones come after, so that an overlay never moves a layer. Where the kinds
differ (a table over a string, a string over a table) the stronger value replaces the weaker as a
whole: whether it is acceptable there is for validation to say, which knows the type.
"""

from __future__ import annotations

from collections.abc import Iterable

from interpose.startup.tree import (
    Array,
    KeyPath,
    Malformed,
    Node,
    Origin,
    Table,
    kind,
)

NOWHERE = Origin("default")
EMPTY = Table({}, NOWHERE)


def merge(trees: Iterable[Node]) -> Node:
    """Merge trees, the weakest first. A table keeps the origin of its first mention.

    An ``$append`` that met no list still extends the one that may be merged below it later.
    """
    merged: Node = EMPTY
    for tree in trees:
        merged = _over(merged, tree)
    return merged


def _over(weak: Node, strong: Node) -> Node:
    if isinstance(weak, Table) and isinstance(strong, Table):
        entries = dict(weak.entries)
        for key, value in strong.entries.items():
            entries[key] = _over(entries[key], value) if key in entries else value
        return Table(entries, strong.origin if weak.origin is NOWHERE else weak.origin)
    if isinstance(strong, Array) and strong.extends:
        if isinstance(weak, Array):
            return Array((*weak.items, *strong.items), strong.origin, extends=weak.extends)
        return Malformed(
            f'"$append" extends a list, but {weak.origin} says {kind(weak)}', strong.origin
        )
    return strong


def nest(path: KeyPath, node: Node) -> Node:
    """Return a tree in which ``node`` stands at ``path`` (keys of tables only)."""
    for step in reversed(path):
        node = Table({str(step): node}, node.origin)
    return node
