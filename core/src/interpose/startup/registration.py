"""The catalogue of a host: what its configuration may use, found, loaded and checked.

One pluggy manager per host holds the plugins; nothing is global. Each plugin fails alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import pluggy

from interpose import hookspecs
from interpose._version import __version__
from interpose.authoring import middleware_id
from interpose.errors import Problem, UsageError, nearest
from interpose.startup.adapting import adapt_agent
from interpose.startup.class_checks import class_faults, not_a
from interpose.startup.contributions import (
    Contribution,
    RegisteredPart,
    contribution,
    refusal,
)
from interpose.startup.discovery import Discovery, PluginEntry
from interpose.startup.loading import import_object, load
from interpose.startup.uses import (
    Kind,
    ObjectUse,
    PluginUse,
    Wanted,
    entry_for,
    needed,
    parse_use,
)

SECTIONS: Final[Mapping[Kind, str]] = MappingProxyType(
    {"middleware": "middleware", "provider": "providers", "agent": "agents", "model": "models"}
)
"""The section of the configuration whose tables use parts of each kind."""


class RegisteredPlugin:
    """What pluggy holds for a plugin: its checked hooks, and nothing else of it.

    A plugin's own object may be unhashable or equal to another one, which pluggy cannot bear.
    """

    def __init__(self, found: Contribution) -> None:
        self.entry = found.entry
        vars(self).update(found.hooks)

    def __repr__(self) -> str:
        return f"<{self.entry}>"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What the tables of a configuration can use.

    ``problems`` are those of whole plugins and of ``[plugins] use``; those of a table come from
    :meth:`resolve`. ``active`` are the plugins that were loaded, in the order of their first use.
    """

    discovery: Discovery
    plugins: pluggy.PluginManager
    contributions: Mapping[PluginEntry, Contribution]
    refused: Mapping[PluginEntry, Problem]
    problems: tuple[Problem, ...]
    built_in: Mapping[tuple[Kind, str], RegisteredPart] = field(default_factory=dict)

    @property
    def active(self) -> tuple[PluginEntry, ...]:
        """The plugins that were loaded and registered."""
        return tuple(self.contributions)

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Return what could be used for a table of this kind, as far as it is loaded."""
        loaded = (
            part.name
            for found in self.contributions.values()
            for part in found.parts.values()
            if part.kind == kind
        )
        own = (name for known, name in self.built_in if known == kind)
        return tuple(sorted({*loaded, *own}))

    def resolve(
        self,
        use: str,
        kind: Kind,
        place: str = "",
        *,
        required: bool = True,
        is_stated: bool = True,
    ) -> RegisteredPart | Problem:
        """Return the part that a table uses, or why there is none.

        For a plugin that failed this is the very problem that stands in ``problems``.
        """
        own = self.built_in.get((kind, use))
        if own is not None:
            return own
        want = Wanted(use, kind, place, required, is_stated)
        part = self._find(parse_use(use, place), want, kind)
        if isinstance(part, Problem) and part not in self.problems:
            return _weighed(part, required=required)
        return part

    def _find(
        self, use: PluginUse | ObjectUse | Problem, want: Wanted, kind: Kind
    ) -> RegisteredPart | Problem:
        if isinstance(use, Problem):
            return use
        if isinstance(use, ObjectUse):
            found = import_object(use, want.place)
            return (
                found if isinstance(found, Problem) else in_house(found, kind, want.use, want.place)
            )
        entry = entry_for(self.discovery, use, want, self.names(kind))
        if isinstance(entry, Problem):
            return entry
        if entry in self.refused:
            return self.refused[entry]
        if entry not in self.contributions:
            raise UsageError(f"{entry} was not loaded: {want.use!r} is not among the wanted uses")
        parts = self.contributions[entry].parts
        return parts.get((kind, use.key)) or _missing(entry, use, want, parts)


def build_catalogue(
    discovery: Discovery,
    wanted: Iterable[Wanted],
    *,
    built_in: Iterable[RegisteredPart] = (),
    running: str = __version__,
) -> Catalogue:
    """Load and register the plugins that ``wanted`` needs; imports nothing else.

    ``wanted`` must hold every use that :meth:`Catalogue.resolve` is asked for later. ``built_in``
    are the parts of Interpose itself; ``running`` is its version.
    """
    uses = tuple(wanted)
    own = {(part.kind, part.name): part for part in built_in}
    entries, _ = needed(discovery, uses, own)
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    contributions: dict[PluginEntry, Contribution] = {}
    refused: dict[PluginEntry, Problem] = {}
    for entry in entries:
        loaded = load(entry, running)
        found = loaded if isinstance(loaded, Problem) else contribution(loaded)
        if isinstance(found, Problem):
            refused[entry] = _placed(found, discovery, entry, uses)
        else:
            contributions[entry] = found
            manager.register(RegisteredPlugin(found), name=_plugin_name(entry, discovery))
    _, unknown = needed(discovery, (want for want in uses if want.kind is None))
    return Catalogue(discovery, manager, contributions, refused, (*refused.values(), *unknown), own)


def in_house(value: object, kind: Kind, use: str, place: str = "") -> RegisteredPart | Problem:
    """Return code of the application as a part. ``use`` is what messages call it."""
    target: Any = value
    if kind == "agent":
        target = adapt_agent(value, place, use)
        if isinstance(target, Problem):
            return target
    else:
        wrong = not_a(kind, value)
        faults = [wrong] if wrong else list(class_faults(kind, target, None))
        if faults:
            return refusal(use, faults, place, None)
    name = middleware_id(target) if kind == "middleware" else use
    return RegisteredPart(kind, use, name, target)


def _plugin_name(entry: PluginEntry, discovery: Discovery) -> str:
    if entry.id in discovery.ambiguous:
        return f"{entry.id}@{entry.distribution.canonical}"
    return entry.id


def _placed(
    problem: Problem, discovery: Discovery, entry: PluginEntry, uses: Iterable[Wanted]
) -> Problem:
    """Add the places that ask for the plugin; it is only a warning when none requires it."""
    asking = []
    for want in uses:
        use = parse_use(want.use)
        if isinstance(use, PluginUse) and entry_for(discovery, use, want) == entry:
            asking.append(want)
    places = tuple(dict.fromkeys(want.place for want in asking if want.place))
    return _weighed(
        replace(problem, where=(*places, *problem.where)),
        required=any(want.required for want in asking),
    )


def _weighed(problem: Problem, *, required: bool) -> Problem:
    """Turn an error about something that is not required into a warning."""
    if required or problem.severity != "error":
        return problem
    return replace(problem, severity="warning")


def _missing(
    entry: PluginEntry,
    use: PluginUse,
    want: Wanted,
    parts: Mapping[tuple[Kind, str], RegisteredPart],
) -> Problem:
    has = {known: part.name for (known, key), part in parts.items() if key == use.key}
    names = [part.name for part in parts.values() if part.kind == want.kind]
    # The plugin's bare id is no misspelt key of it.
    meant = nearest(f"{use.plugin}.{use.key}", names) if use.key != use.plugin else None
    if has:
        other = next(iter(has))
        hint = f"It has the {other} of that name: use it in [{SECTIONS[other]}.<id>]."
    elif meant:
        hint = f'Did you mean "{meant}"?'
    elif names:
        hint = f'It has {", ".join(sorted(names))}. Say which: use = "{min(names)}".'
    else:
        hint = f"It has no {want.kind} at all."
    return Problem(
        "unknown-use",
        f'{entry} has no {want.kind} "{want.use}".',
        (want.place,) if want.place else (),
        hint,
    )
