"""What a plugin's settings model may look like; checked when the plugin is registered."""

from __future__ import annotations

from pydantic import BaseModel, RootModel
from pydantic_settings import BaseSettings

from interpose.startup.diagnosis import keys_of
from interpose.startup.environment import DELIMITER
from interpose.startup.part import HOST_KEYS
from interpose.startup.secrecy import models_in


def settings_faults(model: type[BaseModel], section: str) -> list[str]:
    """Say why ``model`` cannot be the settings of a part of ``section``; [] when it can.

    Checked at registration. ``section``: middleware, providers, agents or models.
    """
    faults: list[str] = []
    if issubclass(model, BaseSettings):
        faults.append(
            f"{model.__qualname__} is a pydantic BaseSettings, which would read the environment "
            "past the host; derive it from interpose.Settings"
        )
    if issubclass(model, RootModel):
        faults.append(f"{model.__qualname__} is a RootModel; settings are a table of keys")
        return faults
    for key, _ in keys_of(model):
        if key in HOST_KEYS.get(section, frozenset()):
            faults.append(f'{model.__qualname__} has a field "{key}", a key that the host owns')
    _faults_below(model, faults, {model})
    return faults


def _faults_below(model: type[BaseModel], faults: list[str], seen: set[type[BaseModel]]) -> None:
    for key, info in keys_of(model):
        if DELIMITER in key:
            faults.append(
                f'{model.__qualname__} has a field "{key}"; "{DELIMITER}" separates the segments '
                "of variables"
            )
        for nested in models_in(info.annotation):
            if nested in seen:
                continue
            seen.add(nested)
            if not issubclass(nested, RootModel) and nested.model_config.get("extra") != "forbid":
                faults.append(
                    f"{nested.__qualname__}, nested in {model.__qualname__}, accepts unknown "
                    "keys; derive it from interpose.Settings"
                )
            _faults_below(nested, faults, seen)
