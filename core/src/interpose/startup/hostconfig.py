"""What the host's half of the configuration says, as facts that know where they were written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from interpose.startup.composition import Composition
from interpose.startup.hostmodel import HostTable, ServerTable
from interpose.startup.part import Part
from interpose.startup.tree import KeyPath


@dataclass(frozen=True, slots=True)
class Named:
    """A name, and where it was written: ``interpose.toml:12``, a variable, or "" for a default."""

    name: str
    place: str


@dataclass(frozen=True, slots=True)
class AgentOverride:
    """``[agents.<agent>.middleware.<layer>]``. ``enabled`` is None where it does not say."""

    agent: str
    enabled: bool | None
    has_settings: bool
    place: str


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """What the host's keys say about one layer.

    ``stage``, ``on_failure`` and ``deadline`` (seconds) are None where the file leaves the choice
    to the middleware; ``agents`` is None when the layer serves all. ``tables`` names the sub-tables
    that are not the host's: settings of the plugin, or layers that were nested by mistake.
    """

    id: str
    use: Named
    enabled: bool
    enabled_place: str
    place: str
    required: bool
    before: tuple[Named, ...]
    after: tuple[Named, ...]
    stage: str | None
    stage_place: str
    on_failure: str | None
    on_failure_place: str
    deadline: float | None
    agents: tuple[Named, ...] | None
    overrides: Mapping[str, AgentOverride]
    tables: tuple[Named, ...]

    @property
    def path(self) -> KeyPath:
        """The layer's table."""
        return ("middleware", self.id)

    def serves(self, agent: str) -> bool:
        """Say whether the layer is configured for ``agent``, switched on or off."""
        return self.agents is None or any(each.name == agent for each in self.agents)

    def is_on(self, agent: str) -> bool:
        """Say whether the layer takes part in the runs of ``agent``."""
        override = self.overrides.get(agent)
        switched = self.enabled if override is None else override.enabled
        return self.serves(agent) and (self.enabled if switched is None else switched)

    def settings_path(self, agent: str) -> KeyPath:
        """Return the path of the settings that the layer has for ``agent``."""
        override = self.overrides.get(agent)
        if override is not None and override.has_settings:
            return ("agents", agent, "middleware", self.id)
        return self.path


@dataclass(frozen=True, slots=True)
class UseConfig:
    """One agent, provider or model; without a use it has its id for one, and no place of it."""

    section: str
    id: str
    use: Named
    place: str

    @property
    def path(self) -> KeyPath:
        """The table."""
        return (self.section, self.id)


@dataclass(frozen=True, slots=True)
class HostConfig:
    """The host's half as a whole. Layers are in the order of the file, outermost first.

    ``parts`` and ``composition`` are what it was read from, and know where each value came from.
    """

    layers: tuple[LayerConfig, ...]
    agents: tuple[UseConfig, ...]
    providers: tuple[UseConfig, ...]
    models: tuple[UseConfig, ...]
    capabilities: Mapping[str, Named]
    plugins: tuple[Named, ...]
    host: HostTable
    server: ServerTable
    parts: tuple[Part, ...] = field(repr=False)
    composition: Composition = field(repr=False)

    def layer(self, layer: str) -> LayerConfig | None:
        """Return the layer of this id, if there is one."""
        return next((each for each in self.layers if each.id == layer), None)


def settings_parts(
    config: HostConfig, agents: Collection[str], models: Mapping[str, type[BaseModel]]
) -> list[Part]:
    """Return the parts whose settings are needed: each active layer, for each agent it is on for.

    ``models`` has the settings class of each layer that could be loaded. A layer has one part for
    all agents that do not change its settings, and one for each that does.
    """
    parts: dict[KeyPath, Part] = {}
    for layer in config.layers:
        model = models.get(layer.id)
        if model is None:
            continue
        for agent in agents:
            if layer.is_on(agent):
                path = layer.settings_path(agent)
                base = None if path == layer.path else layer.path
                parts[path] = Part(path, model, base=base, title=layer.use.name)
    return list(parts.values())
