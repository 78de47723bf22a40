"""What a command that a plugin adds to the command line has to do with the host.

An entry point of the group ``interpose.commands`` names a module, or an object, with ``SUMMARY``,
``add_arguments(parser)`` and ``main(arguments)``; ``main`` returns an exit code. The command line
imports it when it is asked for, and adds ``--config``, ``--set`` and ``--debug``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interpose.cli.exits import OK, PROBLEMS

if TYPE_CHECKING:
    from pydantic import BaseModel

    from interpose.authoring import Middleware
    from interpose.startup.prepared import Prepared

__all__ = ["OK", "PROBLEMS", "Configuration", "ConfiguredLayer", "configuration"]


@dataclass(frozen=True, slots=True)
class ConfiguredLayer:
    """One layer with one set of settings; an agent may have others for the same layer."""

    id: str
    """The id of the layer: ``[middleware.<id>]``."""
    middleware: type[Middleware[Any, Any]]
    """Its class."""
    settings: BaseModel = field(repr=False)
    """Its settings, read and valid. They may hold secrets, so that no ``repr`` shows them."""
    agents: tuple[str, ...]
    """The agents that have the layer with these settings."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the configuration comes to. Nothing of it has been started."""

    folder: Path
    """What relative paths in settings mean: the folder of the first file, else the current one."""
    files: tuple[str, ...]
    """The config files, the base first."""
    layers: tuple[ConfiguredLayer, ...]
    """The layers that some agent has, in the order of the file; none that is off or left out."""


@contextmanager
def configuration(arguments: argparse.Namespace) -> Iterator[Configuration]:
    """Read the configuration that ``--config`` and ``--set`` name, as ``interpose check`` does.

    Inside the block, modules beside the first config file can be imported. Raises
    :class:`StartupError` with every problem, which the command line shows when nobody catches it.

    Example: ``with configuration(arguments) as found: print(*(each.id for each in found.layers))``
    """
    from interpose.cli.configured import startup

    with startup(arguments) as (given, prepared):
        first = given.folder / given.files[0] if given.files else None
        yield Configuration(
            folder=given.folder if first is None else first.parent,
            files=tuple(given.files),
            layers=tuple(_layers(prepared)),
        )


def _layers(prepared: Prepared) -> Iterator[ConfiguredLayer]:
    for config in prepared.config.layers:
        found: list[tuple[BaseModel, type[Middleware[Any, Any]], list[str]]] = []
        for agent, plan in prepared.plans.items():
            layer = prepared.layers.get((agent, config.id))
            if layer is None or config.id not in plan.order:
                continue
            same = [agents for settings, _, agents in found if settings == layer.settings]
            if same:
                same[0].append(agent)
            else:
                found.append((layer.settings, layer.cls, [agent]))
        for settings, middleware, agents in found:
            yield ConfiguredLayer(config.id, middleware, settings, tuple(agents))
