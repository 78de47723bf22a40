"""From what was said to validated settings, through one model composed for the occasion.

The host's own keys and the settings of the active plugins take the same way, each table as a
:class:`~interpose.startup.part.Part`. Variables are read by pydantic-settings against the composed
model, one at a time, so that a bad value names exactly its variable. The parts are validated one by
one, so that a plugin whose validator crashes hides no problem of another.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from interpose.errors import Problem
from interpose.startup.configuration import Configuration
from interpose.startup.diagnosis import crashed, diagnose, key_of
from interpose.startup.environment import DELIMITER, PREFIX, Variable, variable_name
from interpose.startup.merging import EMPTY, merge
from interpose.startup.part import Part
from interpose.startup.references import resolve
from interpose.startup.secrecy import known_secrets
from interpose.startup.tree import (
    KeyPath,
    Node,
    Origin,
    Table,
    annotate_table,
    at,
    is_resolved,
    plain,
)


@dataclass(frozen=True, slots=True)
class Composition:
    """What validation found, by the path of each part's table.

    ``settings`` has the parts that are valid; ``trees`` has all, with references looked up.
    """

    settings: Mapping[KeyPath, BaseModel] = field(repr=False)
    trees: Mapping[KeyPath, Table]
    problems: tuple[Problem, ...]


def compose(parts: Sequence[Part], configuration: Configuration) -> Composition:
    """Read and validate every part. Never raises for what a user wrote; the problems say it."""
    composed = composed_model(parts)
    trees: dict[KeyPath, Table] = {}
    settings: dict[KeyPath, BaseModel] = {}
    problems: list[Problem] = []
    secrets: dict[KeyPath, frozenset[str]] = {}
    for part in parts:
        tree, found = _assemble(part, configuration, composed)
        problems += found
        trees[part.path] = tree
        secrets[part.path] = known_secrets(part.model, tree)
    everywhere = frozenset[str]().union(*secrets.values())
    for part in parts:
        tree = trees[part.path]
        validated = _validate(part, tree, everywhere, configuration.named)
        if isinstance(validated, BaseModel):
            settings[part.path] = validated
        else:
            problems += validated
    return Composition(settings, trees, tuple(dict.fromkeys(problems)))


def composed_model(parts: Iterable[Part]) -> type[BaseSettings]:
    """Compose the one model of all parts. A field is named like its table: ``middleware__redact``.

    ``__`` is the delimiter of variables too, so each part is found by the name of its table.
    """
    fields: dict[str, Any] = {_field_name(part): (strict(part.model), ...) for part in parts}
    return create_model("Configuration", __base__=_Composed, **fields)


class _Composed(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=DELIMITER,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )


def _field_name(part: Part) -> str:
    return variable_name(part.path).removeprefix(PREFIX).lower()


def strict(model: type[BaseModel]) -> type[BaseModel]:
    """Return ``model`` with unknown keys forbidden and its instances frozen."""
    config = model.model_config
    if issubclass(model, RootModel) or (config.get("extra") == "forbid" and config.get("frozen")):
        return model
    wanted = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    body = {
        "__module__": model.__module__,
        "__qualname__": model.__qualname__,
        "__doc__": model.__doc__,
        "model_config": wanted,
    }
    stricter: type[BaseModel] = types.new_class(
        model.__name__, (model,), exec_body=lambda namespace: namespace.update(body)
    )
    return stricter


def _assemble(
    part: Part, configuration: Configuration, composed: type[BaseSettings]
) -> tuple[Table, list[Problem]]:
    """Bring together what every source says about a part, the general before the specific."""
    tree: Node = _given(part)
    problems: list[Problem] = []
    for path in (part.base, part.path):
        if path is None:
            continue
        tree = merge([tree, _own_keys(part, at(configuration.base, path))])
        for variable in configuration.variables:
            if variable.table == path and part.reads(variable.keys[0]):
                read = _read(variable, part, composed)
                if isinstance(read, Problem):
                    problems.append(read)
                else:
                    tree = merge([tree, _from_variable(variable, read, tree)])
        tree = merge([tree, _own_keys(part, at(configuration.overrides, path))])
    resolved, unresolved = resolve(
        tree, part.base or part.path, configuration.environ, configuration.stand_in
    )
    table = resolved if isinstance(resolved, Table) else EMPTY
    return _placed(part, table, configuration), [*problems, *unresolved]


def _given(part: Part) -> Table:
    """Turn an instance from code into the weakest source of its part."""
    if part.given is None:
        return EMPTY
    origin = Origin("code")
    given = part.given
    values = {
        key_of(name, info): getattr(given, name)
        for name, info in type(given).model_fields.items()
        if name in given.model_fields_set
    }
    return annotate_table(values, lambda _: origin, Path())


def _own_keys(part: Part, node: Node | None) -> Table:
    if not isinstance(node, Table):
        return EMPTY
    return Table({k: v for k, v in node.entries.items() if part.reads(k)}, node.origin)


def _placed(part: Part, table: Table, configuration: Configuration) -> Table:
    """Give a table its header's place, which is where a missing key is reported."""
    for path in (part.base, part.path):
        header = None if path is None else configuration.node(path)
        if header is not None:
            return Table(table.entries, header.origin)
    return table


class _OneVariable(EnvSettingsSource):
    """The environment source of pydantic-settings, over one variable instead of all."""

    def __init__(self, composed: type[BaseSettings], name: str, text: str) -> None:
        self._only = {name.lower(): text}
        super().__init__(composed)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._only

    def next_field(
        self,
        field: FieldInfo | Any | None,
        key: str,
        case_sensitive: bool | None = None,  # noqa: FBT001 - it overrides
    ) -> FieldInfo | None:
        """Follow any mapping to the type of its values, as the source itself follows a dict."""
        annotation = field.annotation if isinstance(field, FieldInfo) else field
        origin = get_origin(annotation)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return FieldInfo.from_annotation(get_args(annotation)[-1])
        return super().next_field(field, key, case_sensitive)


def _read(
    variable: Variable, part: Part, composed: type[BaseSettings]
) -> Mapping[str, Any] | Problem:
    """Read a variable's text against the type of the setting that it names."""
    name = DELIMITER.join([variable_name(part.path), *variable.keys])
    try:
        found = _OneVariable(composed, name, variable.text)()
    except SettingsError as error:
        cause = error.__cause__
        reason = (
            f"{cause.msg} (column {cause.pos + 1})"
            if isinstance(cause, json.JSONDecodeError)
            else "it cannot be read"
        )
        return Problem(
            "invalid-variable",
            f"{variable.name} is not valid JSON: {reason}.",
            (variable.name,),
            """Write a list as '["a", "b"]' and a table as '{"key": "value"}', """
            "or set one key of the table.",
        )
    read = found.get(_field_name(part), {})
    return read if isinstance(read, Mapping) else {}


def _from_variable(variable: Variable, read: Mapping[str, Any], tree: Node) -> Table:
    origin = Origin(variable.name)
    return annotate_table(_spelled(read, tree), lambda _: origin, Path())


def _spelled(read: Mapping[str, Any], node: Node) -> dict[str, Any]:
    """Spell keys as the files do: a variable can say neither ``-`` nor a capital letter."""
    known = (
        {key.lower().replace("-", "_"): key for key in node.entries}
        if isinstance(node, Table)
        else {}
    )
    spelled: dict[str, Any] = {}
    for key, value in read.items():
        name = known.get(key, key)
        below = at(node, (name,))
        spelled[name] = (
            _spelled(value, below) if isinstance(value, Mapping) and below is not None else value
        )
    return spelled


def _validate(
    part: Part, tree: Table, secrets: frozenset[str], config: Table
) -> BaseModel | list[Problem]:
    if part.given is not None and not any(_is_said(node) for node in tree.entries.values()):
        return part.given
    model = strict(part.model)
    try:
        validated = model.model_validate(plain(tree))
    except ValidationError as error:
        return list(diagnose(part, tree, error, secrets, config))
    except Exception as error:  # noqa: BLE001 - a plugin's validator may raise anything
        return [crashed(part, tree, error, secrets)]
    return validated if is_resolved(tree) else []


def _is_said(node: Node) -> bool:
    """Say whether anybody but the instance from code set this value."""
    return node.origin.source != "code"
