"""Make a plan out of a resolution: each layer's place, the reason for it, and what it sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from interpose.errors import Problem
from interpose.plan import (
    HISTORY_WALL,
    CapabilityUse,
    Edge,
    LifespanStep,
    PartRef,
    Plan,
    PlannedHook,
    PlannedLayer,
    PlannedPart,
    View,
)
from interpose.startup.candidates import AgentCandidate, Candidate, PartCandidate
from interpose.startup.capabilities import Binding
from interpose.startup.resolution import Resolution


def make_plan(
    *,
    agent: AgentCandidate,
    layers: Iterable[Candidate],
    parts: Iterable[PartCandidate],
    bindings: Iterable[Binding],
    resolution: Resolution,
    setup_order: tuple[str, ...],
    lifespan_order: tuple[LifespanStep, ...],
    on_failure: Mapping[str, str],
    notes: tuple[Problem, ...],
) -> Plan:
    """Put together the plan of one agent. ``resolution`` must have an order."""
    known = {layer.id: layer for layer in layers}
    chain = [known[layer_id] for layer_id in resolution.order or ()]
    uses = _Uses(tuple(bindings))
    touching: dict[str, list[Edge]] = {}
    for edge in resolution.edges:
        touching.setdefault(edge.outer, []).append(edge)
        touching.setdefault(edge.inner, []).append(edge)
    return Plan(
        agent=_part(agent, uses),
        points=agent.points,
        layers=tuple(
            PlannedLayer(
                position=position,
                id=layer.id,
                middleware=layer.middleware,
                distribution=layer.distribution,
                version=layer.version,
                place=layer.place,
                stage=layer.effective_stage,
                reason=reason(layer, chain, resolution, known),
                held_by=resolution.held.get(layer.id, ()),
                edges=tuple(touching.get(layer.id, ())),
                overruled=tuple(
                    item
                    for item in resolution.overruled
                    if layer.id in (item.wish.outer, item.wish.inner)
                ),
                hooks=tuple(
                    PlannedHook(name, point, point in agent.points)
                    for name, point in layer.hooks.items()
                ),
                requires=uses.requires(layer.part),
                provides=uses.provides(layer.part),
                sees_input=input_view(chain[: position - 1]),
                sees_events=events_view(chain[position:]),
                rewrites_history=layer.rewrites_history,
                observes_only=layer.observes_only,
                form=layer.form,
                on_failure=on_failure[layer.id],
                settings=layer.settings,
            )
            for position, layer in enumerate(chain, 1)
        ),
        agent_sees=input_view(chain),
        parts=tuple(_part(part, uses) for part in parts),
        setup_order=setup_order,
        lifespan_order=lifespan_order,
        edges=resolution.edges,
        overruled=resolution.overruled,
        notes=notes,
    )


def events_view(further_in: Sequence[Candidate]) -> View:
    """Return what events have passed before they reach a layer: they come from the innermost."""
    altering = [layer for layer in further_in if layer.alters_the_stream]
    return View(
        masked_by=tuple(layer.id for layer in altering if _masks(layer)),
        changed_by=tuple(layer.id for layer in altering if not _masks(layer)),
    )


def input_view(further_out: Sequence[Candidate]) -> View:
    """Return what the input has passed before it reaches a layer: it comes from the outermost."""
    masking = [layer for layer in further_out if layer.covers_input and not layer.observes_only]
    return View(
        masked_by=tuple(layer.id for layer in masking),
        changed_by=tuple(
            layer.id
            for layer in further_out
            if layer not in masking
            and not layer.observes_only
            and ("on_input" in layer.hooks or layer.has_around_run)
        ),
    )


def _masks(layer: Candidate) -> bool:
    return layer.rewrites_history or layer.text_transform


def reason(
    layer: Candidate,
    chain: Sequence[Candidate],
    resolution: Resolution,
    known: Mapping[str, Candidate],
) -> str:
    """Say why a layer sits where it does: the edges that moved it, else its stage."""
    held = resolution.held.get(layer.id, ())
    if held:
        return "; ".join(_because(edge, layer, known) for edge in held)
    stage = f"stage {layer.effective_stage}"
    if layer.stage and layer.stage_place:
        stage += f" ({layer.stage_place})"
    companions = [item for item in chain if item.effective_stage == layer.effective_stage]
    return f"{stage}, file order" if len(companions) > 1 else stage


def _because(edge: Edge, layer: Candidate, known: Mapping[str, Candidate]) -> str:
    if edge.origin == "wall":
        if edge.outer == HISTORY_WALL:
            return "inside all that works on the stream: it rewrites history"
        return 'inside all that works on the expanded stream: form = "raw"'
    word, other = ("before", edge.inner) if edge.outer == layer.id else ("after", edge.outer)
    if not known[other].active:
        other += " (not in this plan)"
    if edge.origin == "operator":
        return f"{word} {other}: {edge.place or 'the operator'}"
    if edge.origin == "capability":
        return f"after {other}: {edge.declared_by} {edge.said}"
    return f"{word} {other}: wish of {edge.declared_by} ({edge.distribution})"


class _Uses:
    """The bindings of one agent, looked up from both ends."""

    def __init__(self, bindings: tuple[Binding, ...]) -> None:
        self._bindings = bindings

    def requires(self, part: PartCandidate) -> tuple[CapabilityUse, ...]:
        return tuple(
            CapabilityUse(
                item.capability.name,
                item.capability.version,
                item.capability.scope,
                item.optional,
                item.providers,
            )
            for item in self._bindings
            if item.consumer == part.ref
        )

    def provides(self, part: PartCandidate) -> tuple[CapabilityUse, ...]:
        return tuple(
            CapabilityUse(item.name, item.version, item.scope, False, self._users(part, item.key))
            for item in part.provides
        )

    def _users(self, part: PartCandidate, key: tuple[str, int]) -> tuple[PartRef, ...]:
        return tuple(
            item.consumer
            for item in self._bindings
            if item.capability.key == key and part.ref in item.providers
        )


def _part(part: PartCandidate, uses: _Uses) -> PlannedPart:
    return PlannedPart(
        ref=part.ref,
        use=part.use or part.id,
        distribution=part.distribution,
        version=part.version,
        place=part.place,
        requires=uses.requires(part),
        provides=uses.provides(part),
        settings=part.settings,
    )
