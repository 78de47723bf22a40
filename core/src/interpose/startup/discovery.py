"""Which plugins are installed, from metadata alone; :mod:`interpose.startup.metadata` reads it.

An environment holds other people's distributions, some of them damaged: each is looked at on its
own, and what is wrong with one becomes a note for ``interpose doctor`` and disturbs nothing else.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import importlib_metadata

from interpose.errors import Problem
from interpose.startup.metadata import entry_points, headers, name_in, needs, place_of, plain_range

if TYPE_CHECKING:
    from importlib_metadata import IDistribution

GROUP: Final = "interpose"
"""The entry-point group: the name is the plugin's id, the value its module or object."""

OFFERS_GROUP: Final = "interpose.offers"
"""The static index: the name is ``capability.<name>``, the value the plugin's own value."""

HOST: Final = "interpose"
"""The distribution whose version a plugin's declared range is about."""

ID: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*\Z")
"""The alphabet of ids."""

_GROUPS: Final = (GROUP, OFFERS_GROUP)
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
class Discovery:
    """Everything that metadata says: plugins by id and distribution, and notes for ``doctor``.

    ``unusable`` explains entry points that cannot be used, by the name they have.
    """

    plugins: tuple[PluginEntry, ...]
    notes: tuple[Problem, ...] = ()
    unusable: Mapping[str, Problem] = field(default_factory=dict)

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
    unusable: dict[str, Problem] = {}
    found: list[tuple[Distribution, tuple[_Entry, ...]]] = []
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
            unusable |= {entry.name: identity for entry in entries if entry.group == GROUP}
        elif entries:
            requirements = needs(raw, fields)
            if not thorough:  # what they need of others is for ``doctor``
                requirements = [text for text in requirements if name_in(text).lower() == HOST]
            distribution, strange = _with_range(identity, requirements)
            notes += strange
            found.append((distribution, entries))
    plugins: list[PluginEntry] = []
    for distribution, entries in _without_copies(found, notes):
        plugins += _plugins(distribution, entries, notes, unusable)
    plugins.sort(key=lambda plugin: (plugin.id, plugin.distribution.canonical))
    known = {plugin.id for plugin in plugins}
    discovery = Discovery(
        tuple(plugins),
        tuple(notes),
        MappingProxyType({name: why for name, why in unusable.items() if name not in known}),
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
class _Entry:
    group: str
    name: str
    value: str


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


def _entries(raw: IDistribution, *, thorough: bool) -> tuple[tuple[_Entry, ...], Problem | None]:
    """Return the entry points of our groups; a file that cannot be read is one for ``doctor``."""
    try:
        given = [
            _Entry(group, name, _without_extras(value))
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


_Found = tuple[Distribution, tuple[_Entry, ...]]


def _without_copies(found: Iterable[_Found], notes: list[Problem]) -> Iterator[_Found]:
    """Let each distribution count once: the first on the path, as for Python's import.

    Two in one folder have no order; there the newer one counts, and the other is a leftover.
    """
    groups: dict[str, list[_Found]] = {}
    for distribution, entries in found:
        groups.setdefault(distribution.canonical, []).append((distribution, entries))
    for copies in groups.values():
        if len(copies) == 1:
            yield copies[0]
            continue
        first = Path(copies[0][0].location).resolve()
        beside = [copy for copy in copies if Path(copy[0].location).resolve() == first]
        chosen = max(beside, key=lambda copy: _order(copy[0].version))
        for other, _ in copies:
            same = other.version == chosen[0].version
            # Another way to the same folder (a lib64 link, a path listed twice) is no copy.
            if other is chosen[0] or (same and Path(other.location).resolve() == first):
                continue
            notes.append(_copy_note(chosen[0], other))
        yield chosen


def _order(version: str) -> tuple[int, object]:
    from packaging.version import InvalidVersion, Version

    try:
        return (1, Version(version))
    except InvalidVersion:
        return (0, version)


def _copy_note(chosen: Distribution, other: Distribution) -> Problem:
    stale = chosen.version != other.version
    return Problem(
        "stale-distribution" if stale else "duplicate-distribution",
        f"{chosen} is installed more than once; "
        + (f"the metadata of {other} is a leftover." if stale else "it counts once."),
        (chosen.location, other.location),
        f"Remove what is left of {other} in {other.location}."
        if stale
        else f"Uninstall {chosen.name} until pip finds none, then install it once.",
        severity="warning" if stale else "note",
    )


def _plugins(
    distribution: Distribution,
    entries: tuple[_Entry, ...],
    notes: list[Problem],
    unusable: dict[str, Problem],
) -> Iterator[PluginEntry]:
    values: dict[str, list[str]] = {}
    offers: dict[str, list[str]] = {}
    for entry in entries:
        if entry.group == GROUP:
            values.setdefault(entry.name, []).append(entry.value)
        elif entry.name.startswith(_OFFER):
            offers.setdefault(entry.value, []).append(entry.name.removeprefix(_OFFER))
    for name, given in values.items():
        wrong = _wrong_name(name, given)
        if wrong is None:
            yield PluginEntry(name, given[0], distribution, tuple(offers.get(given[0], ())))
            continue
        problem = Problem(
            "invalid-plugin",
            f'{distribution} declares the plugin "{name}", {wrong}.',
            (distribution.location,),
            f"Tell the authors of {distribution.name}: it is in their [project.entry-points].",
            severity="warning",
        )
        notes.append(problem)
        unusable[name] = problem
    used = {value for given in values.values() for value in given}
    notes += (_stray_offer(distribution, value) for value in offers if value not in used)


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
