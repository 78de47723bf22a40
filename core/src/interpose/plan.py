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
    inner: str
    strength: Strength
    origin: EdgeOrigin
    declared_by: str
    distribution: str
    place: str
    said: str
    mover: str | None = None


@dataclass(frozen=True, slots=True)
class OverruledWish:
    """A wish that does not hold because the musts ``by`` lead the other way."""

    wish: Edge
    by: tuple[Edge, ...]


@dataclass(frozen=True, slots=True, order=True)
class PartRef:
    """Names one part of a host. The application is one part, without an id."""

    kind: PartKind
    id: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.id}" if self.id else self.kind


@dataclass(frozen=True, slots=True)
class CapabilityUse:
    """A capability that a part requires (``parts``: who provides it) or provides (who uses it)."""

    name: str
    version: int
    scope: str
    optional: bool
    parts: tuple[PartRef, ...]


@dataclass(frozen=True, slots=True)
class PlannedHook:
    """A hook that the middleware overrides. Not ``live``: the agent does not offer ``point``."""

    name: str
    point: str
    live: bool


@dataclass(frozen=True, slots=True)
class View:
    """What stands between the source of a direction and a layer. Both empty: it sees it raw.

    ``masked_by``: layers that rewrite text or history; ``changed_by``: others that may alter it.
    """

    masked_by: tuple[str, ...] = ()
    changed_by: tuple[str, ...] = ()

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
    origin: str


@dataclass(frozen=True, slots=True)
class PlannedLayer:
    """One layer at its place. ``position`` counts from 1, outermost first.

    ``reason`` says in words why it sits there; ``held_by`` are the edges that took it out of its
    default place, ``edges`` all edges it takes part in, and ``overruled`` the wishes, its own or
    about it, that do not hold.
    """

    position: int
    id: str
    middleware: str
    distribution: str
    version: str
    place: str
    stage: str
    reason: str
    held_by: tuple[Edge, ...]
    edges: tuple[Edge, ...]
    overruled: tuple[OverruledWish, ...]
    hooks: tuple[PlannedHook, ...]
    requires: tuple[CapabilityUse, ...]
    provides: tuple[CapabilityUse, ...]
    sees_input: View
    sees_events: View
    rewrites_history: bool
    observes_only: bool
    form: str
    on_failure: str
    settings: tuple[SettingOrigin, ...]

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
    use: str
    distribution: str
    version: str
    place: str
    requires: tuple[CapabilityUse, ...]
    provides: tuple[CapabilityUse, ...]
    settings: tuple[SettingOrigin, ...]


@dataclass(frozen=True, slots=True)
class LifespanStep:
    """One lifespan to enter. ``agents``: whose plans it serves; empty for all of them.

    A layer has a step for each of its distinct settings.
    """

    part: PartRef
    agents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of the layers for one agent, outermost first, and the reasons for it.

    ``setup_order`` and ``lifespan_order`` follow the capabilities (needed provider first).
    ``edges`` are all edges in force, also those of layers that are off: a chain may run through
    them. ``notes`` are the warnings and notes that concern this agent.
    """

    agent: PlannedPart
    points: tuple[str, ...]
    layers: tuple[PlannedLayer, ...]
    agent_sees: View
    parts: tuple[PlannedPart, ...]
    setup_order: tuple[str, ...]
    lifespan_order: tuple[LifespanStep, ...]
    edges: tuple[Edge, ...]
    overruled: tuple[OverruledWish, ...]
    notes: tuple[Problem, ...]

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
