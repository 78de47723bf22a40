"""Made-up values that fit a JSON Schema, the same every time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ada@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_DEEPEST: Final = 8


def sample(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """Return a small value for a schema: its default, its first choice, or the least that fits."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return {} if depth == 0 else None
    root = schema if root is None else root
    if "$ref" in schema:
        return sample(_referred(schema["$ref"], root), root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return sample(schema[key][0], root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema or depth == 0 else "string")
    if isinstance(kind, list):
        kind = kind[0]
    return _of_kind(kind, schema, root, depth)


def _of_kind(kind: Any, schema: Mapping[str, Any], root: Any, depth: int) -> Any:
    if kind == "object":
        needed = schema.get("required") or ()
        properties = schema.get("properties") or {}
        return {name: sample(properties.get(name, {}), root, depth + 1) for name in needed}
    if kind == "array":
        items = [sample(schema.get("items", {}), root, depth + 1)]
        return items * int(schema.get("minItems", 1))
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        return least + 1 if "exclusiveMinimum" in schema else max(least, min(1, _most(schema)))
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    text = _FORMATS.get(str(schema.get("format")), "example")
    return text.ljust(int(schema.get("minLength", 0)), "x")[: schema.get("maxLength")]


def _most(schema: Mapping[str, Any]) -> Any:
    return schema.get("maximum", schema.get("exclusiveMaximum", 1))


def _referred(reference: Any, root: Any) -> Any:
    found = root
    for part in str(reference).removeprefix("#/").split("/"):
        found = found.get(part, {}) if isinstance(found, Mapping) else {}
    return found
