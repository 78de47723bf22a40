"""What resolution is given: the configured parts of a host and what they declare, as plain facts.

The host makes these from the files and from the loaded classes. Nothing here imports a plugin,
reads a file or knows pydantic, so that resolution stays a pure function of its input. A ``place``
is text for a person (``interpose.toml:14``, ``Host(layers=...)``); stages and points are strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from interpose.plan import PartKind, PartRef, SettingOrigin

State = Literal["on", "off", "failed", "elsewhere"]
"""A part that is configured may be switched off, may have failed to load, or serve other agents."""


@dataclass(frozen=True, slots=True)
class CapabilityRef:
    """A capability as one distribution declares it. Its identity is name and major version."""

    name: str
    version: int = 1
    scope: Literal["host", "run"] = "host"
    single: bool = True
    ordered: bool = False
    declared_by: str = "interpose"

    @property
    def key(self) -> tuple[str, int]:
        """The identity: two distributions agree on it without importing each other."""
        return (self.name, self.version)

    def __str__(self) -> str:
        return f"{self.name} (version {self.version})"


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that the operator wrote, and where."""

    name: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """An entry of ``[capabilities]``: who is to provide it, a part's id or ``application``."""

    capability: str
    provider: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """An installed but inactive plugin that says it could provide a capability.

    ``table`` is the kind of table that switches it on; None when the index does not say.
    """

    capability: str
    plugin: str
    distribution: str
    table: Literal["providers", "middleware", "models"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCandidate:
    """Anything that provides or requires capabilities: a provider, a model, an agent, a layer.

    ``index`` is the place in file order; ``scope`` says how long it lives. An empty
    ``distribution`` means in-house code.
    """

    kind: PartKind
    id: str
    use: str = ""
    distribution: str = ""
    version: str = ""
    place: str = ""
    index: int = 0
    scope: Literal["host", "run"] = "host"
    provides: tuple[CapabilityRef, ...] = ()
    requires: tuple[CapabilityRef, ...] = ()
    optional_requires: tuple[CapabilityRef, ...] = ()
    settings: tuple[SettingOrigin, ...] = ()

    @property
    def ref(self) -> PartRef:
        """Its name in a plan."""
        return PartRef(self.kind, self.id)

    def __str__(self) -> str:
        return f"{self.ref} ({source(self.distribution, self.version)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCandidate(PartCandidate):
    """An agent and the points it offers."""

    kind: PartKind = "agent"
    points: tuple[str, ...] = ("RUN", "EVENTS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A configured layer: what its middleware declares and what the operator says about it.

    ``before`` and ``after`` are the middleware's wishes (middleware ids, or ``cap:<name>``), the
    ``operator_`` ones musts (layer ids). ``stage`` and ``on_failure`` None mean the default.
    ``hooks`` maps each overridden hook to its point. ``agents`` None: serves every agent.
    ``settings_key`` tells distinct settings of one layer apart, and with them its lifespans.
    ``covers_input``: a text transform that also rewrites the input.
    """

    id: str
    middleware: str
    distribution: str = ""
    version: str = ""
    file_index: int = 0
    place: str = ""
    state: State = "on"
    required: bool = True
    stage: str | None = None
    stage_place: str = ""
    provides: tuple[CapabilityRef, ...] = ()
    requires: tuple[CapabilityRef, ...] = ()
    optional_requires: tuple[CapabilityRef, ...] = ()
    conflicts: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    operator_before: tuple[Reference, ...] = ()
    operator_after: tuple[Reference, ...] = ()
    agents: tuple[Reference, ...] | None = None
    essential: tuple[str, ...] = ()
    rewrites_history: bool = False
    observes_only: bool = False
    text_transform: bool = False
    covers_input: bool = False
    form: str = "expanded"
    on_failure: str | None = None
    on_failure_place: str = ""
    hooks: Mapping[str, str] = field(default_factory=dict)
    has_event_hooks: bool = False
    has_around_run: bool = False
    settings: tuple[SettingOrigin, ...] = ()
    settings_key: str = ""

    @property
    def active(self) -> bool:
        """Whether it takes part in the run."""
        return self.state == "on"

    @property
    def effective_stage(self) -> str:
        """The stage it was given, else the default: ``content`` if it rewrites history."""
        return self.stage or ("content" if self.rewrites_history else "shape")

    @property
    def in_the_stream(self) -> bool:
        """Whether events of the run pass through its code."""
        return self.has_event_hooks or self.has_around_run

    @property
    def alters_the_stream(self) -> bool:
        """Whether it may change events, or the run as a whole."""
        return self.in_the_stream and not self.observes_only

    @property
    def part(self) -> PartCandidate:
        """The layer as a part that provides and requires capabilities."""
        return PartCandidate(
            kind="layer",
            id=self.id,
            use=self.middleware,
            distribution=self.distribution,
            version=self.version,
            place=self.place,
            index=self.file_index,
            scope="run",
            provides=self.provides,
            requires=self.requires,
            optional_requires=self.optional_requires,
            settings=self.settings,
        )

    def __str__(self) -> str:
        return f"layer {self.id} ({source(self.distribution, self.version)})"


def source(distribution: str, version: str) -> str:
    """Name where code comes from: ``interpose-guard 1.2``, or ``in-house``."""
    return f"{distribution} {version}".strip() if distribution else "in-house"


def places(*given: str) -> tuple[str, ...]:
    """Return the places that say something, each once, in the order given."""
    return tuple(dict.fromkeys(place for place in given if place))


def listed(words: tuple[str, ...] | list[str], *, conjunction: str = "and") -> str:
    """Write a list for a person: ``a``, ``a and b``, ``a, b and c``."""
    *most, last = words
    return f"{', '.join(most)} {conjunction} {last}" if most else last
