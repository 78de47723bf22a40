"""Write a plan for people: as text, as JSON, as a Mermaid flow chart, and as the answer to *why*.

The text is plain ASCII, so that it survives any terminal, pipe and log.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from interpose.errors import UsageError, nearest, render
from interpose.plan import (
    CapabilityUse,
    Edge,
    OverruledWish,
    PartRef,
    Plan,
    PlannedHook,
    PlannedLayer,
    PlannedPart,
    SettingOrigin,
)
from interpose.startup.candidates import places, source
from interpose.startup.edges import explain, explain_chain
from interpose.startup.graph import graph_of, shortest_path

_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_LABEL = 11
_WIDTH = 80

Fact = tuple[str, str]
Paint = Callable[[str, str], str]


def plan_json(plan: Plan) -> str:
    """Return the plan as indented JSON; :meth:`Plan.to_json` has the same as Python values."""
    return json.dumps(plan.to_json(), indent=2, ensure_ascii=False)


def plan_text(plan: Plan, color: bool = False) -> str:  # noqa: FBT001, FBT002 - the CLI's one switch
    """Return the plan as text, outermost layer first; ``color`` adds ANSI escapes."""
    paint = _colored if color else _plain
    agent = plan.agent
    lines = [f"Plan for agent {paint(agent.ref.id, _BOLD)} ({agent.use})", ""]
    lines += ["  caller", "    |  input goes down, events come up"]
    for layer in plan.layers:
        name = layer.id if layer.id == layer.middleware else f"{layer.id} ({layer.middleware})"
        origin = f"{layer.stage}, {source(layer.distribution, layer.version)}"
        lines.append("    |")
        lines.append(f"  {layer.position:>2}. {paint(name, _BOLD)}  {paint(origin, _DIM)}")
        lines += _table("    |    ", _facts(layer), paint)
    about_agent = [
        ("offers", ", ".join(plan.points)),
        ("sees", f"input {plan.agent_sees}"),
        *_capability_facts(agent.requires, agent.provides),
    ]
    lines += ["    |", f"  agent {agent.ref.id}", *_table("         ", about_agent, paint)]
    if plan.parts:
        lines += ["", "Providers and models"]
        lines += [f"  {line}" for part in plan.parts for line in _part_lines(part, paint)]
    if plan.setup_order != plan.order:
        lines += ["", f"Setups run in the order {', '.join(plan.setup_order)}"]
    tied = _tied_lifespans(plan)
    if tied:
        lines += ["", f"Lifespans start in the order {', '.join(tied)}"]
    if plan.notes:
        lines += ["", render(plan.notes)]
    return "\n".join(lines)


def _facts(layer: PlannedLayer) -> list[Fact]:
    facts = [
        ("place", layer.reason),
        ("sees", f"input {layer.sees_input}; events {layer.sees_events}"),
    ]
    if layer.live_hooks:
        facts.append(("hooks", ", ".join(layer.live_hooks)))
    if layer.inert_hooks:
        facts.append(("inert", ", ".join(map(_inert, layer.inert_hooks))))
    facts += _capability_facts(layer.requires, layer.provides)
    facts += [("edge", explain(edge)) for edge in layer.edges if _shown(edge, layer)]
    own = (item for item in layer.overruled if item.wish.declared_by == layer.id)
    facts += [("overruled", _overruled(item)) for item in own]
    if layer.on_failure != "fail":
        facts.append(("on failure", layer.on_failure))
    if layer.settings:
        facts.append(("settings", _settings(layer.settings)))
    return facts


def _settings(settings: Sequence[SettingOrigin]) -> str:
    """Say where each setting came from; those that nobody set are only counted."""
    said = [f"{item.name} ({item.origin})" for item in settings if item.origin != "default"]
    left = len(settings) - len(said)
    if left:
        said.append(f"{left} by default" if said else "all by default")
    return ", ".join(said)


def _shown(edge: Edge, layer: PlannedLayer) -> bool:
    """Say whether to show the edge: with who declared it, unless the reason named it already."""
    return edge.declared_by == layer.id and edge.origin != "wall" and edge not in layer.held_by


def _inert(hook: PlannedHook) -> str:
    return f"{hook.name} (the agent does not offer {hook.point})"


def _overruled(item: OverruledWish) -> str:
    wish = item.wish
    chain = "; ".join(explain_chain(item.by))
    return f"wish {wish.said} of {wish.declared_by} ({wish.distribution}), because {chain}"


def _capability_facts(
    requires: Iterable[CapabilityUse], provides: Iterable[CapabilityUse]
) -> list[Fact]:
    facts = []
    for use in requires:
        who = ", ".join(map(str, use.parts)) or "nobody (optional)"
        facts.append(("requires", f"{use.name}, provided by {who}"))
    for use in provides:
        users = ", ".join(map(str, use.parts)) or "nobody here"
        facts.append(("provides", f"{use.name}, used by {users}"))
    return facts


def _table(margin: str, facts: Iterable[Fact], paint: Paint) -> list[str]:
    """Write labelled facts, long ones on several lines under each other."""
    lines = []
    for label, text in facts:
        head = f"{label:<{_LABEL}}"
        for part in textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False):
            lines.append(f"{margin}{paint(head, _DIM)}{part}")
            head = " " * _LABEL
    return lines


def _part_lines(part: PlannedPart, paint: Paint) -> list[str]:
    origin = source(part.distribution, part.version)
    facts = _capability_facts(part.requires, part.provides)
    return [f"{part.ref}  {paint(origin, _DIM)}", *_table("  ", facts, paint)]


def _tied_lifespans(plan: Plan) -> list[str]:
    """Name the parts whose lifespans depend on another's, in the order in which they start."""
    uses = {PartRef("layer", layer.id): layer.requires for layer in plan.layers}
    uses |= {part.ref: part.requires for part in (*plan.parts, plan.agent)}
    tied: set[PartRef] = set()
    for consumer, required in uses.items():
        for use in required:
            if use.scope == "host" and use.parts:
                tied |= {consumer, *use.parts}
    return [str(step.part) for step in plan.lifespan_order if step.part in tied]


def plan_mermaid(plan: Plan) -> str:
    """Return the plan as a Mermaid flow chart: the chain, and every declared edge dotted."""
    # Ids may be words that Mermaid reserves (end), so nodes are numbered.
    names = {layer.id: f"L{layer.position}" for layer in plan.layers}
    lines = ["flowchart TB", '  caller(["caller"])']
    for layer in plan.layers:
        label = f"{layer.position}. {layer.id} ({layer.stage}): {layer.reason}"
        lines.append(f'  {names[layer.id]}["{_quoted(label)}"]')
    lines.append(f'  agent(["{_quoted(f"agent {plan.agent.ref.id} ({plan.agent.use})")}"])')
    lines.append(f"  {' --> '.join(['caller', *names.values(), 'agent'])}")
    for edge in plan.edges:
        if edge.outer in names and edge.inner in names:
            label = _quoted(f"{edge.strength}: {edge.declared_by} {edge.said}")
            lines.append(f'  {names[edge.outer]} -. "{label}" .-> {names[edge.inner]}')
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Escape for a quoted Mermaid label, which reads ``#name;`` as an entity and HTML as HTML."""
    escapes = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;"}
    return "".join(escapes.get(char, char) for char in text)


def why(plan: Plan, a: str, b: str) -> str:
    """Explain the order of two layers: each edge between them, who declared it, what each sees.

    Raises :class:`UsageError` when the plan has no such layer, or when both are the same.
    """
    first, second = sorted((_layer(plan, a), _layer(plan, b)), key=lambda item: item.position)
    if first is second:
        raise UsageError(f"{a} is one layer, and an order takes two", hint="name two layers")
    lines = [f"{first.id} ({first.position}.) is outside {second.id} ({second.position}.)"]
    direct = [edge for edge in plan.edges if (edge.outer, edge.inner) == (first.id, second.id)]
    lines += [f"  {edge.strength}: {explain(edge)}" for edge in direct]
    lines += [] if direct else _chain_or_default(plan, first, second)
    lines += [
        f"  overruled: {_overruled(item)}"
        for item in plan.overruled
        if {item.wish.outer, item.wish.inner} == {first.id, second.id}
    ]
    lines += [
        f"{layer.id} sees input {layer.sees_input}; events {layer.sees_events}"
        for layer in (first, second)
    ]
    return "\n".join(lines)


def _chain_or_default(plan: Plan, first: PlannedLayer, second: PlannedLayer) -> list[str]:
    pairs = {(edge.outer, edge.inner): edge for edge in reversed(plan.edges)}
    nodes = dict.fromkeys([first.id, second.id, *(node for pair in sorted(pairs) for node in pair)])
    path = shortest_path(graph_of(nodes, sorted(pairs)), first.id, second.id)
    if path:
        steps = explain_chain([pairs[pair] for pair in pairwise(path)])
        return [f"  chain: {step}" for step in steps]
    lines = ["  no chain of edges ties them to each other"]
    moved = [layer for layer in (first, second) if layer.held_by]
    if moved:
        lines += [f"  {layer.id} left its default place: {layer.reason}" for layer in moved]
    elif first.stage != second.stage:
        lines.append(f"  default order: stage {first.stage} is outside stage {second.stage}")
    else:
        where = ", ".join(places(first.place, second.place))
        lines.append(
            f"  default order: both are of stage {first.stage}, "
            f"and {first.id} comes first in file order{f' ({where})' if where else ''}"
        )
    return lines


def _layer(plan: Plan, layer_id: str) -> PlannedLayer:
    found = plan.layer(layer_id)
    if found is not None:
        return found
    near = nearest(layer_id, plan.order)
    raise UsageError(
        f"the plan for agent {plan.agent.ref.id} has no layer {layer_id}",
        hint=f"did you mean {near}?" if near else f"its layers: {', '.join(plan.order) or 'none'}",
    )


def _colored(text: str, style: str) -> str:
    return f"{style}{text}{_RESET}"


def _plain(text: str, style: str) -> str:  # noqa: ARG001 - the twin of _colored
    return text
