"""Providers, models and agents under contract, with hosts to try them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ag_ui.core import RunAgentInput
from pydantic import BaseModel, ValidationError

from interpose.authoring import Layer
from interpose.capability import Capability
from interpose.errors import UsageError
from interpose.payloads import ModelRequest
from interpose.startup.built_in import built_in_parts
from interpose.startup.contributions import RegisteredPart
from interpose.startup.discovery import Discovery
from interpose.startup.prepared import Given
from interpose.startup.preparing import prepare
from interpose.startup.tree import KeyPath
from interpose.testing.agents import scripted
from interpose.testing.contracts.setting_forms import as_table
from interpose.testing.hosts import KitHost

USE: Final = "contract-subject"
_SECTIONS: Final = {"provider": "providers", "model": "models", "agent": "agents"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSubject:
    """A provider, a model or an agent under contract, or a middleware that provides.

    ``part``: how a table names it. ``provide``: values of what it requires.
    """

    name: str
    part: RegisteredPart
    settings: BaseModel
    provide: Mapping[Capability[Any], Any] = field(default_factory=dict)

    @property
    def path(self) -> KeyPath:
        """The path of its table."""
        if self.part.kind == "middleware":
            return ("middleware", USE)
        return (_SECTIONS[self.part.kind], "default" if self.part.kind == "agent" else USE)

    def start_up(self, table: Mapping[str, Any], environ: Mapping[str, str]) -> BaseModel:
        """Return the settings that a real startup makes of a table and variables."""
        prepared = prepare(self._given(table, environ=environ))
        if self.part.kind == "middleware":
            return prepared.layers["default", USE].settings
        return prepared.parts[self.path].settings

    def host(
        self, *, agent: object = None, layers: Sequence[Layer] = (), strict: bool = True
    ) -> KitHost:
        """Return a host with it. Raises :class:`StartupError`."""
        given = self._given(as_table(self.settings), agent=agent, layers=layers)
        host = KitHost._of(given, prepare(given), strict=strict)  # noqa: SLF001 - a subclass
        host.run_values = {c: value for c, value in self.provide.items() if c.scope == "run"}
        return host

    def _given(
        self,
        table: Mapping[str, Any],
        *,
        agent: object = None,
        layers: Sequence[Layer] = (),
        environ: Mapping[str, str] | None = None,
    ) -> Given:
        tables: dict[str, Any] = {"host": {"ending_deadline": 1.0}}
        own: tuple[Layer, ...] = ()
        agents: dict[str, object] = {}
        if self.part.kind == "middleware":
            own = (Layer(self.part.target, table, id=USE),)
        else:
            section, key = self.path
            tables[str(section)] = {key: {**table, "use": USE}}
        if self.part.kind != "agent":
            agents["default"] = scripted("Hello.") if agent is None else agent
        return Given(
            folder=Path.cwd(),
            environ=environ or {},
            layers=(*own, *layers),
            agents=agents,
            overrides=tables,
            provide={c: value for c, value in self.provide.items() if c.scope == "host"},
            provides=tuple(c for c in self.provide if c.scope == "run"),
            discover=lambda: Discovery(()),
            built_in=(*built_in_parts(), self.part),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSubject(PartSubject):
    """A provider, or a middleware that provides. ``capability``: the one that it is about."""

    capability: Capability[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSubject(PartSubject):
    """A model. ``failing``: requests that it cannot answer."""

    request: ModelRequest
    failing: tuple[ModelRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSubject(PartSubject):
    """An agent. ``failing``: inputs that it cannot answer."""

    asked: RunAgentInput
    failing: tuple[RunAgentInput, ...] = ()


def settings_of(
    model: type[BaseModel], given: BaseModel | Mapping[str, Any] | None, what: str
) -> BaseModel:
    """Return the settings of a contract. Raises :class:`UsageError` if they are not valid."""
    if isinstance(given, model):
        return given
    try:
        return model.model_validate(dict(given) if isinstance(given, Mapping) else {})
    except ValidationError as error:
        raise UsageError(
            f"the settings of the contract are not valid: {error}",
            hint=f"give the contract of {what} valid ones: settings=...",
        ) from None
