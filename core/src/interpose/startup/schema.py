"""The JSON Schema of the configuration, for editors.

It describes one *file*, not the whole configuration: a required setting may come from another file
or a variable, so no key is required, and any value may be a reference. A layer whose plugin is not
active is described by the host's keys alone.
"""

from __future__ import annotations

import re
import types
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema
from pydantic_core import core_schema

from interpose.startup.composition import strict
from interpose.startup.environment import NAMED_TABLES
from interpose.startup.hostchecks import ID
from interpose.startup.hostmodel import (
    CapabilityTable,
    HostTable,
    LayerTable,
    PluginsTable,
    ServerTable,
    UseTable,
)
from interpose.startup.part import Part
from interpose.startup.tree import APPEND

Schema = dict[str, Any]

_REFS = "#/$defs/"
_PLAIN: Mapping[str, type[BaseModel]] = {
    "capabilities": CapabilityTable,
    "plugins": PluginsTable,
    "host": HostTable,
    "server": ServerTable,
}
_REFERENCE: Schema = {
    "title": "A value that stands elsewhere, and is a secret",
    "type": "object",
    "oneOf": [
        {
            "properties": {"$env": {"type": "string", "description": "Name of a variable"}},
            "required": ["$env"],
            "additionalProperties": False,
        },
        {
            "properties": {"$file": {"type": "string", "description": "Path of a file"}},
            "required": ["$file"],
            "additionalProperties": False,
        },
    ],
}
_SWITCH: Schema = {
    "enabled": {"type": "boolean", "description": "Whether the layer takes part for this agent."}
}
_ABOUT = ("title", "description", "default", "deprecated", "examples")


class _Generator(GenerateJsonSchema):
    """Leaves open what JSON cannot describe, instead of failing for the whole file."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's name and form

    def handle_invalid_for_json_schema(
        self,
        schema: core_schema.CoreSchema,  # noqa: ARG002 - pydantic's signature
        error_info: str,  # noqa: ARG002 - pydantic's signature
    ) -> Schema:
        """Accept anything where a type has no JSON form."""
        return {}


def config_schema(parts: Sequence[Part]) -> Schema:
    """Return the JSON Schema (draft 2020-12) of a config file in which ``parts`` are active."""
    models = _models(parts)
    mode: JsonSchemaMode = "validation"
    every: dict[type[BaseModel], None] = dict.fromkeys(
        [*_PLAIN.values(), LayerTable, UseTable, *models.values()]
    )
    refs, generated = models_json_schema([(m, mode) for m in every], schema_generator=_Generator)
    definitions = _opened(generated["$defs"])

    def name_of(model: type[BaseModel]) -> str:
        return str(refs[model, mode]["$ref"]).removeprefix(_REFS)

    overrides: dict[str, Schema] = {}
    sections: dict[str, dict[str, Schema]] = {section: {} for section in NAMED_TABLES}
    for (section, key), model in models.items():
        name = name_of(model)
        sections[section][key] = _ref(name)
        if section == "middleware":
            overrides[key] = _ref(f"{name}Override")
            definitions.setdefault(f"{name}Override", _with(definitions[name], _SWITCH))
    for section, key in models:
        host = LayerTable if section == "middleware" else UseTable
        own = sections[section][key]["$ref"].removeprefix(_REFS)
        definitions[own] = _with(definitions[own], definitions[name_of(host)]["properties"])
    # What is not active has only the host's keys to describe; the rest is its plugin's.
    for host in (LayerTable, UseTable):
        definitions[name_of(host)] |= {"additionalProperties": True}
    per_agent = _section(overrides, {"type": "object"})
    for ref in sections["agents"].values():
        definitions[ref["$ref"].removeprefix(_REFS)]["properties"]["middleware"] = per_agent
    definitions["Agent"] = _with(definitions[name_of(UseTable)], {"middleware": per_agent})
    others = {"middleware": _ref(name_of(LayerTable)), "agents": _ref("Agent")}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "interpose.toml",
        "type": "object",
        "properties": {
            "agent": sections["agents"].get("default", _ref("Agent")),
            **{
                section: _section(tables, others.get(section, _ref(name_of(UseTable))))
                for section, tables in sections.items()
            },
            **{key: _ref(name_of(model)) for key, model in _PLAIN.items()},
        },
        "additionalProperties": False,
        "$defs": definitions,
    }


def _models(parts: Iterable[Part]) -> dict[tuple[str, str], type[BaseModel]]:
    """Return the settings class of each table, named after its title, by section and id.

    Tables of one middleware share one class, so that the schema describes it once.
    """
    named: dict[tuple[str, str, type[BaseModel]], type[BaseModel]] = {}
    models: dict[tuple[str, str], type[BaseModel]] = {}
    for part in parts:
        section, key = (str(step) for step in (part.base or part.path)[-2:])
        title = part.title or key
        model = named.setdefault((section, title, part.model), _titled(part.model, title))
        models[section, key] = model
    return models


def _titled(model: type[BaseModel], title: str) -> type[BaseModel]:
    """Return ``model`` under the name that ``title`` makes: ``guard.budget`` is GuardBudget."""
    words = re.split(r"[^A-Za-z0-9]+", title.rpartition(":")[2].partition("@")[0])
    name = "".join(word[:1].upper() + word[1:] for word in words) or model.__name__
    body = {"__module__": model.__module__, "__qualname__": name, "__doc__": model.__doc__}
    titled: type[BaseModel] = types.new_class(
        name, (strict(model),), exec_body=lambda namespace: namespace.update(body)
    )
    return titled


def _ref(name: str) -> Schema:
    return {"$ref": _REFS + name}


def _section(tables: Mapping[str, Schema], others: Schema) -> Schema:
    return {
        "type": "object",
        "properties": dict(tables),
        "propertyNames": {"pattern": f"^{ID.pattern}$"},
        "additionalProperties": others,
    }


def _with(definition: Schema, properties: Mapping[str, Schema]) -> Schema:
    return {**definition, "properties": {**properties, **definition.get("properties", {})}}


def _opened(definitions: Mapping[str, Schema]) -> dict[str, Schema]:
    """Let each value be a reference, and each list an ``$append``; require nothing."""
    tables = {_REFS + name for name, each in definitions.items() if "properties" in each}
    opened = {name: _inside(each, tables) for name, each in definitions.items()}
    return {**opened, "Reference": _REFERENCE}


def _inside(schema: Schema, tables: Container[str]) -> Schema:
    """Open what stands inside a schema, and leave the schema itself as it is."""
    opened = {key: value for key, value in schema.items() if key != "required"}
    for key in ("items", "additionalProperties"):
        if isinstance(opened.get(key), dict):
            opened[key] = _value(opened[key], tables)
    for key in ("anyOf", "oneOf", "prefixItems"):
        if key in opened:
            opened[key] = [_inside(each, tables) for each in opened[key]]
    if "properties" in opened:
        opened["properties"] = {
            name: _value(each, tables) for name, each in opened["properties"].items()
        }
    return opened


def _value(schema: Schema, tables: Container[str]) -> Schema:
    about = {key: schema[key] for key in _ABOUT if key in schema}
    rest = _inside({k: v for k, v in schema.items() if k not in _ABOUT}, tables)
    if not rest or rest.get("$ref") in tables:
        return {**about, **rest}
    forms = [rest, _ref("Reference")]
    forms += [
        _append(each) for each in (rest, *rest.get("anyOf", ())) if each.get("type") == "array"
    ]
    return {**about, "anyOf": forms}


def _append(array: Schema) -> Schema:
    return {
        "title": "Items to add to the list of a weaker source",
        "type": "object",
        "properties": {APPEND: {"type": "array", "items": array.get("items", {})}},
        "required": [APPEND],
        "additionalProperties": False,
    }
