"""What ``interpose plugins`` shows: every installed plugin, from its metadata alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from interpose._version import __version__
from interpose.errors import Problem
from interpose.startup.discovery import Discovery, PluginEntry
from interpose.startup.loading import check_range


@dataclass(frozen=True, slots=True)
class ListedPlugin:
    """A plugin, whether it is active, and the TOML that switches it on.

    ``commands``: what its distribution adds to the command line. ``problem``: what keeps it from
    being loaded, as far as metadata tells.
    """

    entry: PluginEntry
    active: bool
    toml: str
    commands: tuple[str, ...] = ()
    problem: Problem | None = None


def listing(
    discovery: Discovery, active: Iterable[PluginEntry], running: str = __version__
) -> tuple[ListedPlugin, ...]:
    """Return every installed plugin, active or not. ``running`` is the version of Interpose."""
    chosen = frozenset(active)
    return tuple(
        ListedPlugin(
            entry,
            entry in chosen,
            activation(entry, discovery),
            commands=tuple(
                command.name
                for command in discovery.commands
                if command.distribution == entry.distribution
            ),
            problem=check_range(entry, running),
        )
        for entry in discovery.plugins
    )


def activation(entry: PluginEntry, discovery: Discovery) -> str:
    """Return the TOML that switches a plugin on.

    Metadata does not say what a plugin contains. One that offers capabilities to others is taken
    for a provider, ``models`` for models, any other for a middleware, as most are. ``mcp`` has
    two, and one to begin with.
    """
    section = "providers" if entry.offers else "middleware"
    if entry.id == "models":
        section = "models"
    table = f"[{section}.{entry.id}]"
    use = "mcp.tools" if entry.id == "mcp" else entry.id
    if entry.id in discovery.ambiguous:
        use += f"@{entry.distribution.canonical}"
    return table if use == entry.id else f'{table}\nuse = "{use}"'
