"""The arguments of a tool: their schema, their validation, and how a function gets them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, PydanticJsonSchemaWarning
from pydantic_core import from_json, to_json

from interpose.errors import UsageError
from interpose.loop.signature import EMPTY, Function, Parameter
from interpose.loop.tool_context import ToolContext
from interpose.loop.tool_schema import JsonSchema, default_faults
from interpose.loop.tool_texts import explain

_CONFIG = ConfigDict(extra="forbid", protected_namespaces=())


class Arguments(Protocol):
    """How a tool takes its arguments. ``schema``: JSON Schema of an object.

    ``validate`` returns JSON values, with defaults, and raises :class:`ValueError` with a text for
    the model. ``values`` makes of them what the function is called with.
    """

    schema: dict[str, Any]

    def validate(self, args: Mapping[str, Any], /) -> dict[str, Any]: ...  # noqa: D102
    def values(self, args: Mapping[str, Any], ctx: ToolContext, /) -> dict[str, Any]: ...  # noqa: D102


class _Untitled(GenerateJsonSchema):
    """Without a title for each field, which only repeats its name and costs tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


class SignatureArguments:
    """Arguments by the annotations of a function's parameters."""

    def __init__(self, function: Function) -> None:
        if function.takes_any:
            raise UsageError(
                f"the tool {function.name!r} takes **kwargs, of which a model knows nothing",
                where=function.where,
                hint="name its parameters, or give a JSON Schema as parameters=",
            )
        fields: dict[str, Any] = {}
        self._parameters: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        for index, each in enumerate(function.parameters):
            name = f"a{index}"  # a parameter may be called what no field of a model may be called
            fields[name] = _field(function, each)
            self._keys[name] = _check(function, each, fields[name])
            self._parameters[name] = each.name
        self._contexts = function.contexts
        self._model = create_model("Arguments", __config__=_CONFIG, **fields)
        self.schema: dict[str, Any] = _schema(self._model)

    def validate(self, args: Mapping[str, Any], /) -> dict[str, Any]:
        """Return the arguments as JSON values, in their normal form where there is one."""
        given, found = _validated(self._model, args, self._keys.values())
        dumped, again = _again(found)
        plain: dict[str, Any] = {}
        for field, key in self._keys.items():
            if again is not None and _equal(getattr(again, field), getattr(found, field)):
                plain[key] = dumped[key]
            elif key in given:  # as a secret, which is written as stars
                plain[key] = given[key]
        return plain

    def values(self, args: Mapping[str, Any], ctx: ToolContext, /) -> dict[str, Any]:
        """Return the values by the names of the parameters."""
        _, found = _validated(self._model, args, self._keys.values())
        values = {name: getattr(found, field) for field, name in self._parameters.items()}
        return {**values, **dict.fromkeys(self._contexts, ctx)}


class ModelArguments:
    """Arguments as one pydantic model, which the function gets whole."""

    def __init__(self, model: type[BaseModel], function: Function | None) -> None:
        where = f"{model.__module__}.{model.__qualname__}"
        try:
            self.schema: dict[str, Any] = _schema(model)
        except (PydanticUserError, NameError, PydanticJsonSchemaWarning) as error:
            raise UsageError(
                f"{model.__name__} has no JSON Schema: {error}", where=where
            ) from error
        self._parameter = ""
        if function is not None:
            if len(function.parameters) != 1 or function.takes_any:
                raise UsageError(
                    f"the tool {function.name!r} is to get one {model.__name__}, but takes "
                    f"{len(function.parameters)} parameters",
                    where=function.where,
                    hint=f"write def {function.name}(arguments: {model.__name__})",
                )
            self._parameter = function.parameters[0].name
        self._contexts = () if function is None else function.contexts
        self._model = model

    def validate(self, args: Mapping[str, Any], /) -> dict[str, Any]:
        """Return the arguments as JSON values, in their normal form if there is one."""
        given, found = _validated(self._model, args, self.schema.get("properties", {}))
        dumped, again = _again(found)
        return dumped if again is not None and _equal(again, found) else given

    def values(self, args: Mapping[str, Any], ctx: ToolContext, /) -> dict[str, Any]:
        """Return the one value, and the context if it is asked for."""
        _, found = _validated(self._model, args, self.schema.get("properties", {}))
        return {self._parameter: found, **dict.fromkeys(self._contexts, ctx)}


class SchemaArguments:
    """Arguments by a JSON Schema; the function gets the JSON values by name.

    ``lazy``: the schema is a stranger's, as that of a client's tool. It is looked at when a call
    has to be validated; if it is no schema, calls fail and nothing else does.
    """

    def __init__(
        self, schema: Mapping[str, Any], function: Function | None, what: str, *, lazy: bool = False
    ) -> None:
        self.schema: dict[str, Any] = _object(schema, what)
        self._what = what
        self._contexts = () if function is None else function.contexts
        self._allowed = None if function is None else _check_names(self.schema, function)
        self._checker: JsonSchema | None = None
        if not lazy:
            self._checker = JsonSchema(self.schema, what)
            for name, fault in default_faults(self.schema, what):
                raise UsageError(f"the default of {name!r} in {what} does not fit: {fault}")

    def validate(self, args: Mapping[str, Any], /) -> dict[str, Any]:
        """Return the arguments with the defaults of the schema."""
        if self._checker is None:
            try:
                self._checker = JsonSchema(self.schema, self._what)
            except UsageError as error:
                raise ValueError(error.message) from error
        found = self._checker.filled(_plain(args))
        fault = self._checker.faults(found)
        if fault is None and self._allowed is not None:
            unknown = [name for name in found if name not in self._allowed]
            if unknown:
                known = ", ".join(sorted(self._allowed)) or "none"
                fault = f"{unknown[0]}: there is no such argument; there are: {known}"
        if fault is not None:
            raise ValueError(fault)
        return dict(found)

    def values(self, args: Mapping[str, Any], ctx: ToolContext, /) -> dict[str, Any]:
        """Return the arguments by name; they are JSON values already."""
        return {**deepcopy(dict(args)), **dict.fromkeys(self._contexts, ctx)}


def _field(function: Function, parameter: Parameter) -> tuple[Any, Any]:
    """Return the field of a model that is like a parameter, under the parameter's own name."""
    default = ... if parameter.default is EMPTY else parameter.default
    known = FieldInfo.from_annotation(parameter.annotation)
    if isinstance(default, FieldInfo):
        known = FieldInfo.from_annotated_attribute(parameter.annotation, default)
    extra: dict[str, Any] = {}
    if known.alias is None and known.validation_alias is None:
        extra["alias"] = parameter.name
    if known.description is None and parameter.name in function.docs.parameters:
        extra["description"] = function.docs.parameters[parameter.name]
    return (
        Annotated[parameter.annotation, Field(**extra)] if extra else parameter.annotation
    ), default


def _check(function: Function, parameter: Parameter, field: tuple[Any, Any]) -> str:
    """Check a parameter by itself, and return the name under which a model gives it."""
    what = f"the parameter {parameter.name!r} of the tool {function.name!r}"
    try:
        alone = create_model("Arguments", __config__=_CONFIG, a=field)
        with warnings.catch_warnings():
            # A default that is no JSON has a better error below.
            warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
            schema = _schema(alone)
    except (PydanticUserError, NameError, TypeError) as error:
        raise UsageError(
            f"{what} has a type that is no JSON: {str(error).splitlines()[0]}",
            where=function.where,
            hint="annotate it with types that pydantic can write as JSON Schema",
        ) from error
    info = alone.model_fields["a"]
    if not isinstance(info.validation_alias, str) or info.validation_alias != info.alias:
        raise UsageError(f"{what} has an alias that is more than one name", where=function.where)
    [key] = schema["properties"]
    if not info.is_required():
        try:
            found = alone.model_validate_json("{}")
            dumped = found.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)
            fits = _equal(alone.model_validate_json(to_json(dumped)), found)
        except Exception as error:
            raise _default_error(what, function) from error
        if not fits:
            raise _default_error(what, function)
    return str(key)


def _default_error(what: str, function: Function) -> UsageError:
    return UsageError(
        f"the default of {what} is no value that a model could give",
        where=function.where,
        hint="its default has to fit its annotation, and to be written as JSON without loss; "
        "`X | None` allows None",
    )


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    if "$ref" in schema:  # it contains itself; providers want the object at the top
        name = str(schema.pop("$ref")).rpartition("/")[2]
        schema = {**schema["$defs"][name], **schema}
    schema.pop("title", None)
    if schema.get("type") != "object":
        raise UsageError(f"{model.__name__} is no object, which arguments of tools are")
    schema.setdefault("properties", {})
    return schema


def _object(schema: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return a copy of a schema that says that it is of an object."""
    given: object = schema
    if not isinstance(given, Mapping) or given.get("type", "object") != "object":
        raise UsageError(
            f"{what} has to be a JSON Schema of an object",
            hint='{"type": "object", "properties": {...}}',
        )
    return {"type": "object", "properties": {}, **deepcopy(dict(schema))}


def _check_names(schema: Mapping[str, Any], function: Function) -> frozenset[str] | None:
    """Check that a function takes what a schema names; return what it takes, None for anything."""
    known = frozenset(each.name for each in function.parameters)
    offered = frozenset(schema["properties"])
    needed = {each.name for each in function.parameters if each.default is EMPTY}
    problems = [f"does not take {name!r}" for name in sorted(offered - known)]
    if function.takes_any:
        problems = []
    problems += [f"needs {name!r}" for name in sorted(needed - offered)]
    if problems:
        raise UsageError(
            f"the tool {function.name!r} and its JSON Schema do not agree: the function "
            f"{' and '.join(problems)}",
            where=function.where,
        )
    return None if function.takes_any else known


def _plain(args: Mapping[str, Any]) -> dict[str, Any]:
    try:
        plain = from_json(to_json(dict(args), inf_nan_mode="constants"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"the arguments are no JSON values: {error}") from None
    return dict(plain)


def _validated(
    model: type[BaseModel], args: Mapping[str, Any], known: Iterable[str]
) -> tuple[dict[str, Any], BaseModel]:
    """Return the arguments as JSON values and as an instance. Raises ValueError for the model."""
    given = _plain(args)
    try:
        # As JSON: there a text may be a date in strict models too.
        return given, model.model_validate_json(to_json(given, inf_nan_mode="constants"))
    except ValidationError as error:
        raise ValueError(explain(error, known)) from None
    except Exception as error:
        raise ValueError(f"their validation failed ({type(error).__name__})") from error


def _again(found: BaseModel) -> tuple[dict[str, Any], BaseModel | None]:
    """Return an instance as JSON values, and what those are as an instance; None if they fail."""
    try:
        dumped = found.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)
        return dumped, type(found).model_validate_json(to_json(dumped))
    except Exception:  # noqa: BLE001 - it has no normal form; what was given stands
        return {}, None


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - a foreign __eq__, as that of arrays
        return False
