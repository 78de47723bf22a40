"""Checks of settings: described, valid by default, no different after a second reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import EnumType
from itertools import chain
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, PydanticInvalidForJsonSchema, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from interpose.startup.composition import strict
from interpose.startup.tree import KeyPath, shown
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.setting_forms import HasSettings, as_plain, as_table, fields

Schema = Mapping[str, Any]

_MUTABLE: Final = (list, dict, set, bytearray)


class _Generator(GenerateJsonSchema):
    """Says nothing of what does not matter here, and fails for what has no JSON form."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's name and form


async def documented(subject: HasSettings) -> Finding | None:
    """Make the JSON Schema of the settings; every key must say what it is for."""
    model = type(subject.settings)
    try:
        schema = model.model_json_schema(schema_generator=_Generator)
    except PydanticInvalidForJsonSchema as error:
        said = str(error).splitlines()[0]
        return Finding(
            f"the settings have no JSON Schema: {said}",
            "types that a file can hold: text, numbers, lists, tables, models, enumerations",
        )
    silent = [shown(path) for path in _silent(schema, schema.get("$defs", {}), ())]
    if not silent:
        return None
    return Finding(
        f"{_some(silent)} {'has' if len(silent) == 1 else 'have'} no description in the schema",
        'a string below each field, or Field(description="...")',
    )


def _silent(
    schema: Schema, defs: Schema, path: KeyPath, seen: frozenset[str] = frozenset()
) -> Iterator[KeyPath]:
    """Yield the path of each setting without a description."""
    for key, said in schema.get("properties", {}).items():
        targets = list(_targets(said))
        described = said.get("description") or any(
            defs.get(target, {}).get("description") for target in targets
        )
        if not described:
            yield (*path, key)
        for target in targets:
            if target not in seen:
                below = seen | {target}
                yield from _silent(defs.get(target, {}), defs, (*path, key), below)


def _targets(schema: Any) -> Iterator[str]:
    """Yield the names of the definitions that a schema refers to."""
    if isinstance(schema, Mapping):
        ref = schema.get("$ref")
        if isinstance(ref, str):
            yield ref.rpartition("/")[2]
        for key in ("items", "additionalProperties", "anyOf", "oneOf", "allOf", "prefixItems"):
            yield from _targets(schema.get(key))
    elif isinstance(schema, list):
        for each in schema:
            yield from _targets(each)


async def defaults(subject: HasSettings) -> Finding | None:
    """Check the defaults as if they were given, and read the settings a second time."""
    model = type(subject.settings)
    found = _bad_default(model, as_table(subject.settings))
    return found or _second_reading(subject.settings)


def _bad_default(model: type[BaseModel], table: Mapping[str, Any]) -> Finding | None:
    class Checked(model):  # type: ignore[valid-type, misc]
        model_config = ConfigDict(validate_default=True)

    try:
        checked = Checked.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        return Finding(
            f"the default of {shown(first['loc']) or 'a setting'} is not valid: {first['msg']}",
            "defaults that would be valid if an operator wrote them",
        )
    for key, info, value in fields(checked):
        default = _default(info)
        if key in table or default is None:
            continue
        turns = isinstance(default, _MUTABLE) and not isinstance(value, type(default))
        # A factory may make another value each time.
        if turns or (default != value and info.default_factory is None):
            return Finding(
                f"the default of {key} is {_kind(default)}, and what an operator writes becomes "
                f"{_kind(value)}",
                "a default of the setting's own type",
            )
    return None


def _default(info: FieldInfo) -> Any:
    if info.default_factory is not None:
        return None if info.default_factory_takes_validated_data else info.default_factory()  # type: ignore[call-arg]
    return None if info.is_required() else info.default


def _second_reading(settings: BaseModel) -> Finding | None:
    """Read the settings as a host does that adds an override to those given in code."""
    table = as_table(settings)
    try:
        again = strict(type(settings)).model_validate(table)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        return Finding(
            f"{shown(first['loc']) or 'the settings'}: what was valid once is not valid when it "
            f"is read again: {first['msg']}",
            "validators that accept their own results",
        )
    for (key, _, before), (_, _, after) in zip(fields(settings), fields(again), strict=True):
        if not same(before, after):
            return Finding(
                f"{key} is {_shown(before)}; read again, it is {_shown(after)}",
                "the same settings however often they are read",
            )
    return None


def same(one: Any, other: Any) -> bool:
    """Say whether two settings are the same; what cannot be compared is by its JSON form."""
    if one == other:
        return True
    compares = getattr(type(one), "__eq__", None) is not getattr(object, "__eq__", None)
    if compares and not isinstance(one, BaseModel):
        return False
    try:
        return bool(as_plain(one) == as_plain(other))
    except ValueError:
        return type(one) is type(other)


def variants(settings: BaseModel) -> Iterator[tuple[str, BaseModel]]:
    """Yield other valid settings, and what is different in them: switches, choices, omissions."""
    model = type(settings)
    table = as_table(settings)
    candidates: list[tuple[str, dict[str, Any]]] = [("the defaults alone", {})]
    for key, info, value in fields(settings):
        candidates += (
            (f"{key} = {choice!r}", {**table, key: choice})
            for choice in _choices(info)
            if choice != value
        )
    for said, candidate in candidates:
        try:
            yield said, model.model_validate(candidate)
        except ValidationError:
            continue


def _choices(info: FieldInfo) -> Iterator[Any]:
    annotation = info.annotation
    for kind in chain([annotation], get_args(annotation)):
        if kind is bool:
            yield from (True, False)
        elif kind is type(None):
            yield None
        elif get_origin(kind) is Literal:
            yield from get_args(kind)
        elif isinstance(kind, EnumType):
            yield from kind.__members__.values()


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _shown(value: Any) -> str:
    shown_value = repr(value)
    return shown_value if len(shown_value) <= 80 else f"{shown_value[:80]}..."  # noqa: PLR2004 - one line


def _some(names: list[str]) -> str:
    first = ", ".join(names[:5])
    return first if len(names) <= 5 else f"{first} and {len(names) - 5} more"  # noqa: PLR2004 - one line


def without_settings(subject: HasSettings) -> str:
    """Say that there is nothing to check."""
    return "" if type(subject.settings).model_fields else "it has no settings"


RULES: Final[tuple[Rule[HasSettings], ...]] = (
    Rule(
        "settings-documented",
        "Operators read the description in their editor and in `interpose config`; a key alone "
        "does not say what it does, in which unit.",
        documented,
        without_settings,
    ),
    Rule(
        "settings-defaults",
        "A default that is not valid, or of another type, fails where nobody set anything; "
        "settings that change when they are read again are wrong as soon as a file and a variable "
        "both say something.",
        defaults,
        without_settings,
    ),
)
