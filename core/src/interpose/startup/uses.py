"""What ``use = "..."`` means, and which plugins a set of uses needs, before anything is imported.

The forms are ``id``, ``plugin.name``, both with ``@distribution``, and ``module:attribute`` for
code that is in no plugin. They are the same for middlewares, providers, agents and models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from interpose.errors import Problem, nearest
from interpose.startup.discovery import Discovery, PluginEntry, canonical

Kind = Literal["middleware", "provider", "agent", "model"]
"""What a use is for; ``[plugins] use`` is for none of them, but for the plugin as a whole."""

SAY_SO: Final = "say so"
"""In the hint for a use that is spelt as the id of a table, where one is known that was meant."""
FIRST_PARTY: Final = ("logging", "mcp", "models", "redact", "tool-filter")
"""Ids of the plugins that are published as ``interpose-<id>``."""

_NAMES: Final[dict[Kind | None, str]] = {
    "middleware": "The middleware",
    "provider": "The provider",
    "agent": "The agent",
    "model": "The model",
    None: "The plugin",
}

_EXAMPLES: Final[dict[Kind | None, str]] = {
    "provider": "my_app.parts:Store",
    "agent": "loop",
    "model": "scripted",
}

_ID = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_PLUGIN = re.compile(
    rf"(?P<plugin>{_ID})(?:\.(?P<key>{_ID}))?"
    r"(?:@(?P<distribution>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?))?\Z"
)
_OBJECT = re.compile(
    r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<attr>[^\W\d]\w*(?:\.[^\W\d]\w*)*)\Z"
)


@dataclass(frozen=True, slots=True)
class PluginUse:
    """``id`` or ``plugin.name``, perhaps of one distribution (its canonical name)."""

    plugin: str
    key: str
    distribution: str | None = None

    def __str__(self) -> str:
        name = self.plugin if self.key == self.plugin else f"{self.plugin}.{self.key}"
        return f"{name}@{self.distribution}" if self.distribution else name


@dataclass(frozen=True, slots=True)
class ObjectUse:
    """``module:attribute``, an object in importable code."""

    module: str
    attr: str

    def __str__(self) -> str:
        return f"{self.module}:{self.attr}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A use that the configuration states, what for, and where.

    ``kind`` None: ``[plugins] use``. Not ``required``: the host starts without it. Not
    ``is_stated``: the table has no use, and its name stands for one.
    """

    use: str
    kind: Kind | None = None
    place: str = ""
    required: bool = True
    is_stated: bool = True


def parse_use(text: str, place: str = "") -> PluginUse | ObjectUse | Problem:
    """Read a use, or say why it is none."""
    if found := _OBJECT.match(text):
        return ObjectUse(found["module"], found["attr"])
    if found := _PLUGIN.match(text):
        name = found["distribution"]
        plugin = found["plugin"]
        return PluginUse(plugin, found["key"] or plugin, canonical(name) if name else None)
    return Problem(
        "invalid-use",
        f"use = {text!r} is not a name that can be looked up.",
        (place,) if place else (),
        'Write "id", "plugin.name", "id@distribution", or "module:attribute" for code of your own.',
    )


def needed(
    discovery: Discovery,
    wanted: Iterable[Wanted],
    built_in: Iterable[tuple[Kind, str]] = (),
) -> tuple[tuple[PluginEntry, ...], tuple[Problem, ...]]:
    """Return the plugins that ``wanted`` needs, in its order, and the uses that name none.

    ``built_in`` are the uses that Interpose itself serves.
    """
    own = frozenset(built_in)
    entries: list[PluginEntry] = []
    problems: list[Problem] = []
    for want in wanted:
        use = parse_use(want.use, want.place)
        if want.kind is None and not isinstance(use, Problem) and not _is_whole(use):
            problems.append(
                _problem(
                    want,
                    "invalid-use",
                    f'[plugins] use names "{want.use}", which is not a plugin as a whole.',
                    "Name plugins by their ids; a table's `use` names a part of one, or an object.",
                )
            )
            continue
        if isinstance(use, ObjectUse) or (want.kind, want.use) in own:
            continue
        found = use if isinstance(use, Problem) else entry_for(discovery, use, want)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            entries.append(found)
    return tuple(dict.fromkeys(entries)), tuple(dict.fromkeys(problems))


def _is_whole(use: PluginUse | ObjectUse) -> bool:
    return isinstance(use, PluginUse) and use.key == use.plugin


def entry_for(
    discovery: Discovery, use: PluginUse, want: Wanted, names: Iterable[str] = ()
) -> PluginEntry | Problem:
    """Return the plugin that ``use`` names. ``names``: further names that would be known."""
    entries = discovery.named(use.plugin)
    if use.distribution is not None:
        chosen = [e for e in entries if e.distribution.canonical == use.distribution]
        if chosen:
            return chosen[0]
        if entries:
            return _problem(
                want,
                "unknown-use",
                f'"{want.use}": the plugin "{use.plugin}" is installed, but not from '
                f"{use.distribution}.",
                "It comes from "
                + " and from ".join(str(e.distribution) for e in entries)
                + f': write "{entries[0].id}@{entries[0].distribution.canonical}".',
            )
    if len(entries) == 1:
        return entries[0]
    if entries:
        return _problem(
            want,
            "ambiguous-use",
            f'"{want.use}" may mean the plugin of '
            + " or of ".join(str(entry.distribution) for entry in entries)
            + ".",
            "Say which one: "
            + " or ".join(f'use = "{_with_distribution(use, entry)}"' for entry in entries)
            + "; or uninstall one of them.",
        )
    return unknown_use(discovery, use, want, names)


def unknown_use(
    discovery: Discovery, use: PluginUse, want: Wanted, names: Iterable[str] = ()
) -> Problem:
    """Explain a use that nothing installed answers to, with what was probably meant."""
    because = discovery.unusable.get(use.plugin)
    if because is not None:
        return _problem(
            want,
            "unusable-plugin",
            f'"{want.use}" names a plugin that cannot be used.\n{because.message}',
            because.hint,
            because.where,
        )
    text = str(use)
    part = next(
        (
            f"{id_}.{text[len(id_) + 1 :]}"
            for id_ in sorted(discovery.ids, key=len, reverse=True)
            if text.startswith(f"{id_}-")
        ),
        None,
    )
    installed = {*discovery.ids, *names}
    meant = nearest(text, sorted(installed | set(FIRST_PARTY)))
    message = f'{_NAMES[want.kind]} "{want.use}" is not installed.'
    if use.plugin in FIRST_PARTY and use.plugin not in discovery.ids:
        hint = f"pip install interpose-{use.plugin}"
    elif not want.is_stated and meant not in installed and part is None:
        message = f'{_NAMES[want.kind]} "{want.use}" has no use, and no plugin has its name.'
        hint = f'Say what it is, as in use = "{_EXAMPLES[want.kind]}".'
    elif part is not None and meant not in installed:
        hint = f'If "{part}" is meant, {SAY_SO}: use = "{part}".'
    elif meant is None:
        listed = ", ".join(sorted(installed)) or "none"
        hint = f"Install the distribution that has it. Installed plugins: {listed}."
    elif meant in installed:
        hint = f'Did you mean "{meant}"?'
    else:
        hint = f'Did you mean "{meant}"? It comes with: pip install interpose-{meant}'
    return _problem(want, "unknown-use", message, hint)


def _with_distribution(use: PluginUse, entry: PluginEntry) -> PluginUse:
    return PluginUse(use.plugin, use.key, entry.distribution.canonical)


def _problem(
    want: Wanted, code: str, message: str, hint: str, where: tuple[str, ...] = ()
) -> Problem:
    places = (want.place, *where) if want.place else where
    return Problem(code, message, places, hint, "error" if want.required else "warning")
