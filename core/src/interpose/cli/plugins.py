"""``interpose plugins``: what is installed, active or not, from metadata alone."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from pathlib import Path
from textwrap import indent
from typing import Any

from interpose.cli.exits import OK
from interpose.errors import StartupError
from interpose.startup.configuration import gather
from interpose.startup.discovery import Discovery, PluginEntry, discover
from interpose.startup.files import find_files, read_files
from interpose.startup.listing import ListedPlugin, listing
from interpose.startup.overrides import from_options
from interpose.startup.uses import needed


def main(arguments: argparse.Namespace) -> int:
    """List every installed plugin; for an inactive one, the TOML that switches it on."""
    discovery = discover()
    listed = listing(discovery, _active(arguments, discovery))
    if arguments.json:
        print(json.dumps([_as_json(plugin) for plugin in listed], indent=2, ensure_ascii=False))
    elif listed:
        print("\n\n".join(map(_as_text, listed)))
    else:
        print("No plugins are installed. Try: pip install interpose-redact")
    return OK


def _active(arguments: argparse.Namespace, discovery: Discovery) -> Iterable[PluginEntry]:
    """Return the plugins that the configuration, if there is one, would load.

    Raises :class:`StartupError` when a file cannot be read: nobody knows what it activates.
    """
    folder = Path.cwd()
    files = find_files(arguments.config, environ=os.environ, folder=folder)
    options, problems = from_options(arguments.set, folder=folder)
    sources, unreadable = read_files(files, folder=folder)
    if unreadable or problems:
        raise StartupError([*unreadable, *problems])
    if not (sources or options):
        return ()
    # Reading the host's half takes pydantic, but no plugin.
    from interpose.startup.hostreading import read_host
    from interpose.startup.wanted import wanted

    configuration, _ = gather(sources, options, environ=os.environ)
    config, _ = read_host(configuration)
    entries, _ = needed(discovery, wanted(config, config.agents), [("agent", "scripted")])
    return entries


def _as_text(plugin: ListedPlugin) -> str:
    entry = plugin.entry
    lines = [f"{entry.id}  {entry.distribution}"]
    if entry.offers:
        lines.append(f"  offers {', '.join(entry.offers)}")
    if plugin.commands:
        lines.append(f"  commands {', '.join(plugin.commands)}")
    if plugin.active:
        lines.append("  active")
    else:
        lines += ["  not active; to switch it on:", indent(plugin.toml, "    ")]
    if plugin.problem is not None:
        lines.append(f"  cannot be used: {plugin.problem.message}")
        lines.append(f"  fix: {plugin.problem.hint}")
    return "\n".join(lines)


def _as_json(plugin: ListedPlugin) -> dict[str, Any]:
    entry = plugin.entry
    return {
        "id": entry.id,
        "distribution": entry.distribution.name,
        "version": entry.distribution.version,
        "value": entry.value,
        "offers": list(entry.offers),
        "commands": list(plugin.commands),
        "active": plugin.active,
        "toml": plugin.toml,
        "problem": None if plugin.problem is None else plugin.problem.message,
    }
