"""Loading plugins as the host does, and checking what they bring by the host's own rules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from interpose.cli.plugin_check.effect_checks import effect_check, weight_check
from interpose.cli.plugin_check.results import Check, checked
from interpose.cli.plugin_check.watching import Watch
from interpose.errors import Problem
from interpose.startup.contributions import Contribution, contribution
from interpose.startup.discovery import PluginEntry
from interpose.startup.loading import load


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of loading a distribution's plugins."""

    checks: tuple[Check, ...]
    contributions: tuple[Contribution, ...]


def load_all(
    entries: Iterable[PluginEntry],
    own: Collection[str],
    root: Path,
    tell: Callable[[str, str], None],
) -> Loaded:
    """Load every plugin of a distribution; one that fails keeps no other from being tried.

    ``own``: its top-level packages; ``root``: where they must come from; ``tell`` is called with
    the name of a check and what is done for it, before that is done.
    """
    imported: list[Problem] = []
    refused: list[Problem] = []
    found: list[Contribution] = []
    import_module("packaging.specifiers")  # which the host loads for some plugins, and none brings
    before = set(sys.modules)
    with Watch() as watch:
        for entry in entries:
            tell("load", f'importing the plugin "{entry.id}" ({entry.value})')
            # What its range says of the running version has been checked already.
            loaded = load(replace_range(entry))
            if isinstance(loaded, Problem):
                imported.append(
                    replace(
                        loaded,
                        hint="Correct it, so that its module can be imported where nothing but its "
                        "declared dependencies is installed.",
                    )
                )
                continue
            imported += _strange_place(entry, root)
            tell("parts", f'calling the hooks of the plugin "{entry.id}" ({entry.value})')
            contributed = contribution(loaded)
            if isinstance(contributed, Problem):
                refused.append(replace(contributed, where=(entry.value,), hint="Correct them all."))
            else:
                found.append(contributed)
    tell("load", "comparing what changed")
    said = ", ".join(entry.id for entry in entries)
    parts = [part for each in found for part in each.parts.values()]
    named = ", ".join(f"{part.kind} {part.name}" for part in parts)
    hooks = sorted({hook for each in found for hook in each.hooks})
    loads = checked("load", said, imported)
    registered = Check("parts", skipped="no plugin could be imported")
    if found or refused:
        says = named or ", ".join(hooks) or "no parts"
        registered = checked("parts", says, (*refused, *_empty(found)))
    return Loaded(
        (loads, effect_check(watch.effects(), own), weight_check(before, own), registered),
        tuple(found),
    )


def replace_range(entry: PluginEntry) -> PluginEntry:
    """Return the plugin without its declared range, so that it is loaded whatever that says."""
    return replace(entry, distribution=replace(entry.distribution, interpose_range=None))


def _strange_place(entry: PluginEntry, root: Path) -> Iterator[Problem]:
    top = entry.value.partition(":")[0].partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    if file and not Path(file).resolve().is_relative_to(root.resolve()):
        yield Problem(
            "plugin-import-place",
            f"{top} was not imported from what is checked, but from another place: another "
            "distribution has a module of that name.",
            (file,),
            f"Rename the package, or uninstall the other {top}.",
        )


def _empty(found: Iterable[Contribution]) -> Iterator[Problem]:
    for each in found:
        if not each.parts and not (each.hooks.keys() - {"interpose_middlewares"}):
            yield Problem(
                "plugin-empty",
                f'The plugin "{each.entry.id}" brings nothing: no middleware, provider, agent or '
                "model, and no hook into startup.",
                (each.entry.value,),
                "Return its classes from interpose_middlewares and the like.",
            )
