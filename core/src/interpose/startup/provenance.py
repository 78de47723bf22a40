"""Where each setting came from: what ``interpose config`` shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, RootModel
from pydantic_core import to_jsonable_python

from interpose.startup.composition import Composition
from interpose.startup.diagnosis import key_of
from interpose.startup.merging import NOWHERE
from interpose.startup.part import Part
from interpose.startup.secrecy import MASK, is_secret
from interpose.startup.tree import Array, KeyPath, Node, Scalar, Table, shown

_Row: TypeAlias = tuple[KeyPath, str, str]


@dataclass(frozen=True, slots=True)
class Setting:
    """One value in force. ``value`` is JSON, and ``***`` for a secret."""

    path: str
    value: str
    origin: str


def origins(parts: Iterable[Part], composition: Composition) -> list[Setting]:
    """Return every setting of the parts that are valid, with the source that supplied it."""
    return [
        Setting(shown(path), value, origin)
        for part in parts
        if part.path in composition.settings
        for path, value, origin in _rows(
            composition.settings[part.path],
            composition.trees[part.path],
            part.path,
            secret=False,
        )
    ]


def _rows(value: Any, node: Node, path: KeyPath, *, secret: bool) -> Iterator[_Row]:
    """Walk the validated value along what was said; what was not said is a default."""
    value = value.root if isinstance(value, RootModel) else value
    if isinstance(value, BaseModel) and isinstance(node, Table):
        yield from _fields(value, node, path)
    elif isinstance(value, Mapping) and isinstance(node, Table):
        for key, below in node.entries.items():
            yield from _rows(value.get(key), below, (*path, key), secret=secret)
    else:
        hidden = value is not None and (secret or _holds_secret(node))
        yield path, MASK if hidden else _json(value), str(node.origin)


def _fields(model: BaseModel, table: Table, path: KeyPath) -> Iterator[_Row]:
    unsaid = Table({}, NOWHERE)
    for name, info in type(model).model_fields.items():
        if info.exclude:
            continue
        key, value, secret = key_of(name, info), getattr(model, name), is_secret(info.annotation)
        # A field may be named in a file by its alias or, where its model allows, by its name.
        said = table.entries.get(key, table.entries.get(name))
        if said is None and not isinstance(value, BaseModel):
            said = Scalar(value, NOWHERE)
        yield from _rows(value, said or unsaid, (*path, key), secret=secret)


def _holds_secret(node: Node) -> bool:
    match node:
        case Scalar():
            return node.secret
        case Array():
            return any(_holds_secret(item) for item in node.items)
        case Table():
            return any(_holds_secret(below) for below in node.entries.values())
        case _:
            return False


def _json(value: Any) -> str:
    if isinstance(
        value, set | frozenset
    ):  # has no order of its own, and a reader compares two outputs
        value = sorted(value, key=str)
    return json.dumps(to_jsonable_python(value, fallback=str), ensure_ascii=False)
