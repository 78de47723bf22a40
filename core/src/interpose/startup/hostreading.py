"""Reading the host's half: which parts there are, in which order, and what their options say.

Nothing of a plugin is imported to know this. It decides what is active, and with that what is
imported at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from interpose.errors import Problem
from interpose.startup.composition import Composition, compose
from interpose.startup.configuration import Configuration
from interpose.startup.hostchecks import (
    bad_overrides,
    named_tables,
    unknown_agents,
    unknown_choices,
    unknown_tables,
)
from interpose.startup.hostconfig import AgentOverride, HostConfig, LayerConfig, Named, UseConfig
from interpose.startup.hostmodel import (
    CapabilityTable,
    HostTable,
    LayerTable,
    OverrideTable,
    PluginsTable,
    ServerTable,
    UseTable,
)
from interpose.startup.merging import NOWHERE
from interpose.startup.part import Part, is_override
from interpose.startup.tree import KeyPath, Scalar, Table, at, descend

_PLAIN: Mapping[str, type[BaseModel]] = {
    "capabilities": CapabilityTable,
    "plugins": PluginsTable,
    "host": HostTable,
    "server": ServerTable,
}
_Model = TypeVar("_Model", bound=BaseModel)


def read_host(
    configuration: Configuration, *, agents: Collection[str] = ()
) -> tuple[HostConfig, tuple[Problem, ...]]:
    """Read the host's half. ``agents``: ids of agents that code gives, beside the configured.

    Whatever is wrong with a table, the rest of it and all others are read, so that later phases
    can look for problems of their own.
    """
    problems = [*unknown_tables(configuration.named)]
    tables = [*named_tables(configuration.named, problems)]
    tables += dict.fromkeys(
        variable.table
        for variable in configuration.variables
        if is_override(variable.table) and variable.table not in tables
    )
    parts = [
        *(Part((name,), model, half="host") for name, model in _PLAIN.items()),
        *(Part(path, _model(path), half="host") for path in tables),
    ]
    composition = compose(parts, configuration)
    config = _Reader(configuration, composition, tables).read(parts)
    known = {*agents, *(agent.id for agent in config.agents)}
    problems += composition.problems
    problems += unknown_agents(config, known)
    problems += bad_overrides(configuration.named, config, tables)
    problems += unknown_choices(config, known)
    return config, tuple(problems)


def _model(path: KeyPath) -> type[BaseModel]:
    if is_override(path):
        return OverrideTable
    return LayerTable if path[0] == "middleware" else UseTable


class _Reader:
    """Turns validated tables into facts that know their places."""

    def __init__(
        self, said: Configuration, composition: Composition, tables: Collection[KeyPath]
    ) -> None:
        self.said = said
        self.composition = composition
        self.tables = tables

    def read(self, parts: Sequence[Part]) -> HostConfig:
        choices = self.table(("capabilities",), CapabilityTable, CapabilityTable({}))
        plugins = self.table(("plugins",), PluginsTable, PluginsTable())
        return HostConfig(
            layers=tuple(self.layer(path) for path in self.ids("middleware")),
            agents=tuple(self.use_config(path) for path in self.ids("agents")),
            providers=tuple(self.use_config(path) for path in self.ids("providers")),
            models=tuple(self.use_config(path) for path in self.ids("models")),
            capabilities={
                name: Named(choice, self.place(("capabilities",), name))
                for name, choice in choices.root.items()
            },
            plugins=self.names(("plugins",), ("use",), plugins.use),
            host=self.table(("host",), HostTable, HostTable()),
            server=self.table(("server",), ServerTable, ServerTable()),
            parts=tuple(parts),
            composition=self.composition,
        )

    def ids(self, section: str) -> list[KeyPath]:
        return [path for path in self.tables if path[0] == section and not is_override(path)]

    def table(self, path: KeyPath, model: type[_Model], fallback: _Model) -> _Model:
        found = self.composition.settings.get(path)
        return found if isinstance(found, model) else fallback

    def place(self, path: KeyPath, *inner: str | int) -> str:
        """Return where a value was written; the table's own place for a default."""
        node, _ = descend(self.composition.trees[path], inner)
        return "" if node.origin is NOWHERE else str(node.origin)

    def names(self, path: KeyPath, inner: KeyPath, names: Collection[str]) -> tuple[Named, ...]:
        return tuple(
            Named(name, self.place(path, *inner, index)) for index, name in enumerate(names)
        )

    def salvaged(self, path: KeyPath, key: str, wanted: type[Any]) -> Any:
        """Return one good value of a table that is not valid as a whole."""
        node = at(self.composition.trees[path], (key,))
        good = isinstance(node, Scalar) and isinstance(node.value, wanted)
        return node.value if good and isinstance(node, Scalar) else None

    def layer(self, path: KeyPath) -> LayerConfig:
        layer = str(path[1])
        use, enabled = self.salvaged(path, "use", str), self.salvaged(path, "enabled", bool)
        fallback = LayerTable(use=use or None, enabled=enabled is not False)
        table = self.table(path, LayerTable, fallback)
        options = table.layer
        overrides = [self.override(each) for each in self.tables if each[2:] == path]
        own = self.said.node(path)
        return LayerConfig(
            id=layer,
            use=Named(table.use or layer, self.place(path, "use")),
            enabled=table.enabled,
            enabled_place=self.place(path, "enabled"),
            place=self.place(path),
            required=options.required,
            before=self.names(path, ("layer", "before"), options.before),
            after=self.names(path, ("layer", "after"), options.after),
            stage=options.stage,
            stage_place=self.place(path, "layer", "stage"),
            on_failure=options.on_failure,
            on_failure_place=self.place(path, "layer", "on_failure"),
            deadline=options.deadline,
            agents=None
            if options.agents is None
            else self.names(path, ("layer", "agents"), options.agents),
            overrides={override.agent: override for override in overrides},
            tables=tuple(
                Named(key, str(below.origin))
                for key, below in (own.entries.items() if isinstance(own, Table) else ())
                if isinstance(below, Table) and key != "layer"
            ),
        )

    def override(self, path: KeyPath) -> AgentOverride:
        own = self.said.node(path)
        keys = [*own.entries] if isinstance(own, Table) else []
        keys += [each.keys[0] for each in self.said.variables if each.table == path]
        return AgentOverride(
            agent=str(path[1]),
            enabled=self.table(path, OverrideTable, OverrideTable()).enabled,
            has_settings=any(key not in OverrideTable.model_fields for key in keys),
            place=self.place(path),
        )

    def use_config(self, path: KeyPath) -> UseConfig:
        name = str(path[1])
        fallback = UseTable(use=self.salvaged(path, "use", str) or None)
        table = self.table(path, UseTable, fallback)
        return UseConfig(
            section=str(path[0]),
            id=name,
            use=Named(table.use, self.place(path, "use")) if table.use else Named(name, ""),
            place=self.place(path),
        )
