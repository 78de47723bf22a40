"""Keeping secrets out of messages, even when a validator quotes one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, Secret, SecretBytes, SecretStr

from interpose.startup.tree import Array, Node, Scalar, Table

MASK = "***"
_SHORT = 4
"""Below this many characters a secret is masked only where it stands as a word of its own."""


def is_secret(annotation: Any) -> bool:
    """Say whether a type holds a secret, directly or as ``SecretStr | None``, ``list[...]``."""
    if isinstance(annotation, type) and issubclass(annotation, SecretStr | SecretBytes | Secret):
        return True
    return any(is_secret(argument) for argument in get_args(annotation))


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the model classes that a type mentions: ``list[Rule] | None`` mentions ``Rule``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def known_secrets(annotation: Any, node: Node) -> frozenset[str]:
    """Collect every secret below ``node``, which is read as ``annotation``."""
    return frozenset(text for text in _secrets(annotation, node, inside=False) if text)


def _secrets(annotation: Any, node: Node, *, inside: bool) -> Iterator[str]:
    inside = inside or is_secret(annotation)
    match node:
        case Scalar():
            if inside or node.secret:
                yield str(getattr(node.value, "get_secret_value", lambda: node.value)())
        case Array():
            for item in node.items:
                yield from _secrets(annotation, item, inside=inside)
        case Table():
            for key, below in node.entries.items():
                yield from _secrets(_below(annotation, key), below, inside=inside)
        case _:
            return


def _below(annotation: Any, key: str) -> Any:
    """Return the type of ``key`` in whichever model of ``annotation`` has it."""
    for model in models_in(annotation):
        for name, info in model.model_fields.items():
            if key in (name, info.alias, info.validation_alias):
                return info.annotation
    return annotation


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
