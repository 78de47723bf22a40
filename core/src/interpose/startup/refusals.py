"""Combinations that the host refuses to start, whatever the order: one rule, one function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from interpose.errors import Problem, nearest
from interpose.plan import STAGES
from interpose.startup.candidates import AgentCandidate, Candidate, listed, places
from interpose.startup.edges import by_name


def check_layer(layer: Candidate) -> list[Problem]:
    """Return what is wrong with an active layer by itself."""
    rules: tuple[Callable[[Candidate], Problem | None], ...] = (
        _stage_is_known,
        _rewriter_has_no_around_run,
        _raw_only_observes_or_rewrites,
    )
    return [problem for rule in rules if (problem := rule(layer))]


def _stage_is_known(layer: Candidate) -> Problem | None:
    stage = layer.effective_stage
    if stage in STAGES:
        return None
    near = nearest(stage, STAGES)
    return Problem(
        "unknown-stage",
        f'{layer} has the stage "{stage}", and there is none of that name',
        places(layer.stage_place or layer.place),
        f'did you mean "{near}"?' if near else f"stages are: {', '.join(STAGES)}",
    )


def _rewriter_has_no_around_run(layer: Candidate) -> Problem | None:
    if not (layer.rewrites_history and layer.has_around_run):
        return None
    return Problem(
        "rewriter-wraps-run",
        f"{layer} rewrites history and has around_run: "
        "the agent folds what rewriters return into its history, and a wrapped run cannot be",
        places(layer.place),
        "split the middleware in two: one that rewrites in event hooks, one that wraps the run",
    )


def _raw_only_observes_or_rewrites(layer: Candidate) -> Problem | None:
    if layer.form != "raw" or layer.rewrites_history or not layer.alters_the_stream:
        return None
    return Problem(
        "raw-form",
        f'{layer} has form = "raw", and neither observes_only nor rewrites_history: '
        "raw layers lie inside the expansion of chunks, innermost of all",
        places(layer.place),
        "declare one of the two, or take the expanded form",
    )


def check_agent_names(layer: Candidate, agents: Iterable[str]) -> list[Problem]:
    """Return an error for each unknown agent in ``layer.agents``."""
    known = sorted(agents)
    problems = []
    for reference in layer.agents or ():
        if reference.name in known:
            continue
        near = nearest(reference.name, known)
        problems.append(
            Problem(
                "unknown-agent",
                f'layer {layer.id} says agents = ["{reference.name}"], '
                f"but there is no agent {reference.name}",
                places(reference.place or layer.place),
                f"did you mean {near}?" if near else f"agents are: {', '.join(known) or 'none'}",
            )
        )
    return problems


def check_conflicts(active: Sequence[Candidate]) -> list[Problem]:
    """Return an error for each pair of layers of which one says that they exclude each other.

    A middleware that names itself may have one layer only.
    """
    named = by_name(active)
    found: dict[frozenset[str], Problem] = {}
    for layer in active:
        for name in layer.conflicts:
            for other in named.get(name, ()):
                pair = frozenset((layer.id, other.id))
                if other is layer or pair in found:
                    continue
                found[pair] = Problem(
                    "conflict",
                    f"{layer} and {other} exclude each other: "
                    f'{layer.middleware} says conflicts = ["{name}"]',
                    places(layer.place, other.place),
                    f"switch one of them off, or let them serve different agents, for example\n"
                    f"[middleware.{other.id}]\nenabled = false",
                )
    return list(found.values())


def check_essential(
    layer: Candidate, agent: AgentCandidate, agents: Mapping[str, AgentCandidate]
) -> Problem | None:
    """Return an error if the agent lacks a point without which the layer only pretends to work."""
    lacking = [point for point in layer.essential if point not in agent.points]
    if not lacking:
        return None
    able = [
        other.id
        for other in sorted(agents.values(), key=lambda item: (item.index, item.id))
        if not set(layer.essential) - set(other.points)
    ]
    what = f"point{'s' if len(lacking) > 1 else ''} {listed(lacking)}"
    if able:
        names = ", ".join(f'"{name}"' for name in able)
        hint = (
            f"let it serve agents that offer the {what}\n"
            f"[middleware.{layer.id}]\nlayer = {{ agents = [{names}] }}"
        )
    else:
        hint = f"use an agent that offers the {what}, or switch the layer off"
    return Problem(
        "essential-point",
        f"{layer} needs the {what}, "
        f"which agent {agent.id} ({agent.use or agent.id}) does not offer: "
        "there it could only hide events, and what it is to prevent would happen all the same",
        places(layer.place, agent.place),
        hint,
    )


def on_failure(layer: Candidate, *, provides_required: bool) -> tuple[str, Problem | None]:
    """Return the effective ``on_failure`` and an error if the one asked for is refused.

    ``skip`` lets a run go on without the layer, which is refused where that would let secrets
    through, lose a safeguard, or take away what others need. The default of ``observe`` gives way.
    """
    reason = _why_not_skip(layer, provides_required=provides_required)
    if layer.on_failure is None:
        skips = layer.effective_stage == "observe" and reason is None
        return ("skip" if skips else "fail"), None
    if layer.on_failure != "skip" or reason is None:
        return layer.on_failure, None
    return "fail", Problem(
        "on-failure",
        f'{layer} has on_failure = "skip", and {reason}: '
        "after a failure the run would go on without it",
        places(layer.on_failure_place or layer.place),
        'set on_failure = "fail"',
    )


def _why_not_skip(layer: Candidate, *, provides_required: bool) -> str | None:
    if layer.rewrites_history:
        return "it rewrites history"
    if layer.text_transform:
        return "it is a text transform"
    if layer.essential:
        return f"it needs the point {listed(layer.essential)} as a safeguard"
    if provides_required:
        return "another part requires a capability that it provides"
    return None
