"""The settings under contract in other forms: as a table, as text, with other secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, Protocol

from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from interpose.startup.diagnosis import key_of
from interpose.startup.secrecy import is_secret
from interpose.startup.tree import KeyPath

SECRETS: Final = (SecretStr, SecretBytes, Secret)


class HasSettings(Protocol):
    """What settings belong to: a middleware, a provider, or a factory.

    ``path``: of its table. ``start_up``: go through a real startup with a table of settings and
    variables, and return what the settings came to; raises :class:`StartupError`.
    """

    @property
    def name(self) -> str:
        """Its name, for messages."""

    @property
    def settings(self) -> BaseModel:
        """The settings that the author gave, validated."""

    @property
    def path(self) -> KeyPath:
        """The path of its table, as ``("middleware", "redact")``."""

    def start_up(self, table: Mapping[str, Any], environ: Mapping[str, str]) -> BaseModel:
        """Return what a startup makes of a table and variables."""


def fields(settings: BaseModel) -> Iterator[tuple[str, FieldInfo, Any]]:
    """Yield key, field and value of each setting; the key is the one that a file uses."""
    for name, info in type(settings).model_fields.items():
        yield key_of(name, info), info, getattr(settings, name)


def as_table(
    settings: BaseModel, *, without: KeyPath = (), given_only: bool = True
) -> dict[str, Any]:
    """Return settings as the table that a file would hold, secrets as they are.

    ``without``: the path of one setting to leave out. ``given_only``: without the defaults.
    """
    table: dict[str, Any] = {}
    names = {key_of(name, info): name for name, info in type(settings).model_fields.items()}
    for key, _, value in fields(settings):
        if without == (key,) or (given_only and names[key] not in settings.model_fields_set):
            continue
        if isinstance(value, BaseModel) and not isinstance(value, RootModel):
            below = without[1:] if without[:1] == (key,) else ()
            table[key] = as_table(value, without=below, given_only=given_only)
        else:
            table[key] = value
    return table


def leaves(settings: BaseModel, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield each setting that has a value with its path, those of nested models one by one."""
    for key, _, value in fields(settings):
        if isinstance(value, BaseModel) and not isinstance(value, RootModel):
            yield from leaves(value, (*path, key))
        elif value is not None:
            yield (*path, key), value


def as_text(value: Any) -> str:
    """Return a setting as the text of a variable. Raises ``ValueError`` if it has none."""
    plain = as_plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain)


def as_plain(value: Any) -> Any:  # noqa: PLR0911 - one answer for each kind of value
    """Return a setting as JSON data, secrets told. Raises ``ValueError`` if it has no such form."""
    match value:
        case SecretBytes():
            return value.get_secret_value().decode()
        case SecretStr() | Secret():
            return as_plain(value.get_secret_value())
        case RootModel():
            return as_plain(value.root)
        case BaseModel():
            return {key: as_plain(below) for key, _, below in fields(value)}
        case Enum():
            return as_plain(value.value)
        case Mapping():
            return {as_text(key): as_plain(below) for key, below in value.items()}
        case list() | tuple():
            return [as_plain(item) for item in value]
        case set() | frozenset():
            return sorted((as_plain(item) for item in value), key=json.dumps)
        case _:
            return to_jsonable_python(value)


def with_secrets(settings: BaseModel, make: Callable[[], str], *, fill: bool) -> dict[str, Any]:
    """Return settings as a table in which every secret is a new one.

    ``fill``: also those that were left out.
    """
    table = as_table(settings)
    for key, info, value in fields(settings):
        if isinstance(value, BaseModel) and not isinstance(value, RootModel):
            below = with_secrets(value, make, fill=fill)
            if below:
                table[key] = below
        elif value is None:
            if fill and is_secret(info.annotation):
                table[key] = make()
        elif is_secret(info.annotation):
            table[key] = _renewed(value, make)
    return table


def _renewed(value: Any, make: Callable[[], str]) -> Any:
    match value:
        case SecretStr():
            return SecretStr(make())
        case SecretBytes():
            return SecretBytes(make().encode())
        case Mapping():
            return {key: _renewed(below, make) for key, below in value.items()}
        case list() | tuple() | set() | frozenset():
            return type(value)(_renewed(item, make) for item in value)
        case _:
            return value
