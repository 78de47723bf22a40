"""What is wrong with a class that a plugin, or in-house code, offers as a part.

A fault is a clause that names what is wrong and the remedy, without its full stop.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from interpose.authoring import AgentFactory, Middleware, Provider
from interpose.capability import CREDENTIALS, PRINCIPAL, Capability
from interpose.errors import described
from interpose.model import ModelFactory
from interpose.startup.adapting import factory_faults
from interpose.startup.agent_shapes import fits
from interpose.startup.declaration_rules import once_faults
from interpose.startup.inspection import (
    inspect_middleware,
    settings_argument_faults,
    settings_class,
)
from interpose.startup.settings_rules import settings_faults
from interpose.startup.uses import Kind

BASES: Final[Mapping[Kind, type]] = MappingProxyType(
    {"middleware": Middleware, "provider": Provider, "agent": AgentFactory, "model": ModelFactory}
)
"""What a class of each kind derives from."""

CORE_CAPABILITIES: Final = frozenset({PRINCIPAL.name, CREDENTIALS.name})
"""The unqualified names of capabilities that a published plugin may use."""

_CAPABILITIES: Final = ("requires", "optional_requires", "provides")


def kind_of(value: object) -> Kind | None:
    """Return which kind of part a class is."""
    if not isinstance(value, type):
        return None
    return next((kind for kind, base in BASES.items() if issubclass(value, base)), None)


def not_a(kind: Kind, value: object) -> str | None:
    """Say why ``value`` is no class of this kind, or return None when it is one."""
    base = BASES[kind]
    actual = kind_of(value)
    if actual == kind:
        if value is base:
            return f"{base.__name__} itself does nothing; derive a class from it"
        return None
    article = "an" if kind == "agent" else "a"
    if actual is not None:
        return f"{described(value)} is a {BASES[actual].__name__}, and {article} {kind} is wanted"
    if isinstance(value, base):
        return f"it is an instance of {type(value).__name__}; give the class itself"
    if kind == "middleware" and inspect.isasyncgenfunction(value):
        return "it is a function; put @middleware above it"
    return f"it is {described(value)}; {article} {kind} is a class derived from {base.__name__}"


def class_faults(kind: Kind, cls: type[Any], distribution: str | None) -> tuple[str, ...]:
    """Return everything that is wrong with a class of this kind.

    ``distribution``: who publishes it; None for in-house code, which may name its capabilities
    as it likes.
    """
    if kind == "middleware":
        faults = inspect_middleware(cls).faults
    elif kind == "agent":
        faults = factory_faults(cls)
    else:
        faults = (
            *_faults(kind, cls),
            *settings_argument_faults(cls),
            *settings_faults(settings_class(cls), "providers" if kind == "provider" else "models"),
        )
    named = _name_faults(cls, distribution) if distribution is not None else ()
    return (*faults, *named)


def _faults(kind: Kind, cls: type[Any]) -> Iterator[str]:
    if kind == "provider":
        if _function(cls.lifespan) is _function(Provider.lifespan):
            yield "it has no lifespan, in which a provider gives its capabilities their values"
        yield from once_faults(cls)
        if not cls.provides:
            yield "it provides nothing; write provides = (CAPABILITY,)"
    else:
        if cls.__call__ is ModelFactory.__call__:
            yield "it has no __call__(self, settings, ctx) that returns a model"
        elif inspect.iscoroutinefunction(cls.__call__):
            yield "its __call__ is `async def`; use `def`"
        if cls.scope not in ("run", "host"):
            yield f'its scope is {cls.scope!r}; write "run" or "host"'
        if not fits(cls, 0):
            yield "its __init__ takes arguments, and the host has none to give; use settings"
    for attribute in _CAPABILITIES:
        given = getattr(cls, attribute)
        if not isinstance(given, tuple) or not all(isinstance(c, Capability) for c in given):
            yield f"{attribute} must be a tuple of Capability"


def _function(method: Any) -> Any:
    return getattr(method, "__func__", method)


def _name_faults(cls: type[Any], distribution: str) -> tuple[str, ...]:
    given = {
        capability.name
        for attribute in _CAPABILITIES
        if isinstance(declared := getattr(cls, attribute), tuple)
        for capability in declared
        if isinstance(capability, Capability)
    }
    return tuple(
        f'the capability "{name}" has a name that belongs to Interpose; '
        f'call it "{distribution}/{name}"'
        for name in sorted(given)
        if "/" not in name and name not in CORE_CAPABILITIES
    )
