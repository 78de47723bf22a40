"""The raw configuration as a tree in which every value knows where it came from.

Sources (files, ``--set``, code) become such trees, merging combines them, and the error path walks
them to answer "which line said this?". A node never shows its value in ``repr``: it may be secret.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""The way from the root to a value: keys of tables, and indexes of lists from 0."""

REFERENCES = ("$env", "$file")
APPEND = "$append"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written: a file and its line, a variable, an option or a call."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value that merging does not look into. ``secret``: it came through a reference."""

    value: Any = field(repr=False)
    origin: Origin
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table; its keys keep the order in which they were first written."""

    entries: Mapping[str, Node]
    origin: Origin


@dataclass(frozen=True, slots=True)
class Array:
    """A list. ``extends``: it was written as ``{ "$append" = [...] }``."""

    items: tuple[Node, ...]
    origin: Origin
    extends: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that stands elsewhere: ``{ "$env" = target }`` or ``{ "$file" = target }``.

    ``folder`` is where a relative file is looked up: the folder of the file that says it.
    """

    kind: Literal["$env", "$file"]
    target: str
    origin: Origin
    folder: Path


StandIn: TypeAlias = Callable[[Reference], str]
"""Gives a reference a value, for tests."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A reference or ``$append`` of the wrong shape; ``reason`` says what is wrong with it."""

    reason: str
    origin: Origin


Node: TypeAlias = Scalar | Table | Array | Reference | Malformed


def annotate_table(
    values: Mapping[str, Any], origin_of: Callable[[KeyPath], Origin], folder: Path
) -> Table:
    """Turn plain data into a tree. ``origin_of`` is asked for the place of each path."""
    entries = {
        str(key): _annotate(value, (str(key),), origin_of, folder) for key, value in values.items()
    }
    return Table(entries, origin_of(()))


def _annotate(
    value: Any, path: KeyPath, origin_of: Callable[[KeyPath], Origin], folder: Path
) -> Node:
    origin = origin_of(path)
    if isinstance(value, Mapping):
        if any(key in value for key in (*REFERENCES, APPEND)):
            return _special(value, path, origin_of, folder)
        below = annotate_table(value, lambda inner: origin_of((*path, *inner)), folder)
        return Table(below.entries, origin)
    if isinstance(value, list | tuple):
        return Array(_items(value, path, origin_of, folder), origin)
    return Scalar(value, origin)


def _items(
    values: Sequence[Any], path: KeyPath, origin_of: Callable[[KeyPath], Origin], folder: Path
) -> tuple[Node, ...]:
    return tuple(
        _annotate(item, (*path, index), origin_of, folder) for index, item in enumerate(values)
    )


def _special(
    value: Mapping[str, Any],
    path: KeyPath,
    origin_of: Callable[[KeyPath], Origin],
    folder: Path,
) -> Node:
    origin = origin_of(path)
    name = next(key for key in (*REFERENCES, APPEND) if key in value)
    if len(value) > 1:
        others = ", ".join(f'"{key}"' for key in value if key != name)
        return Malformed(f'"{name}" stands alone in its table, here beside {others}', origin)
    target = value[name]
    if name == APPEND:
        if not isinstance(target, list | tuple):
            return Malformed('"$append" takes a list', origin)
        return Array(_items(target, (*path, name), origin_of, folder), origin, extends=True)
    if not isinstance(target, str) or not target:
        wanted = "the name of a variable" if name == "$env" else "the path of a file"
        return Malformed(f'"{name}" takes {wanted}, as a string', origin)
    return Reference("$env" if name == "$env" else "$file", target, origin, folder)


def descend(node: Node, path: KeyPath) -> tuple[Node, int]:
    """Walk ``path`` as far as the tree goes: the last node reached, and how many steps it took."""
    steps = 0
    for step in path:
        below = child(node, step)
        if below is None:
            break
        node, steps = below, steps + 1
    return node, steps


def child(node: Node, step: str | int) -> Node | None:
    """Return what stands at ``step`` directly below ``node``, or None."""
    if isinstance(node, Table) and isinstance(step, str):
        return node.entries.get(step)
    if isinstance(node, Array) and isinstance(step, int) and 0 <= step < len(node.items):
        return node.items[step]
    return None


def at(node: Node, path: KeyPath) -> Node | None:
    """Return the node at exactly ``path``, or None."""
    found, steps = descend(node, path)
    return found if steps == len(path) else None


def leaves(node: Node, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Node]]:
    """Yield every node that is not a table, with its path; a list counts as one value."""
    if isinstance(node, Table):
        for key, below in node.entries.items():
            yield from leaves(below, (*path, key))
    else:
        yield path, node


def shown(path: KeyPath) -> str:
    """Write a path as TOML would: ``middleware.redact.entities[0]``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            bare = step and all(c.isascii() and (c.isalnum() or c in "-_") for c in step)
            key = step if bare else '"' + step.replace("\\", "\\\\").replace('"', '\\"') + '"'
            text += f".{key}" if text else key
    return text


def kind(node: Node) -> str:
    """Name what a node is, in the words of TOML."""
    match node:
        case Table():
            return "a table"
        case Array():
            return "a list"
        case Scalar(value=bool()):
            return "a boolean"
        case Scalar(value=str()):
            return "a string"
        case Scalar(value=int() | float()):
            return "a number"
        case _:
            return "a value"


class _Unresolved(enum.Enum):
    """Stands for a value whose reference could not be looked up."""

    UNRESOLVED = enum.auto()


UNRESOLVED = _Unresolved.UNRESOLVED


def plain(node: Node) -> Any:
    """Return the data of a tree. What could not be looked up is left out, with its whole list."""
    match node:
        case Scalar():
            return node.value
        case Table():
            table = {key: plain(below) for key, below in node.entries.items()}
            return {key: value for key, value in table.items() if value is not UNRESOLVED}
        case Array():
            items = [plain(item) for item in node.items]
            return UNRESOLVED if any(item is UNRESOLVED for item in items) else items
        case _:
            return UNRESOLVED


def is_resolved(node: Node) -> bool:
    """Say whether every reference below ``node`` has been looked up."""
    match node:
        case Table():
            return all(is_resolved(below) for below in node.entries.values())
        case Array():
            return all(is_resolved(item) for item in node.items)
        case _:
            return isinstance(node, Scalar)
