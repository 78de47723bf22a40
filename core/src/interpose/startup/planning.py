"""From the configured parts to one plan per agent: binds, orders, refuses and explains. Pure.

:func:`plan_agents` is the whole of it. It never stops at a problem: what can be planned in spite
of one is planned, so that all problems of all agents are reported together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from interpose.errors import Problem
from interpose.plan import Edge, LifespanStep, PartRef, Plan
from interpose.startup.candidates import (
    AgentCandidate,
    Candidate,
    CapabilityRef,
    Choice,
    Offer,
    PartCandidate,
    listed,
    places,
)
from interpose.startup.capabilities import Binding, Market, bind, check_single, start_order
from interpose.startup.capability_checks import check_choices, check_declarations, check_scopes
from interpose.startup.edges import ordered_edge
from interpose.startup.explaining import make_plan
from interpose.startup.refusals import (
    check_agent_names,
    check_conflicts,
    check_essential,
    check_layer,
    on_failure,
)
from interpose.startup.resolution import Resolution, default_order, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """Everything that is configured for one host.

    ``layers`` are all of them, whether on or off and whomever they serve; ``variants`` replace a
    layer for one agent, by (agent id, layer id), where ``[agents.<id>.middleware.<layer>]`` changes
    its settings or switches it. ``parts`` are the providers and models, ``inactive`` the ids of
    those that are configured but off or failed. The rest: see
    :class:`~interpose.startup.capabilities.Market`.
    """

    agents: tuple[AgentCandidate, ...]
    layers: tuple[Candidate, ...] = ()
    variants: Mapping[tuple[str, str], Candidate] = field(default_factory=dict)
    parts: tuple[PartCandidate, ...] = ()
    inactive: tuple[str, ...] = ()
    application: tuple[CapabilityRef, ...] = ()
    assume_application: bool = False
    choices: tuple[Choice, ...] = ()
    offers: tuple[Offer, ...] = ()

    def layers_for(self, agent: str) -> list[Candidate]:
        """Return all layers as this agent has them, in default order."""
        layers = [self.variants.get((agent, layer.id), layer) for layer in self.layers]
        return default_order(
            replace(layer, state="elsewhere") if not _serves(layer, agent) else layer
            for layer in layers
        )


@dataclass(frozen=True, slots=True)
class Planned:
    """One plan for each agent whose layers could be ordered; the lifespans; every problem."""

    plans: Mapping[str, Plan]
    lifespan_order: tuple[LifespanStep, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _Chain:
    """What is known about one agent before the lifespans of the whole host are."""

    agent: AgentCandidate
    layers: tuple[Candidate, ...]
    bindings: tuple[Binding, ...]
    resolution: Resolution
    setup_order: tuple[str, ...]
    on_failure: Mapping[str, str]
    problems: tuple[Problem, ...]


def plan_agents(configured: Configured) -> Planned:
    """Resolve the layers of every agent and explain the result."""
    chains = [_chain(configured, agent) for agent in sorted(configured.agents, key=_file_order)]
    host_bindings, problems = _host_wide(configured, chains)
    lifespans, stuck = _lifespans(configured, chains, host_bindings)
    plans = {
        chain.agent.id: make_plan(
            agent=chain.agent,
            layers=chain.layers,
            parts=sorted(configured.parts, key=_file_order),
            bindings=(*chain.bindings, *host_bindings),
            resolution=chain.resolution,
            setup_order=chain.setup_order,
            lifespan_order=_lifespans_for(chain.agent.id, lifespans),
            on_failure=chain.on_failure,
            notes=tuple(item for item in chain.problems if item.severity != "error"),
        )
        for chain in chains
        if chain.resolution.order is not None
    }
    merged = _merge({chain.agent.id: chain.problems for chain in chains})
    return Planned(plans, tuple(lifespans), tuple(dict.fromkeys([*problems, *stuck, *merged])))


def _chain(configured: Configured, agent: AgentCandidate) -> _Chain:
    layers, problems = _without_unreachable(configured, agent)
    layers, market, bindings, missing = _bound(configured, agent, layers)
    active = [layer for layer in layers if layer.active]
    problems += missing
    problems += check_single(market)
    problems += check_conflicts(active)
    modes: dict[str, str] = {}
    needed = {ref for item in bindings if not item.optional for ref in item.providers}
    for layer in active:
        problems += check_layer(layer)
        modes[layer.id], refused = on_failure(layer, provides_required=layer.part.ref in needed)
        problems += [refused] if refused else []

    resolution = resolve(layers, _ordered(active, bindings))
    problems += resolution.problems
    by_id = {layer.id: layer for layer in active}
    in_order = [by_id[layer_id] for layer_id in resolution.order or by_id]
    setups, stuck = start_order([*(item.part for item in in_order), agent], bindings, "run")
    problems += stuck
    problems += _history_note(agent, in_order)
    return _Chain(
        agent=agent,
        layers=tuple(layers),
        bindings=tuple(bindings),
        resolution=resolution,
        setup_order=tuple(ref.id for ref in setups if ref.kind == "layer"),
        on_failure=modes,
        problems=tuple(problems),
    )


def _without_unreachable(
    configured: Configured, agent: AgentCandidate
) -> tuple[list[Candidate], list[Problem]]:
    """Refuse layers whose essential point the agent lacks; leave out those not ``required``."""
    agents = {item.id: item for item in configured.agents}
    layers: list[Candidate] = []
    problems: list[Problem] = []
    for layer in configured.layers_for(agent.id):
        problem = check_essential(layer, agent, agents) if layer.active else None
        if problem is None or layer.required:
            layers.append(layer)
            problems += [problem] if problem else []
        else:
            layers.append(replace(layer, state="failed"))
            problems.append(_left_out(layer, problem.message))
    return layers, problems


def _bound(
    configured: Configured, agent: AgentCandidate, layers: list[Candidate]
) -> tuple[list[Candidate], Market, list[Binding], list[Problem]]:
    """Bind what is required; leave out layers with ``required = false`` whose needs are not met.

    Leaving one out takes away what it provides, so this goes on until nothing changes.
    """
    warnings: list[Problem] = []
    models = [part for part in configured.parts if part.scope == "run"]
    while True:
        active = [layer.part for layer in layers if layer.active]
        market = _market(configured, (*configured.parts, agent, *active), layers)
        bindings, missing = bind(market, [*active, agent, *models])
        unmet = {
            item.consumer.id: item.capability
            for item in bindings
            if item.consumer.kind == "layer" and not item.providers and not item.optional
        }
        unmet = {
            layer.id: unmet[layer.id]
            for layer in layers
            if layer.id in unmet and not layer.required
        }
        if not unmet:
            return layers, market, bindings, [*warnings, *missing]
        warnings += [
            _left_out(
                layer, f"it requires the capability {unmet[layer.id]}, which nothing provides"
            )
            for layer in layers
            if layer.id in unmet
        ]
        layers = [
            replace(layer, state="failed") if layer.id in unmet else layer for layer in layers
        ]


def _market(
    configured: Configured, parts: tuple[PartCandidate, ...], layers: Iterable[Candidate]
) -> Market:
    # A choice that names a layer of another agent says nothing about this one.
    elsewhere = {layer.id for layer in layers if layer.state == "elsewhere"}
    elsewhere |= {agent.id for agent in configured.agents}
    here = {part.id for part in parts}
    return Market(
        parts=parts,
        application=configured.application,
        assume_application=configured.assume_application,
        choices=tuple(
            choice
            for choice in configured.choices
            if choice.provider in here or choice.provider not in elsewhere
        ),
        offers=configured.offers,
    )


def _left_out(layer: Candidate, why: str) -> Problem:
    return Problem(
        "left-out",
        f"{layer} is left out, because it is not required: {why}",
        places(layer.place),
        severity="warning",
    )


def _ordered(active: Sequence[Candidate], bindings: Iterable[Binding]) -> list[Edge]:
    by_id = {layer.id: layer for layer in active}
    return [
        ordered_edge(by_id[provider.id], by_id[item.consumer.id], str(item.capability))
        for item in bindings
        if item.capability.ordered and item.consumer.kind == "layer"
        for provider in item.providers
        if provider.kind == "layer" and provider != item.consumer
    ]


def _history_note(agent: AgentCandidate, layers: Iterable[Candidate]) -> list[Problem]:
    rewriters = [layer.id for layer in layers if layer.rewrites_history]
    if not rewriters or "HISTORY" in agent.points:
        return []
    sit, rewrite = ("sits", "rewrites") if len(rewriters) == 1 else ("sit", "rewrite")
    return [
        Problem(
            "history-cut",
            f"agent {agent.id} ({agent.use or agent.id}) does not offer HISTORY: "
            f"{listed(rewriters)} {sit} just outside it and {rewrite} what leaves it, "
            "not what it keeps and sends to its model",
            places(agent.place),
            severity="warning",
        )
    ]


def _host_wide(
    configured: Configured, chains: Sequence[_Chain]
) -> tuple[list[Binding], list[Problem]]:
    """Check what concerns the host as a whole; bind the parts that serve all agents."""
    served = {
        (layer.id, layer.settings_key): layer
        for chain in chains
        for layer in chain.layers
        if layer.active
    }
    layers = [layer.part for layer in served.values()]
    parts = (*configured.parts, *configured.agents, *layers)
    agents = [agent.id for agent in configured.agents]
    problems = [item for layer in configured.layers for item in check_agent_names(layer, agents)]
    problems += check_declarations(parts, configured.application)
    problems += check_scopes((*configured.parts, *configured.agents))
    market = Market(
        parts=parts,
        application=configured.application,
        assume_application=configured.assume_application,
        choices=configured.choices,
        offers=configured.offers,
    )
    idle = {layer.id for layer in configured.layers} - {layer_id for layer_id, _ in served}
    problems += check_choices(market, {*configured.inactive, *idle})
    bindings, missing = bind(market, [part for part in configured.parts if part.scope == "host"])
    return bindings, [*problems, *missing]


def _lifespans(
    configured: Configured, chains: Sequence[_Chain], host_bindings: Sequence[Binding]
) -> tuple[list[LifespanStep], list[Problem]]:
    """Order the lifespans of the whole host: providers and models, layers, agents, else by need."""
    layers = default_order(
        {layer.id: layer for chain in chains for layer in chain.layers if layer.active}.values()
    )
    parts = [
        *sorted(configured.parts, key=_file_order),
        *(layer.part for layer in layers),
        *sorted(configured.agents, key=_file_order),
    ]
    starting = [part for part in parts if part.scope == "host" or part.kind == "layer"]
    bindings = [*host_bindings, *(item for chain in chains for item in chain.bindings)]
    order, stuck = start_order(starting, bindings, "host")
    served: dict[str, dict[str, list[str]]] = {}
    for chain in chains:
        for layer in chain.layers:
            if layer.active:
                users = served.setdefault(layer.id, {})
                users.setdefault(layer.settings_key, []).append(chain.agent.id)
    return [step for ref in order for step in _steps(ref, served.get(ref.id, {}), chains)], stuck


def _steps(
    ref: PartRef, users: Mapping[str, Sequence[str]], chains: Sequence[_Chain]
) -> list[LifespanStep]:
    """Return the lifespans of a part. ``users``: the agents of a layer, by its settings."""
    if ref.kind == "agent":
        return [LifespanStep(ref, (ref.id,))]
    if ref.kind != "layer":
        return [LifespanStep(ref)]
    if [len(agents) for agents in users.values()] == [len(chains)]:
        return [LifespanStep(ref)]
    return [LifespanStep(ref, tuple(agents)) for agents in users.values()]


def _lifespans_for(agent: str, steps: Iterable[LifespanStep]) -> tuple[LifespanStep, ...]:
    return tuple(step for step in steps if not step.agents or agent in step.agents)


def _merge(found: Mapping[str, Sequence[Problem]]) -> list[Problem]:
    """Report a problem that several agents have once; say whose it is unless all have it."""
    agents: dict[Problem, list[str]] = {}
    for agent, problems in found.items():
        for problem in dict.fromkeys(problems):
            agents.setdefault(problem, []).append(agent)
    return [
        problem
        if len(names) == len(found)
        else replace(problem, message=f"{problem.message}\nonly for agent {listed(names)}")
        for problem, names in agents.items()
    ]


def _serves(layer: Candidate, agent: str) -> bool:
    return layer.agents is None or any(item.name == agent for item in layer.agents)


def _file_order(part: PartCandidate) -> tuple[int, str]:
    return (part.index, part.id)
