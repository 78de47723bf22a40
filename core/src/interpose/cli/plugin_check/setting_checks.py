"""Checks of a plugin's settings, beyond those by which the host refuses a plugin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, ConfigDict, RootModel, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from interpose.cli.plugin_check.results import Check, checked
from interpose.errors import Problem, Severity
from interpose.startup.adapting import AgentSource
from interpose.startup.contributions import Contribution, RegisteredPart
from interpose.startup.diagnosis import keys_of
from interpose.startup.environment import variable_segment
from interpose.startup.inspection import settings_class
from interpose.startup.loading import cause
from interpose.startup.part import Part
from interpose.startup.registration import SECTIONS
from interpose.startup.schema import config_schema
from interpose.startup.secrecy import is_secret, models_in

_SECRETS: Final = frozenset({"password", "passwd", "passphrase", "secret", "token", "apikey"})
_KEYS: Final = frozenset({"api", "access", "auth", "encryption", "private", "secret", "signing"})
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+\Z")


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a settings model. ``path``: as the file has it, ``patterns.name``."""

    path: str
    model: type[BaseModel]
    info: FieldInfo
    nested: bool


def model_of(part: RegisteredPart) -> type[BaseModel]:
    """Return a part's settings model."""
    if part.kind == "agent":
        source: AgentSource = part.target
        return source.settings_class
    return settings_class(part.target)


def setting_check(contributions: Iterable[Contribution], readme: str) -> Check:
    """Check the settings of all parts."""
    parts = [part for each in contributions for part in each.parts.values()]
    named = [f"{part.name} has {len(model_of(part).model_fields)}" for part in parts]
    problems = (problem for part in parts for problem in _problems(part, readme))
    return checked("settings", ", ".join(named) or "no settings", problems)


def _problems(part: RegisteredPart, readme: str) -> Iterator[Problem]:
    model = model_of(part)
    settings = tuple(_settings(model))
    for setting in settings:
        for fault in _faults(setting, readme):
            yield Problem(
                fault.code,
                f"{part.name}: the setting {setting.path} {fault.message}",
                (f"{setting.model.__module__}:{setting.model.__qualname__}",),
                fault.hint,
                fault.severity,
            )
    yield from _variables(part, model)
    yield from _defaults(part, model)
    yield from _schema(part, model)


def _settings(
    model: type[BaseModel], above: str = "", seen: frozenset[type] = frozenset()
) -> Iterator[Setting]:
    for key, info in keys_of(model):
        yield Setting(f"{above}{key}", model, info, bool(above))
        for nested in models_in(info.annotation):
            if nested not in seen and nested is not model and not issubclass(nested, RootModel):
                yield from _settings(nested, f"{above}{key}.", seen | {model, nested})


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong with one setting; ``message`` goes on after its name."""

    code: str
    message: str
    hint: str
    severity: Severity


def _faults(setting: Setting, readme: str) -> Iterator[_Fault]:
    key = setting.path.rpartition(".")[2]
    in_readme = re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", readme) is not None
    describe = "Describe it by a string below it, or by Field(description=...)."
    tell = f"Add `{key}` to the README's table of settings."
    if setting.info.description:
        if not in_readme:
            yield _Fault("plugin-undocumented-setting", "is not in the README.", tell, "warning")
    elif in_readme:
        said = "has no description: `interpose schema`, and so an editor, says nothing about it."
        yield _Fault("plugin-undocumented-setting", said, describe, "warning")
    else:
        said = "is documented nowhere: neither in the README nor by a description."
        yield _Fault("plugin-undocumented-setting", said, f"{tell} {describe}", "error")
    yield from _secret(key, setting.info)


def _secret(key: str, info: FieldInfo) -> Iterator[_Fault]:
    if is_secret(info.annotation):
        default = info.default
        if isinstance(default, SecretStr | SecretBytes) and default.get_secret_value():
            yield _Fault(
                "plugin-secret",
                "has a default: a secret that everybody can read is none.",
                "Let it have no default, or None.",
                "error",
            )
        return
    words = key.lower().replace("-", "_").split("_")
    sure = words[-1] in _SECRETS or (words[-1] == "key" and not _KEYS.isdisjoint(words[:-1]))
    if (sure or words[-1] in ("key", "credentials")) and _holds_text(info.annotation):
        yield _Fault(
            "plugin-secret",
            "is named like a secret, and its type is not: `interpose config` shows its value.",
            "Its type is SecretStr; if it is no secret, call it something else.",
            "error" if sure else "warning",
        )


def _holds_text(annotation: Any) -> bool:
    if annotation in (str, bytes):
        return True
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        arguments = arguments[1:]
    return any(_holds_text(argument) for argument in arguments if not isinstance(argument, str))


def _variables(part: RegisteredPart, model: type[BaseModel]) -> Iterator[Problem]:
    taken: dict[str, str] = {}
    for key, _ in keys_of(model):
        place = (f"{model.__module__}:{model.__qualname__}",)
        if not _SEGMENT.match(key):
            yield Problem(
                "plugin-setting-name",
                f'{part.name}: no variable can be named after the setting "{key}".',
                place,
                "Use letters, digits and _ in its name or alias.",
                "warning",
            )
        other = taken.setdefault(variable_segment(key), key)
        if other != key:
            yield Problem(
                "plugin-setting-name",
                f'{part.name}: the settings "{other}" and "{key}" have one variable.',
                place,
                "Rename one of them.",
            )


def _defaults(part: RegisteredPart, model: type[BaseModel]) -> Iterator[Problem]:
    """Validate what the class gives by default, which pydantic takes as it is."""
    if issubclass(model, RootModel):
        return
    place = (f"{model.__module__}:{model.__qualname__}",)
    try:
        checking: Any = type(
            "Checking", (model,), {"model_config": ConfigDict(validate_default=True)}
        )
        checking.model_validate({})
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            # What is missing has no default; what is said of the whole table needs settings.
            if each["loc"] and each["type"] != "missing":
                key = ".".join(map(str, each["loc"]))
                yield Problem(
                    "plugin-default",
                    f"{part.name}: the default of {key} is not valid: {each['msg']}.",
                    place,
                    "Correct the default, or the type.",
                )
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
        yield Problem(
            "plugin-default",
            f"{part.name}: validating no settings at all fails with {cause(error)}. A validator "
            "raises ValueError for what it refuses, and nothing else.",
            place,
            "Correct the validator.",
        )


def _schema(part: RegisteredPart, model: type[BaseModel]) -> Iterator[Problem]:
    section = SECTIONS[part.kind]
    try:
        config_schema([Part((section, "checked"), model, title=part.name)])
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
        yield Problem(
            "plugin-schema",
            f"{part.name}: its settings have no JSON Schema: {cause(error)}. `interpose schema` "
            "fails wherever the plugin is active.",
            (f"{model.__module__}:{model.__qualname__}",),
            "Use types that have a JSON form, or give the field WithJsonSchema.",
        )


def required(part: RegisteredPart) -> Sequence[str]:
    """Return the settings that have no default."""
    return [key for key, info in keys_of(model_of(part)) if info.is_required()]
