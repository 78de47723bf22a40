"""Which plugins are installed, from metadata alone; :mod:`interpose.startup.metadata` reads it.

An environment holds other people's distributions, some of them damaged: each is looked at on its
own, and what is wrong with one becomes a note for ``interpose doctor`` and disturbs nothing else.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import importlib_metadata

from interpose.errors import Problem
from interpose.startup.copies import without_copies
from interpose.startup.metadata import entry_points, headers, name_in, needs, place_of, plain_range

if TYPE_CHECKING:
    from importlib_metadata import IDistribution

GROUP: Final = "interpose"
"""The entry-point group: the name is the plugin's id, the value its module or object."""

OFFERS_GROUP: Final = "interpose.offers"
"""The static index: the name is ``capability.<name>``, the value the plugin's own value."""

COMMANDS_GROUP: Final = "interpose.commands"
"""Commands of the command line: the name is the command, the value its module or object."""

HOST: Final = "interpose"
"""The distribution whose version a plugin's declared range is about."""

ID: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*\Z")
"""The alphabet of ids."""

_GROUPS: Final = (GROUP, OFFERS_GROUP, COMMANDS_GROUP)
_OFFER = "capability."


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed package.

    ``canonical`` is the name as PEP 503 compares it, ``location`` the folder that holds its
    metadata. ``interpose_range`` is what it declares about Interpose (``>=0.1,<1``), if anything.
    """

    name: str
    canonical: str
    version: str
    location: str
    interpose_range: str | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """One entry point: a plugin that could be loaded.

    ``value`` is ``module`` or ``module:attribute``; ``offers`` names the capabilities that the
    static index promises for it.
    """

    id: str
    value: str
    distribution: Distribution
    offers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f'plugin "{self.id}" ({self.distribution})'


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One entry point: a command that could be loaded. ``value`` as of a plugin."""

    name: str
    value: str
    distribution: Distribution

    def __str__(self) -> str:
        return f'command "{self.name}" ({self.distribution})'


@dataclass(frozen=True, slots=True)
class Discovery:
    """Everything that metadata says: plugins by id and distribution, and notes for ``doctor``.

    ``unusable`` explains entry points that cannot be used, by the name they have; for commands,
    which are sorted by name and distribution, ``unusable_commands`` does.
    """

    plugins: tuple[PluginEntry, ...]
    notes: tuple[Problem, ...] = ()
    unusable: Mapping[str, Problem] = field(default_factory=dict)
    commands: tuple[CommandEntry, ...] = ()
    unusable_commands: Mapping[str, Problem] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all installed plugins, each once, sorted."""
        return tuple(sorted({plugin.id for plugin in self.plugins}))

    @property
    def ambiguous(self) -> tuple[str, ...]:
        """The ids that more than one distribution uses."""
        counts = Counter(plugin.id for plugin in self.plugins)
        return tuple(sorted(name for name, count in counts.items() if count > 1))

    def named(self, plugin_id: str) -> tuple[PluginEntry, ...]:
        """Return the plugins with this id; more than one when distributions clash."""
        return tuple(plugin for plugin in self.plugins if plugin.id == plugin_id)


def canonical(name: str) -> str:
    """Return a distribution's name in the form in which names compare (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def discover(path: Sequence[str] | None = None, *, thorough: bool = False) -> Discovery:
    """Read the metadata of what is installed on ``path`` (default: ``sys.path``).

    Only distributions that declare plugins have their metadata read; ``thorough`` reads all of
    them, so that ``doctor`` can name every damaged one. Never raises for what it finds.
    """
    importlib.invalidate_caches()
    notes: list[Problem] = []
    unusable: _Unusable = {}
    found: list[tuple[Distribution, tuple[Entry, ...]]] = []
    for raw in _distributions(path, notes):
        entries, damage = _entries(raw, thorough=thorough)
        if damage is not None:
            notes.append(damage)
        if not entries and not thorough:
            continue
        fields = _fields(raw)
        identity = _identity(raw, fields)
        if isinstance(identity, Problem):
            notes.append(identity)
            unusable |= {(entry.group, entry.name): identity for entry in entries}
        elif entries:
            requirements = needs(raw, fields)
            if not thorough:  # what they need of others is for ``doctor``
                requirements = [text for text in requirements if name_in(text).lower() == HOST]
            distribution, strange = _with_range(identity, requirements)
            notes += strange
            found.append((distribution, entries))
    plugins: list[PluginEntry] = []
    commands: list[CommandEntry] = []
    for distribution, entries in without_copies(found, notes):
        plugins += _plugins(distribution, entries, notes, unusable)
        for name, value in _usable(distribution, entries, COMMANDS_GROUP, notes, unusable):
            commands.append(CommandEntry(name, value, distribution))
    plugins.sort(key=lambda plugin: (plugin.id, plugin.distribution.canonical))
    commands.sort(key=lambda command: (command.name, command.distribution.canonical))
    discovery = Discovery(
        tuple(plugins),
        tuple(notes),
        _of_group(GROUP, unusable, {plugin.id for plugin in plugins}),
        tuple(commands),
        _of_group(COMMANDS_GROUP, unusable, {command.name for command in commands}),
    )
    clashes = (_clash(discovery.named(name)) for name in discovery.ambiguous)
    return replace(discovery, notes=(*notes, *clashes))


def owners(path: Sequence[str] | None = None) -> Mapping[str, frozenset[str]]:
    """Return which distributions (canonical names) have each top-level module.

    Those of an editable install are not known: its metadata lists a link, and no module.
    """
    found: dict[str, set[str]] = {}
    for raw in _distributions(path, []):
        identity = _identity(raw, _fields(raw))
        if not isinstance(identity, Problem):
            for top in _tops(raw):
                found.setdefault(top, set()).add(identity.canonical)
    return MappingProxyType({top: frozenset(names) for top, names in found.items()})


def _tops(raw: IDistribution) -> Iterator[str]:
    try:
        record = raw.read_text("RECORD") or ""
    except Exception:  # noqa: BLE001 - foreign metadata may break in any way
        return
    for line in record.splitlines():
        first, folder, _ = line.partition(",")[0].strip('"').partition("/")
        if folder or first.endswith((".py", ".so", ".pyd")):
            top = first.partition(".")[0]
            if "-" not in first and top.isidentifier():
                yield top


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry point of ours, as it is written."""

    group: str
    name: str
    value: str


_Unusable = dict[tuple[str, str], Problem]
"""Why an entry point cannot be used, by its group and name."""


def _of_group(group: str, unusable: _Unusable, usable: Collection[str]) -> Mapping[str, Problem]:
    return MappingProxyType(
        {
            name: why
            for (where, name), why in unusable.items()
            if where == group and name not in usable
        }
    )


def _distributions(path: Sequence[str] | None, notes: list[Problem]) -> Iterator[IDistribution]:
    # What is not there would be taken for an archive, and what reads those be imported.
    there = [each for each in (sys.path if path is None else path) if Path(each).exists()]
    try:
        yield from importlib_metadata.distributions(path=there)
    except Exception as error:  # noqa: BLE001 - a foreign finder may raise anything
        notes.append(
            Problem(
                "damaged-distribution",
                f"The search for installed distributions stopped early: {_said(error)}.",
                hint="An import hook in this environment (sys.meta_path) answers wrongly.",
                severity="warning",
            )
        )


def _entries(raw: IDistribution, *, thorough: bool) -> tuple[tuple[Entry, ...], Problem | None]:
    """Return the entry points of our groups; a file that cannot be read is one for ``doctor``."""
    try:
        given = [
            Entry(group, name, _without_extras(value))
            for group, name, value in entry_points(raw, _GROUPS, thorough=thorough)
        ]
    except Exception as error:  # noqa: BLE001 - foreign metadata may break in any way
        place = place_of(raw)
        return (), Problem(
            "damaged-distribution",
            f"The entry points of {place.name} cannot be read: {_said(error)}.",
            (str(place / "entry_points.txt"),),
            "Reinstall that distribution; until then its plugins, if any, are not found.",
            severity="warning",
        )
    # An editable install may list an entry point twice.
    return tuple(dict.fromkeys(given)), None


def _fields(raw: IDistribution) -> Mapping[str, Sequence[str]]:
    try:
        return headers(raw)
    except Exception:  # noqa: BLE001 - likewise
        return {}


def _identity(raw: IDistribution, fields: Mapping[str, Sequence[str]]) -> Distribution | Problem:
    place = place_of(raw)
    name, version = (fields.get(key, ("",))[0] for key in ("name", "version"))
    if name and version:
        return Distribution(name, canonical(name), version, str(place.parent))
    if not name and not version:
        lacks = "no readable METADATA"
    else:
        lacks = "no Name in its METADATA" if not name else "no Version in its METADATA"
    return Problem(
        "damaged-distribution",
        f"{place.name} has {lacks}, so it is skipped.",
        (str(place),),
        "Reinstall the distribution, or remove the folder if it is a leftover.",
        severity="warning",
    )


def _with_range(
    distribution: Distribution, requirements: Iterable[str]
) -> tuple[Distribution, tuple[Problem, ...]]:
    """Add what the distribution declares about the version of Interpose."""
    ranges: list[str] = []
    strange: list[Problem] = []
    for text in requirements:
        plain = plain_range(text)
        if plain is not None:
            if plain and name_in(text).lower() == HOST:
                ranges.append(plain)
            continue
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            requirement = Requirement(text)
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        except (InvalidRequirement, ValueError) as error:
            strange.append(
                Problem(
                    "damaged-distribution",
                    f"{distribution} declares the requirement {text!r}, which cannot be read: "
                    f"{_said(error)}.",
                    (distribution.location,),
                    f"Tell the authors of {distribution.name}.",
                    severity="warning",
                )
            )
            continue
        if applies and canonical(requirement.name) == HOST and str(requirement.specifier):
            ranges.append(str(requirement.specifier))
    if ranges:
        distribution = replace(distribution, interpose_range=",".join(ranges))
    return distribution, tuple(strange)


def _plugins(
    distribution: Distribution,
    entries: tuple[Entry, ...],
    notes: list[Problem],
    unusable: _Unusable,
) -> Iterator[PluginEntry]:
    offers: dict[str, list[str]] = {}
    for entry in entries:
        if entry.group == OFFERS_GROUP and entry.name.startswith(_OFFER):
            offers.setdefault(entry.value, []).append(entry.name.removeprefix(_OFFER))
    for name, value in _usable(distribution, entries, GROUP, notes, unusable):
        yield PluginEntry(name, value, distribution, tuple(offers.get(value, ())))
    used = {entry.value for entry in entries if entry.group == GROUP}
    notes += (_stray_offer(distribution, value) for value in offers if value not in used)


def _usable(
    distribution: Distribution,
    entries: tuple[Entry, ...],
    group: str,
    notes: list[Problem],
    unusable: _Unusable,
) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each plugin, or each command, that can be one."""
    values: dict[str, list[str]] = {}
    for entry in entries:
        if entry.group == group:
            values.setdefault(entry.name, []).append(entry.value)
    kind = "plugin" if group == GROUP else "command"
    for name, given in values.items():
        wrong = _wrong_name(name, given)
        if wrong is None:
            yield name, given[0]
            continue
        problem = Problem(
            "invalid-plugin" if kind == "plugin" else "invalid-command",
            f'{distribution} declares the {kind} "{name}", {wrong}.',
            (distribution.location,),
            f"Tell the authors of {distribution.name}: it is in their [project.entry-points].",
            severity="warning",
        )
        notes.append(problem)
        unusable[group, name] = problem


def _wrong_name(name: str, values: Sequence[str]) -> str | None:
    if not ID.match(name):
        return "which is not an id (lower case, digits and single hyphens)"
    if len(values) > 1:
        return f"which names both {' and '.join(values)}"
    return None


def _stray_offer(distribution: Distribution, value: str) -> Problem:
    return Problem(
        "stray-offer",
        f"{distribution} lists capabilities of {value} in the group {OFFERS_GROUP}, "
        f"but no plugin of it has that value.",
        (distribution.location,),
        f"Tell the authors of {distribution.name}.",
        severity="note",
    )


def _clash(plugins: Sequence[PluginEntry]) -> Problem:
    return Problem(
        "ambiguous-plugin",
        f'The id "{plugins[0].id}" belongs to '
        + " and to ".join(str(plugin.distribution) for plugin in plugins)
        + ".",
        tuple(dict.fromkeys(plugin.distribution.location for plugin in plugins)),
        "Uninstall one, or write in the config which one is meant: "
        + " or ".join(f'use = "{p.id}@{p.distribution.canonical}"' for p in plugins)
        + ".",
        severity="warning",
    )


def _without_extras(value: str) -> str:
    if "[" in value:
        value = re.sub(r"\s*\[[^\]]*\]\s*\Z", "", value)
    return value.replace(" ", "")


def _said(error: BaseException) -> str:
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
