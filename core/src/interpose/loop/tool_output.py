"""What a tool's result has to be: a type or a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import from_json, to_json

from interpose.errors import UsageError
from interpose.loop.tool_schema import JsonSchema
from interpose.loop.tool_texts import explain


class Output:
    """The declared output of one tool. :class:`UsageError` for what is no type and no schema."""

    __slots__ = ("_adapter", "_schema")

    def __init__(self, declared: Any, tool: str) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        self._schema: JsonSchema | None = None
        if isinstance(declared, Mapping):
            self._schema = JsonSchema(declared, f"the output of the tool {tool!r}")
            return
        try:
            self._adapter = TypeAdapter(declared)
        except (PydanticUserError, NameError, TypeError) as error:
            raise UsageError(
                f"the output of the tool {tool!r} is nothing that can be validated: "
                f"{str(error).splitlines()[0]}",
                hint="give a type that pydantic knows, or a JSON Schema",
            ) from error

    def checked(self, value: Any) -> Any:
        """Return what the result is; :class:`ValueError` says what does not fit.

        A text that does not fit itself is read as JSON.
        """
        try:
            return self._checked(value)
        except ValueError:
            if not isinstance(value, str):
                raise
        try:
            read = from_json(value, allow_inf_nan=False)
        except ValueError:
            raise ValueError("it is a text that is no JSON") from None
        return self._checked(read)

    def _checked(self, value: Any) -> Any:
        if self._schema is not None:
            plain = value if isinstance(value, str) else from_json(to_json(value))
            fault = self._schema.faults(plain)
            if fault is not None:
                raise ValueError(fault)
            return plain
        if self._adapter is None:  # pragma: no cover - one of the two is there
            return value
        try:
            found = self._adapter.validate_python(value)
        except ValidationError as error:
            raise ValueError(explain(error)) from None
        return self._adapter.dump_python(found, mode="json", by_alias=True)
