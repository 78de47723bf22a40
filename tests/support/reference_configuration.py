"""The reference page of the configuration: each key of each table, and its variable."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from markdown_text import code, table
from markdown_text import page as make_page
from pydantic import BaseModel
from repository import distributions
from source_code import first

from interpose.startup import hostmodel
from interpose.startup.built_in import built_in_parts
from interpose.startup.environment import DELIMITER, PREFIX, variable_segment
from interpose.startup.inspection import settings_class

Schema = Mapping[str, Any]
_STRINGS = {"password": "secret string", "path": "path"}


class Section(NamedTuple):
    """One table: its heading, what it is, the model of its keys, the variable of the table."""

    title: str
    about: str
    model: type[BaseModel]
    variable: str
    skip: frozenset[str] = frozenset()


HOST = (
    Section(
        "[agent], [agents.<id>]",
        "An agent. `[agent]` is short for `[agents.default]`. All other keys are the agent's own; "
        "[below](#agent-use-loop) are those of the built-in ones.",
        hostmodel.UseTable,
        "AGENTS__<ID>",
    ),
    Section(
        "[middleware.<id>]",
        "A layer: `<id>` names it in the plan, in `before` and `after`, and in variables. "
        "All other keys are the middleware's own.",
        hostmodel.LayerTable,
        "MIDDLEWARE__<ID>",
        frozenset({"layer"}),
    ),
    Section(
        "[middleware.<id>.layer]",
        "What the operator says about a layer, whatever the middleware is.",
        hostmodel.LayerOptions,
        "MIDDLEWARE__<ID>__LAYER",
    ),
    Section(
        "[agents.<agent>.middleware.<id>]",
        "Another setting of a layer for one agent, laid over `[middleware.<id>]`. It may have the "
        "middleware's own keys, and this one; `use` and `layer` are the same for all agents.",
        hostmodel.OverrideTable,
        "AGENTS__<AGENT>__MIDDLEWARE__<ID>",
        frozenset({"use", "layer"}),
    ),
    Section(
        "[providers.<id>]",
        "A provider of capabilities. All other keys are its own.",
        hostmodel.UseTable,
        "PROVIDERS__<ID>",
    ),
    Section(
        "[models.<id>]",
        "A model, for the built-in loop and for `ctx.model(id)`. All other keys are its own.",
        hostmodel.UseTable,
        "MODELS__<ID>",
    ),
    Section(
        "[plugins]",
        "What is active without a layer of its own.",
        hostmodel.PluginsTable,
        "PLUGINS",
    ),
    Section("[host]", "How the host itself behaves.", hostmodel.HostTable, "HOST"),
    Section("[server]", "How `interpose serve` listens.", hostmodel.ServerTable, "SERVER"),
)
_SECTIONS = {"agent": "AGENTS__<ID>", "model": "MODELS__<ID>", "middleware": "MIDDLEWARE__<ID>"}
_HEADINGS = {
    "agent": '[agent] use = "{}"',
    "model": '[models.<id>] use = "{}"',
    "middleware": '[middleware.<id>] use = "{}"',
}
_HOOKS = {"middleware": "interpose_middlewares", "model": "interpose_models"}


def page() -> str:
    """Return the page."""
    return make_page(
        "Configuration",
        "Every key of `interpose.toml`, which may also stand in `[tool.interpose]` of "
        "`pyproject.toml`. `interpose schema` prints the same as a JSON Schema, for editors, "
        "with the settings of the plugins that are active.",
        'Any value may be `{ "$env" = "NAME" }` or `{ "$file" = "PATH" }`, and is then a '
        'secret. In an overlay a list may be `{ "$append" = [...] }`. [Secrets]'
        "(../operators/secrets.md) and [overlays](../operators/overlays.md) tell more.",
        "The variable of a key has `<ID>` in capital letters, with `_` for `-`. Lists and tables "
        "are written as JSON in it. A variable sets a value in a table that a file or code names; "
        "it never adds one. `INTERPOSE__AGENT__…` is short for `INTERPOSE__AGENTS__DEFAULT__…`. "
        "Only `INTERPOSE_CONFIG`, which names the files, is no setting.",
        "## Tables of the host",
        *(part for section in HOST for part in _section(section)),
        *_capabilities(),
        "## Settings of what comes with Interpose",
        *(part for section in _of_parts() for part in _section(section)),
    )


def _capabilities() -> Iterator[str]:
    yield "### `[capabilities]`"
    yield (
        'Which part provides a capability, where several could: `"name" = "id"`, with the id of '
        'a provider or a layer, or `"application"`. The variable of `kv` is '
        f"`{PREFIX}CAPABILITIES{DELIMITER}KV`."
    )


def _of_parts() -> Iterator[Section]:
    """Yield the settings of the built-in parts, and of the plugins of this repository."""
    for part in built_in_parts():
        known = part.target
        model = getattr(known, "settings_class", None) or settings_class(known)
        yield _of_part(part.kind, part.name, model)
    for distribution in distributions():
        readme = f"../../plugins/{distribution.name}/README.md"
        home = f"From [{distribution.name}]({readme})."
        for name, value in distribution.plugins.items():
            module, _, attribute = value.partition(":")
            found = importlib.import_module(module)
            if attribute:
                model = settings_class(getattr(found, attribute))
                yield _of_part("middleware", name, model, home)
                continue
            for kind, hook in _HOOKS.items():
                for key, part in getattr(found, hook, dict)().items():
                    use = name if key == name else f"{name}.{key}"
                    yield _of_part(kind, use, settings_class(part), home)


def _of_part(kind: str, name: str, model: type[BaseModel], home: str = "") -> Section:
    about = first(model.__doc__ or "").replace(" README.md explains each key.", "")
    return Section(_HEADINGS[kind].format(name), f"{about} {home}", model, _SECTIONS[kind])


def _section(section: Section) -> Iterator[str]:
    yield f"### `{section.title}`"
    yield section.about
    schema = section.model.model_json_schema()
    rows = [
        (code(key), *cells, code(f"{PREFIX}{section.variable}{DELIMITER}{_variable(key)}"))
        for key, *cells in _rows(schema, schema.get("$defs", {}))
        if key.partition(".")[0] not in section.skip
    ]
    yield table(["key", "type", "default", "meaning", "variable"], rows)


def _variable(key: str) -> str:
    return DELIMITER.join(variable_segment(step) for step in key.split("."))


def _rows(schema: Schema, definitions: Schema, prefix: str = "") -> Iterator[tuple[str, ...]]:
    """Yield key, type, default and meaning; those of a table within follow it."""
    for name, field in schema["properties"].items():
        key = f"{prefix}{name}"
        yield key, _type(field, definitions), _default(name, field, schema), _meaning(field)
        inner = _resolved(field, definitions)
        if "properties" in inner:
            yield from _rows(inner, definitions, f"{key}.")
        values = inner.get("additionalProperties")
        if isinstance(values, dict) and "$ref" in values:
            yield from _rows(_resolved(values, definitions), definitions, f"{key}.<id>.")


def _resolved(field: Schema, definitions: Schema) -> Schema:
    name = str(field.get("$ref", "")).rpartition("/")[2]
    return {**definitions[name], **field} if name else field


def _meaning(field: Schema) -> str:
    return first(str(field.get("description", "")))


def _default(name: str, field: Schema, schema: Schema) -> str:
    if name in schema.get("required", ()):
        return "required"
    default = field.get("default")
    if isinstance(default, dict) and default:
        return ""  # those of the keys in it follow
    if isinstance(default, list):
        default = sorted(default)
    return "" if default is None else code(json.dumps(default))


def _type(field: Schema, definitions: Schema) -> str:
    """Say in words what a value may be."""
    field = _resolved(field, definitions)
    if "anyOf" in field:
        kinds = [_type(each, definitions) for each in field["anyOf"] if each.get("type") != "null"]
        return _either(kinds)
    if "const" in field or "enum" in field:
        allowed = field.get("enum", [field.get("const")])
        return _either([code(json.dumps(each)) for each in allowed])
    kind = str(field.get("type", "anything"))
    if kind == "array":
        return f"list of {_plural(_type(field.get('items', {}), definitions))}"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"table of {_plural(_type(field['additionalProperties'], definitions))}"
    if kind == "string":
        return _STRINGS.get(field.get("format", ""), kind)
    return " ".join(["table" if kind == "object" else kind, *_bounds(field)])


def _either(kinds: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))


def _bounds(field: Schema) -> Iterator[str]:
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    said = [f"{sign} {_number(field[key])}" for key, sign in signs.items() if key in field]
    yield from filter(None, [" and ".join(said)])


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _plural(kind: str) -> str:
    return f"{kind}s" if kind in ("string", "secret string", "table", "integer") else kind
