"""What a loaded plugin contributes: its parts and its lifecycle hooks, or why it is refused.

A plugin is atomic: one fault refuses all of it, and all its faults are told together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from interpose.errors import Problem, described
from interpose.startup.adapting import source_of
from interpose.startup.agent_shapes import Named
from interpose.startup.class_checks import class_faults, kind_of, not_a
from interpose.startup.discovery import ID, PluginEntry
from interpose.startup.hook_checks import find_hooks
from interpose.startup.loading import LoadedPlugin, cause
from interpose.startup.uses import Kind, PluginUse

_HOOK_OF: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "middleware": "interpose_middlewares",
        "provider": "interpose_providers",
        "agent": "interpose_agents",
        "model": "interpose_models",
    }
)


@dataclass(frozen=True, slots=True)
class RegisteredPart:
    """Something that a table of the configuration may use.

    ``target`` is the class of a middleware, provider or model, and the ``AgentSource`` of an agent.
    ``name`` is the id for orders and conflicts (``guard.budget``), ``use`` the form that names the
    part without doubt. In-house code has no distribution, version or plugin.
    """

    kind: Kind
    use: str
    name: str
    target: Any
    distribution: str | None = None
    version: str | None = None
    plugin: str | None = None


@dataclass(frozen=True, slots=True)
class Contribution:
    """The parts of a plugin by kind and key, and all hooks that it implements."""

    entry: PluginEntry
    parts: Mapping[tuple[Kind, str], RegisteredPart]
    hooks: Mapping[str, Callable[..., Any]]


def contribution(plugin: LoadedPlugin) -> Contribution | Problem:
    """Check a plugin as a whole and ask it what it has."""
    entry = plugin.entry
    own = kind_of(plugin.value)
    if own is not None:
        return _contribution(entry, {own: {entry.id: plugin.value}}, {}, [])
    hooks = find_hooks(plugin.value)
    faults = list(hooks.faults)
    offered: dict[Kind, Mapping[Any, Any]] = {}
    for kind, hook in _HOOK_OF.items():
        if hook in hooks.functions:
            answer = _ask(hook, hooks.functions[hook])
            if isinstance(answer, str):
                faults.append(answer)
            else:
                offered[kind] = answer
    return _contribution(entry, offered, hooks.functions, faults)


def _ask(hook: str, function: Callable[..., Any]) -> Mapping[Any, Any] | str:
    """Call a hook that returns a mapping; a string says what went wrong."""
    try:
        answer = function()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
        return f"{hook} failed: {cause(error)}"
    if isinstance(answer, Mapping):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()
    return f"{hook} returned {described(answer)}; it returns a mapping from key to class"


def _contribution(
    entry: PluginEntry,
    offered: Mapping[Kind, Mapping[Any, Any]],
    hooks: Mapping[str, Callable[..., Any]],
    faults: list[str],
) -> Contribution | Problem:
    parts: dict[tuple[Kind, str], RegisteredPart] = {}
    for kind, mapping in offered.items():
        for key, value in mapping.items():
            wrong = tuple(_part_faults(entry, kind, key, value))
            faults += wrong
            if not wrong:
                parts[kind, key] = _part(entry, kind, key, value)
    if faults:
        return refusal(str(entry), faults, entry.distribution.location, entry.distribution.name)
    return Contribution(entry, MappingProxyType(parts), MappingProxyType(dict(hooks)))


def _part_faults(entry: PluginEntry, kind: Kind, key: object, value: object) -> Iterator[str]:
    shown = f"{kind} {key!r}" if not isinstance(key, str) else f'{kind} "{key}"'
    if not isinstance(key, str) or not ID.match(key):
        yield (
            f"{shown}: its key in {_HOOK_OF[kind]} is not an id; "
            f"use lower case letters, digits and single hyphens"
        )
    wrong = not_a(kind, value)
    if wrong is not None:
        yield f"{shown}: {wrong}"
    elif isinstance(value, type):
        for fault in class_faults(kind, value, entry.distribution.canonical):
            yield f"{shown} ({value.__qualname__}): {fault}"


def _part(entry: PluginEntry, kind: Kind, key: str, value: type[Any]) -> RegisteredPart:
    name = str(PluginUse(entry.id, key))
    target: Any = value
    if kind == "agent":
        target = source_of(value, Named(name))
    return RegisteredPart(
        kind,
        f"{name}@{entry.distribution.canonical}",
        name,
        target,
        entry.distribution.name,
        entry.distribution.version,
        entry.id,
    )


def refusal(what: str, faults: list[str], where: str, distribution: str | None) -> Problem:
    """Return one problem for all faults of ``what``."""
    lines = "\n".join(f"- {fault}{'' if fault.endswith('?') else '.'}" for fault in faults)
    hint = (
        f"pip install --upgrade {distribution}, take it out of the config, or correct it if it is "
        f"yours."
        if distribution
        else "Correct the class."
    )
    return Problem("refused-part", f"{what} is refused:\n{lines}", (where,) if where else (), hint)
