"""A digest for each setting that a configuration gives: it tells a change, and never a secret.

A digest is a function of what was said (a file, a variable, ``--set``) and of the setting's type.
The validated value is only looked at for its shape: what a validator makes of a setting may depend
on the machine (a home folder, the number of processors), or hold a secret that another setting
gave it. For the same reasons a default has no digest; it belongs to the version of the code.

A secret has the constant :data:`SECRET` in place of a digest: the hash of a short secret tells it
to anyone who tries all of them.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr

from interpose.startup.diagnosis import key_of
from interpose.startup.secrecy import held_secrets, is_secret
from interpose.startup.tree import Array, KeyPath, Node, Scalar, Table, plain, shown

SECRET: Final = "secret"  # noqa: S105 - what stands in place of one
"""Stands for a secret, whatever it is."""

_DIGITS: Final = 16
_SHORTEST: Final = 4
"""Characters of a secret from which on its text is looked for in other settings."""
_TRUE: Final = frozenset({"1", "on", "t", "true", "y", "yes"})


@dataclasses.dataclass(frozen=True, slots=True)
class _Hidden:
    """Stands in plain data for what is secret there; ``texts``: whatever was said of it."""

    texts: frozenset[str] = dataclasses.field(repr=False)


def settings_digests(settings: BaseModel, said: Table) -> dict[str, str]:
    """Return a digest of each setting that ``said`` gives, by its path below the part's table.

    ``settings`` is what ``said`` was validated as; :data:`SECRET` stands for what is secret there,
    or came through ``$env`` or ``$file``.
    """
    data = _data(settings, said, hidden=False)
    leaves = dict(_leaves(data, ()))
    # A validator may have taken a secret out of a plain setting, as the password out of a URL.
    taken = set(held_secrets(settings)).difference(*map(_hidden_texts, leaves.values()))
    taken = {secret for secret in taken if len(secret) >= _SHORTEST}
    return {shown(path): _digest(leaves[path], taken) for path in sorted(leaves)}


def digest(data: Any) -> str:
    """Return the digest of JSON data; the same in every process and on every platform."""
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _digest(data: Any, secrets: Iterable[str]) -> str:
    if isinstance(data, _Hidden):
        return SECRET
    if any(secret in text for secret in secrets for text in _texts(data)):
        return SECRET
    return digest(_marked(data))


def _leaves(data: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(data, dict) and (data or not path):
        for key, below in data.items():
            yield from _leaves(below, (*path, key))
    else:
        yield path, data


def _data(value: Any, node: Node, *, hidden: bool) -> Any:
    """Return what ``node`` says as JSON data, in the shape of the value that it became."""
    if isinstance(value, RootModel):
        hidden = hidden or is_secret(type(value).model_fields["root"].annotation)
        value = value.root
    if isinstance(node, Table) and isinstance(value, BaseModel):
        return dict(_field(value, key, below, hidden=hidden) for key, below in node.entries.items())
    if isinstance(node, Table) and isinstance(value, Mapping) and not any(map(_is_secret, value)):
        return {
            # A key that became something else: its value cannot be told from the others.
            key: _data(value[key], below, hidden=hidden)
            if key in value
            else _leaf(value, below, hidden=hidden)
            for key, below in node.entries.items()
        }
    pairs = isinstance(node, Array) and isinstance(value, list | tuple) and not hidden
    if isinstance(node, Array) and pairs and len(value) == len(node.items):
        return [
            _data(item, below, hidden=False) for item, below in zip(value, node.items, strict=True)
        ]
    return _leaf(value, node, hidden=hidden)


def _field(model: BaseModel, key: str, node: Node, *, hidden: bool) -> tuple[str, Any]:
    for name, info in type(model).model_fields.items():
        if key in (name, key_of(name, info)):
            secret = hidden or is_secret(info.annotation)
            return key_of(name, info), _data(getattr(model, name), node, hidden=secret)
    return key, _leaf(model, node, hidden=hidden)


def _leaf(value: Any, node: Node, *, hidden: bool) -> Any:
    said = plain(node)
    if said is None:
        return None
    if hidden or _holds_reference(node) or any(True for _ in held_secrets(value)):
        return _Hidden(frozenset(_said_texts(node)))
    return _typed(value, _canonical(said))


def _typed(value: Any, said: Any) -> Any:
    """Give what was said the form of its type: variables are text, sets have no order."""
    if isinstance(value, set | frozenset) and isinstance(said, list):
        return _sorted(said)
    if isinstance(value, bool) and isinstance(said, str):
        return said.strip().lower() in _TRUE
    if type(value) in (int, float) and type(said) in (int, str):
        try:
            return type(value)(said)
        except (ValueError, OverflowError):
            return said
    return said


def _canonical(value: Any) -> Any:  # noqa: PLR0911 - one answer for each kind of value
    """Return JSON data. Objects from code that are no data count by their class alone."""
    match value:
        case None | bool() | int() | float() | str() if not isinstance(value, enum.Enum):
            return value
        case enum.Enum():
            return _canonical(value.value)
        case Mapping():
            return {str(key): _canonical(below) for key, below in value.items()}
        case list() | tuple():
            return [_canonical(item) for item in value]
        case set() | frozenset():
            return _sorted([_canonical(item) for item in value])
        case PurePath():
            return value.as_posix()
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta() | decimal.Decimal() | uuid.UUID() | bytes():
            return str(value)
        case BaseModel():
            fields = {name: getattr(value, name) for name in type(value).model_fields}
            return _canonical(fields)
        case _:
            # Never its repr, which may hold an address or anything else.
            named = value if hasattr(value, "__qualname__") else type(value)
            return f"{named.__module__}:{named.__qualname__}"


def _sorted(items: list[Any]) -> list[Any]:
    by_text = {json.dumps(item, sort_keys=True): item for item in items}
    return [by_text[text] for text in sorted(by_text)]


def _marked(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _marked(below) for key, below in data.items()}
    if isinstance(data, list):
        return [_marked(item) for item in data]
    return {"$": SECRET} if isinstance(data, _Hidden) else data


def _hidden_texts(data: Any) -> frozenset[str]:
    if isinstance(data, dict | list):
        below = data.values() if isinstance(data, dict) else data
        return frozenset[str]().union(*map(_hidden_texts, below))
    return data.texts if isinstance(data, _Hidden) else frozenset()


def _said_texts(node: Node) -> Iterator[str]:
    match node:
        case Scalar():
            yield from (str(node.value), *held_secrets(node.value))
        case Array():
            for item in node.items:
                yield from _said_texts(item)
        case Table():
            for key, below in node.entries.items():
                yield key
                yield from _said_texts(below)
        case _:
            return


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        data = [*data, *data.values()]
    if isinstance(data, list):
        for item in data:
            yield from _texts(item)
    elif isinstance(data, str):
        yield data


def _holds_reference(node: Node) -> bool:
    match node:
        case Scalar():
            return node.secret
        case Array():
            return any(map(_holds_reference, node.items))
        case Table():
            return any(map(_holds_reference, node.entries.values()))
        case _:
            return True


def _is_secret(value: Any) -> bool:
    return isinstance(value, SecretStr | SecretBytes | Secret)
