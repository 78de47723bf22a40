"""Which uses a configuration states: what must be loaded, and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from interpose.startup.hostconfig import HostConfig, UseConfig
from interpose.startup.uses import Kind, Wanted

KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {"middleware": "middleware", "providers": "provider", "agents": "agent", "models": "model"}
)
"""What the tables of each section use."""


def wanted(
    config: HostConfig,
    agents: Iterable[UseConfig],
    *,
    layers_in_code: Collection[str] = (),
    agents_in_code: Collection[str] = (),
) -> list[Wanted]:
    """Return the uses of all layers that are on for some agent, of all other parts and plugins.

    ``agents`` are the configured agents, those of ``agents_in_code`` among them; what code gives
    is there already. With no agent at all, a layer counts as for the agent ``default``.
    """
    agents = tuple(agents)
    served = [agent.id for agent in agents] or ["default"]
    found = [
        Wanted(layer.use.name, "middleware", layer.use.place or layer.place, layer.required)
        for layer in config.layers
        if layer.id not in layers_in_code and any(layer.is_on(agent) for agent in served)
    ]
    found += [
        Wanted(
            use.use.name,
            KINDS[use.section],
            use.use.place or use.place,
            is_stated=bool(use.use.place),
        )
        for use in (*agents, *config.providers, *config.models)
        if use.section != "agents" or use.id not in agents_in_code
    ]
    found += [Wanted(named.name, None, named.place) for named in config.plugins]
    return found
