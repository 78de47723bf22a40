"""The plan: the resolved, immutable and explained order of the layers for one agent.

Only facts. :mod:`interpose.startup.planning` makes plans, :mod:`interpose.startup.plan_text` writes
them for people. :meth:`Plan.to_json` is the stable form for tools (``schema`` names its version).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, Literal

from interpose.errors import Problem

PLAN_SCHEMA: Final = 1
"""Version of the form that :meth:`Plan.to_json` returns; it grows when a field changes meaning."""

STAGES: Final[tuple[str, ...]] = ("edge", "observe", "shape", "content", "call")
"""The stages, outermost first."""

HISTORY_WALL: Final = "wall:history"
"""Barrier in the order: outside it what works on the stream, inside it what rewrites history."""

EXPANSION_WALL: Final = "wall:expansion"
"""Barrier in the order: layers that see expanded events lie outside, ``form = "raw"`` inside."""

Strength = Literal["must", "wish"]
EdgeOrigin = Literal["operator", "middleware", "capability", "wall"]
PartKind = Literal["layer", "provider", "model", "agent", "application"]


@dataclass(frozen=True, slots=True)
class Edge:
    """``outer`` lies further out than ``inner``. Both are layer ids, or one of them is a wall.

    ``declared_by`` is the layer whose table or middleware says so, ``said`` its words
    (``before = ["redact"]``), ``place`` where they, or else the layer, are written. ``mover`` is
    the layer that gives way when the edge runs against the default order; None: whoever must.
    """

    outer: str
    """The layer, or wall, that lies further out."""
    inner: str
    """The layer, or wall, that lies further in."""
    strength: Strength
    """``must`` holds, or the host does not start; ``wish`` gives way to musts."""
    origin: EdgeOrigin
    """Who wants it: ``operator``, ``middleware``, ``capability`` or ``wall``."""
    declared_by: str
    """The layer whose table or middleware says so."""
    distribution: str
    """The distribution of that layer's middleware, and its version; else ``in-house``."""
    place: str
    """Where it is written; for the words of a middleware, where its layer is."""
    said: str
    """The words: ``before = ["redact"]``."""
    mover: str | None = None
    """The layer that gives way when the edge runs against the default order."""


@dataclass(frozen=True, slots=True)
class OverruledWish:
    """A wish that does not hold because the musts ``by`` lead the other way."""

    wish: Edge
    """The wish."""
    by: tuple[Edge, ...]
    """The musts that lead the other way."""


@dataclass(frozen=True, slots=True, order=True)
class PartRef:
    """Names one part of a host. The application is one part, without an id."""

    kind: PartKind
    """``layer``, ``provider``, ``model``, ``agent`` or ``application``."""
    id: str = ""
    """Its id; empty for the application."""

    def __str__(self) -> str:
        return f"{self.kind} {self.id}" if self.id else self.kind


@dataclass(frozen=True, slots=True)
class CapabilityUse:
    """A capability that a part requires (``parts``: who provides it) or provides (who uses it)."""

    name: str
    """The name of the capability."""
    version: int
    """Its major version."""
    scope: str
    """``host`` or ``run``: how long a value lives."""
    optional: bool
    """Whether the part can do without it."""
    parts: tuple[PartRef, ...]
    """Who provides it, or who uses it."""


@dataclass(frozen=True, slots=True)
class PlannedHook:
    """A hook that the middleware overrides. Not ``live``: the agent does not offer ``point``."""

    name: str
    """The hook; event hooks stand together as ``@on(...)``."""
    point: str
    """The point of the agent that it needs."""
    live: bool
    """Whether the host calls it for this agent."""


@dataclass(frozen=True, slots=True)
class View:
    """What stands between the source of a direction and a layer. Both empty: it sees it raw.

    ``masked_by``: layers that rewrite text or history; ``changed_by``: others that may alter it.
    """

    masked_by: tuple[str, ...] = ()
    """Layers between that rewrite text or history."""
    changed_by: tuple[str, ...] = ()
    """Other layers between that may alter what passes."""

    def __str__(self) -> str:
        said = []
        if self.masked_by:
            said.append(f"masked by {' and '.join(self.masked_by)}")
        if self.changed_by:
            said.append(f"changed by {' and '.join(self.changed_by)}")
        return ", ".join(said) or "raw"


@dataclass(frozen=True, slots=True)
class SettingOrigin:
    """Where the value of one setting came from: ``interpose.toml:14``, a variable, ``default``.

    Only the name and the origin: a plan never holds a value, so it cannot hold a secret.
    """

    name: str
    """The key of the setting."""
    origin: str
    """The file and line, the variable, or ``default``."""


@dataclass(frozen=True, slots=True)
class PlannedLayer:
    """One layer at its place. ``position`` counts from 1, outermost first.

    ``reason`` says in words why it sits there; ``held_by`` are the edges that took it out of its
    default place, ``edges`` all edges it takes part in, and ``overruled`` the wishes, its own or
    about it, that do not hold.
    """

    position: int
    """Its place, from 1, outermost first."""
    id: str
    """The id of the layer: the name of its table."""
    middleware: str
    """The middleware, as ``use`` names it."""
    distribution: str
    """The distribution of the middleware; empty for code that is in none."""
    version: str
    """The version of that distribution."""
    place: str
    """Where the layer is written."""
    stage: str
    """The stage that it is sorted into."""
    reason: str
    """Why it sits there, in words."""
    held_by: tuple[Edge, ...]
    """The edges that took it out of its default place."""
    edges: tuple[Edge, ...]
    """All edges that it takes part in."""
    overruled: tuple[OverruledWish, ...]
    """Wishes of it, or about it, that do not hold."""
    hooks: tuple[PlannedHook, ...]
    """The hooks that it overrides."""
    requires: tuple[CapabilityUse, ...]
    """Capabilities that it needs, and who provides them."""
    provides: tuple[CapabilityUse, ...]
    """Capabilities that it provides, and who uses them."""
    sees_input: View
    """What stands between the caller and it."""
    sees_events: View
    """What stands between the agent and it."""
    rewrites_history: bool
    """Whether what it makes of the events is also stored."""
    observes_only: bool
    """Whether it alters neither events nor input."""
    form: str
    """``expanded``, or ``raw`` for a layer that sees chunk events."""
    on_failure: str
    """``fail``: its failure ends the run; ``skip``: it is taken out of it."""
    settings: tuple[SettingOrigin, ...]
    """Where each of its settings came from."""

    @property
    def live_hooks(self) -> tuple[str, ...]:
        """Names of the hooks that the host calls for this agent."""
        return tuple(hook.name for hook in self.hooks if hook.live)

    @property
    def inert_hooks(self) -> tuple[PlannedHook, ...]:
        """Hooks that are never called here, because the agent lacks their point."""
        return tuple(hook for hook in self.hooks if not hook.live)


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A provider, a model, or the agent itself: no place in the order, but capabilities."""

    ref: PartRef
    """What it is."""
    use: str
    """What ``use`` names."""
    distribution: str
    """The distribution that it is from."""
    version: str
    """The version of that distribution."""
    place: str
    """Where it is written."""
    requires: tuple[CapabilityUse, ...]
    """Capabilities that it needs, and who provides them."""
    provides: tuple[CapabilityUse, ...]
    """Capabilities that it provides, and who uses them."""
    settings: tuple[SettingOrigin, ...]
    """Where each of its settings came from."""


@dataclass(frozen=True, slots=True)
class LifespanStep:
    """One lifespan to enter. ``agents``: whose plans it serves; empty for all of them.

    A layer has a step for each of its distinct settings.
    """

    part: PartRef
    """Whose lifespan it is."""
    agents: tuple[str, ...] = ()
    """The agents that it serves; empty for all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of the layers for one agent, outermost first, and the reasons for it.

    ``setup_order`` and ``lifespan_order`` follow the capabilities (needed provider first).
    ``edges`` are all edges in force, also those of layers that are off: a chain may run through
    them. ``notes`` are the warnings and notes that concern this agent.
    """

    agent: PlannedPart
    """The agent that the plan is for."""
    points: tuple[str, ...]
    """What the agent offers."""
    layers: tuple[PlannedLayer, ...]
    """The layers, outermost first."""
    agent_sees: View
    """What stands between the caller and the agent."""
    parts: tuple[PlannedPart, ...]
    """Providers and models."""
    setup_order: tuple[str, ...]
    """The ids of the layers, in the order of their setups."""
    lifespan_order: tuple[LifespanStep, ...]
    """The lifespans, in the order in which they start."""
    edges: tuple[Edge, ...]
    """All edges in force."""
    overruled: tuple[OverruledWish, ...]
    """All wishes that do not hold."""
    notes: tuple[Problem, ...]
    """Warnings and notes that concern this agent."""

    @property
    def order(self) -> tuple[str, ...]:
        """The layer ids, outermost first."""
        return tuple(layer.id for layer in self.layers)

    def layer(self, layer_id: str) -> PlannedLayer | None:
        """Return the layer with this id, or None."""
        return next((layer for layer in self.layers if layer.id == layer_id), None)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values (dict, list, str, int, bool, None), keys by field name."""
        return {"schema": PLAN_SCHEMA, **_plain(self)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
