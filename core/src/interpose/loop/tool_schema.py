"""Checking values against a JSON Schema (Draft 2020-12, or the one that it names)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from interpose.errors import UsageError
from interpose.loop.tool_texts import listed, path_of, shortened

_DATA: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are no schemas."""


class JsonSchema:
    """One schema, ready to check values. ``what`` names it in errors.

    Raises :class:`UsageError` for what is no JSON Schema, or refers to another document: nothing
    is ever fetched.
    """

    __slots__ = ("_validator", "schema")

    def __init__(self, schema: Mapping[str, Any], what: str) -> None:
        try:
            from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
            from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]
            from jsonschema.validators import validator_for  # type: ignore[import-untyped]
            from referencing import Registry, Resource
            from referencing.jsonschema import DRAFT202012
        except ImportError as error:
            raise UsageError(
                f"{what} is a JSON Schema, and checking it needs jsonschema",
                hint="pip install 'interpose[loop]'",
            ) from error
        self.schema: dict[str, Any] = deepcopy(dict(schema))
        kind = validator_for(self.schema, default=Draft202012Validator)
        try:
            kind.check_schema(self.schema)
        except SchemaError as error:
            where = path_of(error.absolute_path)
            raise UsageError(
                f"{what} is no valid JSON Schema: {where}: {shortened(error.message, 200)}"
            ) from error
        self._validator = kind(self.schema, registry=Registry())
        root = Resource.from_contents(self.schema, default_specification=DRAFT202012)
        _check_references(self.schema, Registry().resolver_with_root(root), what)

    def faults(self, value: Any) -> str | None:
        """Return what does not fit, for a model to act on, or None. Never quotes the value."""
        try:
            errors = sorted(
                self._validator.iter_errors(value), key=lambda e: list(map(str, e.path))
            )
        except Exception as error:  # noqa: BLE001 - what the schema's author has to answer for
            return f"it cannot be checked ({type(error).__name__})"
        return listed(_fault(error) for error in errors) if errors else None

    def filled(self, value: Any) -> Any:
        """Return the value with the defaults of properties that it leaves out."""
        return _filled(self.schema, value)


def _check_references(schema: Any, resolver: Any, what: str) -> None:
    """Check that what a schema refers to is there, before a call needs it."""
    if isinstance(schema, list):
        for each in schema:
            _check_references(each, resolver, what)
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str):
        from referencing.exceptions import Unresolvable

        try:
            resolver.lookup(reference)
        except Unresolvable as error:
            raise UsageError(
                f"{what} refers to {shortened(reference, 100)!r}, which it does not contain",
                hint="put it under $defs; other documents are never fetched",
            ) from error
    for key, each in schema.items():
        embedded = isinstance(each, dict) and isinstance(each.get("$id"), str)
        if key not in _DATA and not embedded:  # one with an id is a document of its own
            _check_references(each, resolver, what)


def _filled(schema: Any, value: Any) -> Any:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not isinstance(value, dict):
        return value
    found = dict(value)
    for name, each in properties.items():
        if name in found:
            found[name] = _filled(each, found[name])
        elif isinstance(each, Mapping) and "default" in each:
            found[name] = deepcopy(each["default"])
    return found


def default_faults(schema: Mapping[str, Any], what: str) -> Iterator[tuple[str, str]]:
    """Yield the properties whose default does not fit their own schema, and why."""
    for name, each in schema.get("properties", {}).items():
        if isinstance(each, Mapping) and "default" in each:
            shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
            fault = JsonSchema({**shared, **each}, what).faults(each["default"])
            if fault is not None:
                yield name, fault


def _fault(error: Any) -> str:
    """Say what is expected at a place; never what was there."""
    place, keyword, expected = path_of(error.absolute_path), error.validator, error.validator_value
    if keyword == "required" and isinstance(error.instance, dict):
        missing = [name for name in expected if name not in error.instance]
        return "; ".join(f"{_join(place, name)}: is required" for name in missing)
    if keyword == "additionalProperties" and isinstance(error.instance, dict):
        known = list(error.schema.get("properties", {}))
        extra = [shortened(str(name), 40) for name in error.instance if name not in known]
        return f"{_join(place, ', '.join(extra[:3]))}: not known; known are {', '.join(known)}"
    if keyword in ("anyOf", "oneOf"):
        return f"{place}: fits none, or not exactly one, of the allowed forms"
    if keyword is None:
        return f"{place}: a value that is never allowed"  # its place is not always told
    return f"{place}: expected {keyword} {shortened(json.dumps(expected, default=str), 120)}"


def _join(place: str, name: str) -> str:
    return name if place == "(root)" else f"{place}.{name}"
