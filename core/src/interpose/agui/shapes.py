"""What the protocol's models describe, as shapes that remove everything else from raw data.

A shape mirrors one annotation: a record (a model), a tagged union, or a list. Whatever has no
shape is a leaf, scalar or opaque (``metadata``, ``state``, ``rawEvent``, an activity's
``content``), and passes untouched. Shapes never judge a known value: that is the validator's
part. Removing is copy-on-write, so raw data is never mutated.

Rules: AG-UI 1.1, processing, "Enforcement".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

DROP: Final = object()
"""What a shape returns for a value that cannot be recognised at all."""

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_LONGEST_KEY = 64


@dataclass(slots=True)
class Report:
    """What stripping one value found; paths look like ``messages[0].content[1].foo``.

    ``removed``: paths of what was taken out. ``nulls``: (path, field name) of optional fields
    that were null on the wire, which AG-UI 1.0 spells as an absent key.
    """

    removed: list[str] = field(default_factory=list)
    nulls: list[tuple[str, str]] = field(default_factory=list)


class Known(NamedTuple):
    """One described field: its Python name, whether it is required, its shape (None: a leaf)."""

    name: str
    required: bool
    nullable: bool
    shape: Shape | None


@dataclass(frozen=True, slots=True)
class Record:
    """A model. ``open`` records keep members that the protocol does not define."""

    fields: Mapping[str, Known]
    leaves: frozenset[str]
    open: bool

    def strip(self, value: Any, path: str, report: Report) -> Any:
        """Return ``value`` without what is unknown, or DROP if a required part is unknown."""
        if not isinstance(value, Mapping):
            return value
        if value.keys() <= self.leaves and None not in value.values():
            return value  # nearly every event of a stream
        kept: dict[str, Any] = {}
        seen: set[str] = set()
        for key, item in value.items():
            known = self.fields.get(key) if isinstance(key, str) else None
            place = join(path, key)
            if known is None or known.name in seen:
                if self.open:
                    kept[key] = item
                else:
                    report.removed.append(place)
                continue
            seen.add(known.name)
            if item is None and known.nullable:
                report.nulls.append((place, known.name))
                continue
            if known.shape is not None:
                item = _descend(known.shape, item, place, report)  # noqa: PLW2901 - the kept form
                if item is DROP:
                    if known.required:
                        return DROP
                    report.removed.append(place)
                    continue
            kept[key] = item
        return kept


@dataclass(frozen=True, slots=True)
class Tagged:
    """A discriminated union: ``members`` by the value of the key ``tag``."""

    tag: str
    members: Mapping[str, Record]

    def strip(self, value: Any, path: str, report: Report) -> Any:
        """Return the member's stripped value, or DROP if no member has this tag."""
        if not isinstance(value, Mapping):
            return value  # malformed, not unknown: an array or a scalar is the validator's
        tag = value.get(self.tag)
        member = self.members.get(tag) if isinstance(tag, str) else None
        return DROP if member is None else member.strip(value, path, report)


@dataclass(frozen=True, slots=True)
class Items:
    """A list. Also stands for "a string or a list": only a list has anything to strip."""

    item: Record | Tagged

    def strip(self, value: Any, path: str, report: Report) -> Any:
        """Return the list without the elements that cannot be recognised."""
        if not isinstance(value, list):
            return value
        kept = []
        for index, element in enumerate(value):
            place = f"{path}[{index}]"
            stripped = _descend(self.item, element, place, report)
            if stripped is DROP:
                report.removed.append(place)
            else:
                kept.append(stripped)
        return kept


Shape = Record | Tagged | Items


@cache
def record_of(model: type[BaseModel], *, is_open: bool = False) -> Record:
    """Read the shape of ``model`` from its fields. Both spellings of a field are known."""
    fields: dict[str, Known] = {}
    for name, info in model.model_fields.items():
        known = Known(
            name,
            required=info.is_required(),
            nullable=not info.is_required()
            and info.default is None
            and not _is_opaque(info.annotation),
            shape=_shape_of(info.annotation, info.discriminator),
        )
        fields[name] = fields[info.alias or name] = known
    wire = {info.alias or name for name, info in model.model_fields.items()}
    leaves = frozenset(key for key in wire if fields[key].shape is None)
    return Record(fields, leaves, is_open)


def join(path: str, key: object) -> str:
    """Append a key to a path. Keys come from strangers: odd ones are quoted and cut."""
    if isinstance(key, str) and _IDENTIFIER.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(str(key)[:_LONGEST_KEY])}]"


def _descend(shape: Shape, value: Any, path: str, report: Report) -> Any:
    removed, nulls = len(report.removed), len(report.nulls)
    result = shape.strip(value, path, report)
    if result is DROP:
        # The whole value goes, so what was found inside it was never a deviation of its own.
        del report.removed[removed:], report.nulls[nulls:]
    return result


def _is_opaque(annotation: Any) -> bool:
    return Any in (annotation, *get_args(annotation))


def _shape_of(annotation: Any, discriminator: Any = None) -> Shape | None:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extra = get_args(annotation)
        tags = [info.discriminator for info in extra if isinstance(info, FieldInfo)]
        return _shape_of(inner, discriminator or next((tag for tag in tags if tag), None))
    if origin in (Union, UnionType):
        return _shape_of_union(
            [arm for arm in get_args(annotation) if arm is not NoneType], discriminator
        )
    if origin is list:
        item = _shape_of(get_args(annotation)[0])
        return Items(item) if isinstance(item, Record | Tagged) else None
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return record_of(annotation)
    return None


def _shape_of_union(arms: list[Any], discriminator: Any) -> Shape | None:
    if len(arms) == 1:
        return _shape_of(arms[0], discriminator)
    if isinstance(discriminator, str):
        # RFC 6902 section 4: members that an operation does not define are ignored, not refused.
        # Nothing in the models says so; a patch operation is known by its discriminator.
        is_open = discriminator == "op"
        return Tagged(
            discriminator,
            {
                arm.model_fields[discriminator].default: record_of(arm, is_open=is_open)
                for arm in arms
            },
        )
    shapes = [shape for shape in map(_shape_of, arms) if isinstance(shape, Items)]
    return shapes[0] if len(shapes) == 1 else None
