"""Make a plan out of a resolution: each layer's place, the reason for it, and what it sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from interpose.errors import Problem
from interpose.plan import (
    HISTORY_WALL,
    CapabilityUse,
    Edge,
    LifespanStep,
    OverruledWish,
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
    uses = _Uses(bindings)
    touching: dict[str, list[Edge]] = {}
    for edge in resolution.edges:
        touching.setdefault(edge.outer, []).append(edge)
        touching.setdefault(edge.inner, []).append(edge)
    overruled: dict[str, list[OverruledWish]] = {}
    for item in resolution.overruled:
        overruled.setdefault(item.wish.outer, []).append(item)
        overruled.setdefault(item.wish.inner, []).append(item)
    companions = Counter(layer.effective_stage for layer in chain)
    *seen_input, agent_sees = _input_views(chain)
    seen_events = _events_views(chain)
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
                reason=_reason(layer, companions, resolution, known),
                held_by=resolution.held.get(layer.id, ()),
                edges=tuple(touching.get(layer.id, ())),
                overruled=tuple(overruled.get(layer.id, ())),
                hooks=tuple(
                    PlannedHook(name, point, point in agent.points)
                    for name, point in layer.hooks.items()
                ),
                requires=uses.requires(layer.part),
                provides=uses.provides(layer.part),
                sees_input=sees_input,
                sees_events=sees_events,
                rewrites_history=layer.rewrites_history,
                observes_only=layer.observes_only,
                form=layer.form,
                on_failure=on_failure[layer.id],
                settings=layer.settings,
            )
            for position, (layer, sees_input, sees_events) in enumerate(
                zip(chain, seen_input, seen_events, strict=True), 1
            )
        ),
        agent_sees=agent_sees,
        parts=tuple(_part(part, uses) for part in parts),
        setup_order=setup_order,
        lifespan_order=lifespan_order,
        edges=resolution.edges,
        overruled=resolution.overruled,
        notes=notes,
    )


def _events_views(chain: Sequence[Candidate]) -> list[View]:
    """Return for each layer what events have passed before: they come from the innermost."""
    passed = accumulate(
        map(_done_to_events, reversed(chain)), lambda seen, by: _both(by, seen), initial=View()
    )
    return list(passed)[-2::-1]


def _input_views(chain: Sequence[Candidate]) -> list[View]:
    """Return for each layer, and the agent behind them, what the input has passed before."""
    return list(accumulate(map(_done_to_input, chain), _both, initial=View()))


def _both(outer: View, inner: View) -> View:
    """Join what two parts of a chain do; where one does nothing, the other's view is shared."""
    if not outer.masked_by and not outer.changed_by:
        return inner
    if not inner.masked_by and not inner.changed_by:
        return outer
    return View(outer.masked_by + inner.masked_by, outer.changed_by + inner.changed_by)


def _done_to_events(layer: Candidate) -> View:
    if not layer.alters_the_stream:
        return View()
    masks = layer.rewrites_history or layer.text_transform
    return View(masked_by=(layer.id,)) if masks else View(changed_by=(layer.id,))


def _done_to_input(layer: Candidate) -> View:
    if layer.observes_only:
        return View()
    if layer.covers_input:
        return View(masked_by=(layer.id,))
    changes = "on_input" in layer.hooks or layer.has_around_run
    return View(changed_by=(layer.id,)) if changes else View()


def _reason(
    layer: Candidate,
    companions: Mapping[str, int],
    resolution: Resolution,
    known: Mapping[str, Candidate],
) -> str:
    """Say why a layer sits where it does: the edges that moved it, else its stage.

    ``companions``: how many layers each stage has.
    """
    held = resolution.held.get(layer.id, ())
    if held:
        return "; ".join(_because(edge, layer, known) for edge in held)
    stage = f"stage {layer.effective_stage}"
    if layer.stage and layer.stage_place:
        stage += f" ({layer.stage_place})"
    return f"{stage}, file order" if companions[layer.effective_stage] > 1 else stage


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

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self._required: dict[PartRef, list[CapabilityUse]] = {}
        self._users: dict[tuple[tuple[str, int], PartRef], list[PartRef]] = {}
        for item in bindings:
            wanted = item.capability
            self._required.setdefault(item.consumer, []).append(
                CapabilityUse(
                    wanted.name, wanted.version, wanted.scope, item.optional, item.providers
                )
            )
            for provider in dict.fromkeys(item.providers):
                self._users.setdefault((wanted.key, provider), []).append(item.consumer)

    def requires(self, part: PartCandidate) -> tuple[CapabilityUse, ...]:
        return tuple(self._required.get(part.ref, ()))

    def provides(self, part: PartCandidate) -> tuple[CapabilityUse, ...]:
        return tuple(
            CapabilityUse(
                item.name,
                item.version,
                item.scope,
                False,
                tuple(self._users.get((item.key, part.ref), ())),
            )
            for item in part.provides
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
