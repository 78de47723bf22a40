"""What a host is made from, and what startup makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from interpose.authoring import Declaration, Layer, Middleware
from interpose.capability import Capability
from interpose.errors import Problem
from interpose.plan import LifespanStep, Plan
from interpose.startup.composition import Composition
from interpose.startup.configuration import Configuration
from interpose.startup.contributions import RegisteredPart
from interpose.startup.discovery import Discovery, discover
from interpose.startup.hostconfig import HostConfig, LayerConfig, UseConfig
from interpose.startup.inspection import MiddlewareFacts
from interpose.startup.part import Part
from interpose.startup.planning import Configured
from interpose.startup.registration import Catalogue
from interpose.startup.secrecy import held_secrets, known_secrets, redact
from interpose.startup.tree import KeyPath, StandIn


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a host is made from.

    ``files``: names of the files, the base first; ``folder``: what relative names mean.
    ``agents``: agents given in code. ``discover``: how to find installed plugins; called only
    when something names one. ``stand_in``: gives ``$env`` and ``$file`` their values in a test.
    ``assume_application``: ``[capabilities] x = "application"`` counts
    as the application's promise (for ``check``, which runs without it).
    """

    folder: Path
    files: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    overrides: Mapping[str, Any] = field(default_factory=dict, repr=False)
    options: Sequence[str] = field(default=(), repr=False)
    layers: Sequence[Layer] = ()
    agents: Mapping[str, object] = field(default_factory=dict)
    provide: Mapping[Capability[Any], Any] = field(default_factory=dict, repr=False)
    provides: Sequence[Capability[Any]] = ()
    assume_application: bool = False
    discover: Callable[[], Discovery] = discover
    built_in: Sequence[RegisteredPart] = ()
    stand_in: StandIn | None = None


@dataclass(frozen=True, slots=True)
class PreparedLayer:
    """A layer as one agent has it; ``key`` is the path of its settings."""

    config: LayerConfig
    part: RegisteredPart
    facts: MiddlewareFacts
    settings: BaseModel
    declaration: Declaration
    key: KeyPath

    @property
    def cls(self) -> type[Middleware[Any, Any]]:
        """The middleware's class."""
        return self.facts.cls


@dataclass(frozen=True, slots=True)
class PreparedPart:
    """An agent, a provider or a model with its settings."""

    config: UseConfig
    part: RegisteredPart
    settings: BaseModel


@dataclass(frozen=True, slots=True)
class Prepared:
    """A host that could start. ``layers`` by agent and layer id; other parts by their path."""

    config: HostConfig
    configuration: Configuration = field(repr=False)
    tables: tuple[Part, ...] = field(repr=False)
    """What the plugins' halves of the tables were read as."""
    composition: Composition = field(repr=False)
    catalogue: Catalogue = field(repr=False)
    configured: Configured = field(repr=False)
    layers: Mapping[tuple[str, str], PreparedLayer] = field(repr=False)
    parts: Mapping[KeyPath, PreparedPart] = field(repr=False)
    plans: Mapping[str, Plan] = field(repr=False)
    lifespan_order: tuple[LifespanStep, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def scrub(self, text: str) -> str:
        """Take the secrets of all settings out of somebody else's message."""
        secrets = secrets_of(self.composition) | referenced(self.composition)
        return redact(text, secrets | referenced(self.config.composition))


def secrets_of(composition: Composition) -> frozenset[str]:
    """Return every secret that valid settings hold."""
    return frozenset[str]().union(
        *(
            known_secrets(type(settings), composition.trees[path])
            | {*held_secrets(settings)} - {""}
            for path, settings in composition.settings.items()
        )
    )


def referenced(composition: Composition) -> frozenset[str]:
    """Return every value that came from ``$env`` or ``$file``, whether it is valid or not."""
    return frozenset[str]().union(
        *(known_secrets(object, tree) for tree in composition.trees.values())
    )
