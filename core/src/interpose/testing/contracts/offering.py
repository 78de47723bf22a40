"""Whether an installed distribution offers what its plugin provides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from interpose.authoring import Middleware
from interpose.errors import Problem
from interpose.startup.contributions import Contribution, contribution
from interpose.startup.discovery import OFFERS_GROUP, discover
from interpose.startup.inspection import settings_class
from interpose.startup.loading import load
from interpose.testing.contracts.finding import Finding


def offer_finding(cls: type) -> Finding | None:
    """Return where the offers of the plugin that has ``cls`` are not true; None if it has none."""
    for plugin in _plugins_of(cls):
        entry = plugin.entry
        provided, certain = _provided(plugin)
        for name in sorted(provided - set(entry.offers)):
            return Finding(
                f"{entry} provides {name}, and does not offer it",
                f'[project.entry-points."{OFFERS_GROUP}"] says "capability.{name}" = '
                f'"{entry.value}"; install again after a change',
            )
        for name in sorted(set(entry.offers) - provided):
            if certain:
                return Finding(
                    f"{entry} offers {name}, and no part of it provides that",
                    "offers name what a part of the plugin provides",
                )
    return None


def _plugins_of(cls: type) -> Iterator[Contribution]:
    """Yield the installed plugins that have the class among their parts."""
    package = cls.__module__.partition(".")[0]
    for entry in discover().plugins:
        if entry.value.partition(":")[0].partition(".")[0] != package:
            continue
        loaded = load(entry)
        if isinstance(loaded, Problem):
            continue
        found = contribution(loaded)
        if isinstance(found, Contribution):
            targets = [part.target for part in found.parts.values()]
            if any(target is cls for target in targets):
                yield found


def _provided(plugin: Contribution) -> tuple[set[str], bool]:
    """Return the capabilities that the parts provide, and whether these are all."""
    names: set[str] = set()
    certain = True
    for part in plugin.parts.values():
        names |= {capability.name for capability in part.target.provides}
        if not (isinstance(part.target, type) and issubclass(part.target, Middleware)):
            continue
        declared = _declared(part.target)
        certain = certain and declared is not None
        names |= declared or set()
    return names, certain


def _declared(cls: type[Middleware[Any, Any]]) -> set[str] | None:
    """Return what a middleware provides by its defaults; None when it cannot be without more."""
    try:
        return {capability.name for capability in cls.declare(settings_class(cls)()).provides}
    except Exception:  # noqa: BLE001 - settings that are needed, or any fault of declare
        return None
