"""Structured output: what the caller asked for, and its value as it left the outermost layer."""

from __future__ import annotations

import json
from typing import Any

from ag_ui.core import BaseEvent, CustomEvent
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from interpose.errors import UsageError
from interpose.loop.structured import OUTPUT_COMPLETE
from interpose.loop_errors import OutputError
from interpose.services import Wanted


def wanted(output: Any) -> Wanted:
    """Return what ``output=`` of ``host.run`` asks for. Raises :class:`UsageError`."""
    name = getattr(output, "__name__", None) or str(output)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(output)
        schema = adapter.json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, TypeError) as error:
        raise UsageError(
            f"output={name} is nothing that pydantic can validate: {error}",
            hint="give a pydantic model, a dataclass or a TypedDict",
        ) from None
    definition = schema
    if "$ref" in schema:
        definition = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    if definition.get("type") != "object":
        raise UsageError(
            f"output={name} is no object, and models answer with JSON objects",
            hint="put it into a field of a pydantic model, and ask for that",
        )

    def plain(value: Any, written: Any) -> Any:
        # Computed fields, masked secrets and other names cannot be read back.
        try:
            dumped = adapter.dump_python(value, mode="json", by_alias=True)
            same = adapter.validate_json(json.dumps(dumped)) == value
        except (ValueError, TypeError):
            return written
        return dumped if same else written

    return Wanted(name, schema, adapter.validate_json, plain)


def completed(wanted: Wanted, event: BaseEvent) -> tuple[Any] | None:
    """Return the output that an event announces, in a tuple; None: it announces none.

    Raises :class:`OutputError` when a layer has made something of it that is no longer valid.
    """
    if not isinstance(event, CustomEvent) or event.name != OUTPUT_COMPLETE:
        return None
    value = event.value.get("object") if isinstance(event.value, dict) else None
    try:
        return (wanted.read(json.dumps(value)),)
    except (ValidationError, TypeError, ValueError):
        raise OutputError(
            "structured-output-validation-failed",
            f"What left of the structured output is no valid {wanted.name}.",
        ) from None
