"""Keeping secrets out of messages, even when a validator quotes one."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import AliasChoices, BaseModel, RootModel, Secret, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

from interpose.startup.tree import Array, Node, Scalar, Table

MASK = "***"
_SHORT = 4
"""Below this many characters a secret is masked only where it stands as a word of its own."""


def is_secret(annotation: Any) -> bool:
    """Say whether a type holds a secret, directly or as ``SecretStr | None``, ``list[...]``."""
    if isinstance(annotation, type) and issubclass(annotation, SecretStr | SecretBytes | Secret):
        return True
    if isinstance(annotation, type) and issubclass(annotation, RootModel):
        return is_secret(annotation.model_fields["root"].annotation)
    return any(is_secret(argument) for argument in get_args(annotation))


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the model classes that a type mentions: ``list[Rule] | None`` mentions ``Rule``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def known_secrets(annotation: Any, node: Node) -> frozenset[str]:
    """Collect every secret below ``node``, which is to be read as ``annotation``."""
    return frozenset(text for text in _secrets(annotation, node, inside=False) if text)


def held_secrets(value: Any) -> Iterator[str]:
    """Yield the text of every secret in a validated value, wherever it is in there."""
    match value:
        case SecretStr() | SecretBytes() | Secret():
            yield _text(value.get_secret_value())
        case BaseModel():
            for name in type(value).model_fields:
                yield from held_secrets(getattr(value, name))
            yield from held_secrets(value.model_extra or {})
        case Mapping():
            for key, below in value.items():
                yield from held_secrets(key)
                yield from held_secrets(below)
        case list() | tuple() | set() | frozenset():
            for item in value:
                yield from held_secrets(item)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            for each in dataclasses.fields(value):
                yield from held_secrets(getattr(value, each.name, None))
        case _:
            return


def _text(secret: Any) -> str:
    return secret.decode(errors="replace") if isinstance(secret, bytes) else str(secret)


def _secrets(annotation: Any, node: Node, *, inside: bool) -> Iterator[str]:
    inside = inside or is_secret(annotation)
    match node:
        case Scalar():
            if inside or node.secret:
                yield _text(getattr(node.value, "get_secret_value", lambda: node.value)())
        case Array():
            for item in node.items:
                yield from _secrets(annotation, item, inside=inside)
        case Table():
            for key, below in node.entries.items():
                if _has_secret_keys(annotation):
                    yield key
                for found in _below(annotation, key) or (annotation,):
                    yield from _secrets(found, below, inside=inside)
        case _:
            return


def _below(annotation: Any, key: str) -> Sequence[Any]:
    """Return what ``key`` may be read as, in all that a type mentions."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return arguments[1:]
    if arguments:
        return [found for argument in arguments for found in _below(argument, key)]
    return _field(annotation, key) if isinstance(annotation, type) else ()


def _field(kind: type, key: str) -> Sequence[Any]:
    if issubclass(kind, RootModel):
        return _below(kind.model_fields["root"].annotation, key)
    if issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        return [info.annotation for name, info in fields if key in _names(name, info)]
    if dataclasses.is_dataclass(kind):
        return [hint for name, hint in get_type_hints(kind).items() if name == key]
    return ()


def _has_secret_keys(annotation: Any) -> bool:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return is_secret(arguments[0])
    return any(map(_has_secret_keys, arguments))


def _names(name: str, info: FieldInfo) -> Iterator[str]:
    yield name
    for alias in (info.alias, info.validation_alias):
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        yield from (choice for choice in choices if isinstance(choice, str))


def redact(text: str, secrets: Iterable[str]) -> str:
    """Replace each of ``secrets`` in ``text``, however it is escaped."""
    for form in sorted({form for secret in secrets for form in _forms(secret)}, key=len)[::-1]:
        if len(form) < _SHORT:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", MASK, text)
        else:
            text = text.replace(form, MASK)
    return text


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as it stands, and as ``repr`` and JSON would quote it."""
    yield secret
    yield secret.strip() or secret
    yield repr(secret)[1:-1]
    yield json.dumps(secret)[1:-1]
