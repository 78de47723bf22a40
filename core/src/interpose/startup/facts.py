"""From loaded classes and validated settings to the plain facts that resolution works on."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel

from interpose.authoring import Declaration
from interpose.capability import Capability
from interpose.plan import SettingOrigin
from interpose.startup.adapting import AgentSource
from interpose.startup.candidates import (
    AgentCandidate,
    Candidate,
    CapabilityRef,
    Offer,
    PartCandidate,
    Reference,
    State,
)
from interpose.startup.contributions import RegisteredPart
from interpose.startup.discovery import Discovery
from interpose.startup.hook_rules import HOOKS
from interpose.startup.hostconfig import LayerConfig, Named, UseConfig
from interpose.startup.inspection import MiddlewareFacts
from interpose.startup.tree import KeyPath, Table

_MOST_LISTED = 4
"""Event classes of ``@on`` that a plan names one by one."""


def refs(capabilities: Iterable[Capability[object]], declared_by: str) -> tuple[CapabilityRef, ...]:
    """Return capabilities as facts; ``declared_by`` names the distribution, or in-house code."""
    return tuple(
        CapabilityRef(c.name, c.version, c.scope, c.single, c.ordered, declared_by)
        for c in capabilities
    )


def layer_candidate(
    config: LayerConfig,
    index: int,
    *,
    state: State,
    part: RegisteredPart | None,
    declared: tuple[MiddlewareFacts, Declaration] | None,
    settings: tuple[SettingOrigin, ...] = (),
    key: KeyPath = (),
) -> Candidate:
    """Return a layer; without ``declared`` it only has a place, and the operator's edges."""
    facts, declaration = declared or (None, Declaration())
    by = (part.distribution if part else None) or "in-house"
    stage = config.stage or (declaration.stage and str(declaration.stage))
    return Candidate(
        id=config.id,
        middleware=part.name if part else config.use.name,
        distribution=(part.distribution if part else None) or "",
        version=(part.version if part else None) or "",
        file_index=index,
        place=config.place,
        state=state,
        required=config.required,
        stage=stage,
        stage_place=config.stage_place if config.stage else "",
        provides=refs(declaration.provides, by),
        requires=refs(declaration.requires, by),
        optional_requires=refs(declaration.optional_requires, by),
        conflicts=declaration.conflicts,
        before=declaration.before,
        after=declaration.after,
        operator_before=_references(config.before),
        operator_after=_references(config.after),
        agents=None if config.agents is None else _references(config.agents),
        essential=tuple(point.value for point in declaration.essential),
        rewrites_history=declaration.rewrites_history,
        observes_only=declaration.observes_only,
        text_transform=facts is not None and _transforms_text(facts),
        covers_input=facts is not None and _covers_input(facts),
        form=declaration.form,
        on_failure=config.on_failure or declaration.on_failure,
        on_failure_place=config.on_failure_place if config.on_failure else "",
        hooks=_hooks(facts),
        has_event_hooks=facts is not None and facts.has_event_hooks,
        has_around_run=facts is not None and "around_run" in facts.hooks,
        settings=settings,
        settings_key=".".join(map(str, key)),
    )


def _references(names: Iterable[Named]) -> tuple[Reference, ...]:
    return tuple(Reference(named.name, named.place) for named in names)


def _hooks(facts: MiddlewareFacts | None) -> dict[str, str]:
    if facts is None:
        return {}
    named = {name: HOOKS[name].point.value for name in HOOKS if name in facts.hooks}
    if facts.on:
        events = sorted({method.event.__name__ for method in facts.on})
        listed = ", ".join(events) if len(events) <= _MOST_LISTED else f"{len(events)} classes"
        named[f"@on({listed})"] = "EVENTS"
    return named


def _transforms_text(facts: MiddlewareFacts) -> bool:
    from interpose.text import TextTransform

    return issubclass(facts.cls, TextTransform)


def _covers_input(facts: MiddlewareFacts) -> bool:
    from interpose.text import Covers, TextTransform

    return issubclass(facts.cls, TextTransform) and Covers.INPUT in facts.cls.covers


def agent_candidate(
    config: UseConfig, index: int, part: RegisteredPart, settings: tuple[SettingOrigin, ...] = ()
) -> AgentCandidate:
    """Return an agent: its points, and what it provides and requires."""
    source: AgentSource = part.target
    by = part.distribution or "in-house"
    return AgentCandidate(
        id=config.id,
        use=part.use,
        distribution=part.distribution or "",
        version=part.version or "",
        place=config.place,
        index=index,
        scope=source.scope,
        points=tuple(point.value for point in source.points),
        provides=refs(source.provides, by),
        requires=refs(source.requires, by),
        optional_requires=refs(source.optional_requires, by),
        settings=settings,
    )


def part_candidate(
    config: UseConfig, index: int, part: RegisteredPart, settings: tuple[SettingOrigin, ...] = ()
) -> PartCandidate:
    """Return a provider or a model."""
    by = part.distribution or "in-house"
    return PartCandidate(
        kind="provider" if config.section == "providers" else "model",
        id=config.id,
        use=part.use,
        distribution=part.distribution or "",
        version=part.version or "",
        place=config.place,
        index=index,
        scope=getattr(part.target, "scope", "host"),
        provides=refs(part.target.provides, by),
        requires=refs(part.target.requires, by),
        optional_requires=refs(part.target.optional_requires, by),
        settings=settings,
    )


def origins(model: type[BaseModel], tree: Table | None) -> tuple[SettingOrigin, ...]:
    """Say of each setting where its value came from, ``default`` when nobody set it."""
    entries = {} if tree is None else tree.entries
    return tuple(
        SettingOrigin(key, str(entries[key].origin) if key in entries else "default")
        for key in (info.alias or name for name, info in model.model_fields.items())
    )


def offers(discovery: Discovery) -> tuple[Offer, ...]:
    """Return what installed plugins say they could provide; an active one may have more to give."""
    return tuple(
        Offer(capability, entry.id, entry.distribution.name)
        for entry in discovery.plugins
        for capability in entry.offers
    )
