"""What a plan says of each layer, against plain definitions of it that look at every pair."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.plan import CapabilityUse, PartRef, Plan, PlannedLayer, PlannedPart, View
from interpose.startup.candidates import (
    AgentCandidate,
    Candidate,
    CapabilityRef,
    PartCandidate,
    Reference,
)
from interpose.startup.graph import graph_of, reachable, shortest_path
from interpose.startup.planning import Configured, plan_agents
from interpose.startup.resolution import resolve

quick = settings(max_examples=80, deadline=None)
AGENT = AgentCandidate(id="default")
NAMES = [f"l{number}" for number in range(7)]
CAPABILITIES = [
    CapabilityRef("a", scope="run", single=False, ordered=True),
    CapabilityRef("a", version=2, scope="run", single=False),
    CapabilityRef("b", scope="run", single=False),
    CapabilityRef("c", single=False),
]
some_names = st.lists(st.sampled_from(NAMES), max_size=3, unique=True).map(tuple)
some_capabilities = st.lists(st.sampled_from(CAPABILITIES), max_size=2, unique=True).map(tuple)


@st.composite
def hosts(draw: st.DrawFn) -> Configured:
    """Layers that alter input and events or not, and that provide and require."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    layers = [
        Candidate(
            id=name,
            middleware=f"m-{name}",
            file_index=index,
            before=tuple(f"m-{other}" for other in draw(some_names)),
            provides=draw(some_capabilities),
            requires=draw(some_capabilities),
            optional_requires=draw(some_capabilities),
            hooks={"on_input": "RUN"} if draw(st.booleans()) else {},
            has_event_hooks=draw(st.booleans()),
            has_around_run=draw(st.integers(0, 4)) == 0,
            observes_only=draw(st.booleans()),
            text_transform=draw(st.booleans()),
            covers_input=draw(st.booleans()),
            settings_key=draw(st.sampled_from(["", "one"])),
        )
        for index, name in enumerate(names)
    ]
    parts = [
        PartCandidate(kind="provider", id=name, index=index, provides=draw(some_capabilities))
        for index, name in enumerate(["p0", "p1"][: draw(st.integers(0, 2))])
    ]
    return Configured(agents=(AGENT,), layers=tuple(layers), parts=tuple(parts))


def planned(host: Configured) -> list[tuple[Plan, list[Candidate]]]:
    """Return the plan, if there is an order, with its layers as they were configured."""
    by_id = {layer.id: layer for layer in host.layers}
    return [
        (plan, [by_id[name] for name in plan.order]) for plan in plan_agents(host).plans.values()
    ]


@quick
@given(hosts())
def test_a_layer_sees_what_all_layers_between_it_and_the_source_make_of_it(
    host: Configured,
) -> None:
    for plan, chain in planned(host):
        for number, layer in enumerate(plan.layers):
            assert layer.sees_input == input_view(chain[:number])
            assert layer.sees_events == events_view(chain[number + 1 :])
        assert plan.agent_sees == input_view(chain)


def events_view(further_in: list[Candidate]) -> View:
    altering = [layer for layer in further_in if layer.alters_the_stream]
    masking = [layer for layer in altering if layer.rewrites_history or layer.text_transform]
    return View(
        tuple(layer.id for layer in masking),
        tuple(layer.id for layer in altering if layer not in masking),
    )


def input_view(further_out: list[Candidate]) -> View:
    altering = [layer for layer in further_out if not layer.observes_only]
    masking = [layer for layer in altering if layer.covers_input]
    return View(
        tuple(layer.id for layer in masking),
        tuple(
            layer.id
            for layer in altering
            if layer not in masking and ("on_input" in layer.hooks or layer.has_around_run)
        ),
    )


@quick
@given(hosts())
def test_the_uses_of_capabilities_are_the_same_from_both_ends(host: Configured) -> None:
    for plan, chain in planned(host):
        every: list[Candidate | PartCandidate] = [*chain, *host.parts]
        refs = [*(PartRef("layer", layer.id) for layer in chain), *(p.ref for p in host.parts)]
        uses: list[tuple[PartRef, PlannedLayer | PlannedPart]] = [
            (PartRef("layer", layer.id), layer) for layer in plan.layers
        ]
        for own, part in [*uses, *((part.ref, part) for part in plan.parts)]:
            for use in part.requires:
                assert set(use.parts) == {
                    ref
                    for ref, other in zip(refs, every, strict=True)
                    if (use.name, use.version) in {item.key for item in other.provides}
                }
            for use in part.provides:
                assert list(use.parts) == [
                    PartRef("layer", user.id)
                    for user in plan_order(chain, host)
                    for wanted in asked(plan, user.id)
                    if (wanted.name, wanted.version) == (use.name, use.version)
                    and own in wanted.parts
                ]


def plan_order(chain: list[Candidate], host: Configured) -> list[Candidate]:
    """Return the layers in file order: so their requirements are met."""
    return [layer for layer in host.layers if layer in chain]


def asked(plan: Plan, layer_id: str) -> tuple[CapabilityUse, ...]:
    layer = plan.layer(layer_id)
    return layer.requires if layer else ()


@quick
@given(hosts(), st.data())
def test_exactly_the_wishes_that_musts_lead_against_are_overruled(
    host: Configured, data: st.DataObject
) -> None:
    layers = [
        replace(layer, operator_before=tuple(Reference(name) for name in data.draw(some_names)))
        for layer in host.layers
    ]
    result = resolve(layers)
    edges = [*result.edges, *(item.wish for item in result.overruled)]
    musts = [(edge.outer, edge.inner) for edge in edges if edge.strength == "must"]
    nodes = dict.fromkeys(node for edge in edges for node in (edge.outer, edge.inner))
    graph = graph_of(nodes, musts)
    if any(node in reachable(graph, node) for node in graph):
        assert result.order is None
        return
    against = {
        (edge.outer, edge.inner)
        for edge in edges
        if edge.strength == "wish" and edge.outer in reachable(graph, edge.inner)
    }
    assert {(item.wish.outer, item.wish.inner) for item in result.overruled} == against
    for item in result.overruled:
        shortest = shortest_path(graph, item.wish.inner, item.wish.outer) or []
        assert len(item.by) == len(shortest) - 1
