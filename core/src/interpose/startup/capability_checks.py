"""What is wrong with capabilities before anybody is bound: declarations, scopes, choices."""

from __future__ import annotations

from collections.abc import Iterable

from interpose.errors import Problem, nearest
from interpose.startup.candidates import CapabilityRef, Choice, PartCandidate, listed, places
from interpose.startup.capabilities import Market, chosen, part_order


def check_declarations(
    parts: Iterable[PartCandidate], application: Iterable[CapabilityRef]
) -> list[Problem]:
    """Return an error for each capability that two distributions declare differently."""
    seen: dict[tuple[str, int], dict[tuple[str, bool, bool], tuple[CapabilityRef, str]]] = {}

    def note(item: CapabilityRef, place: str) -> None:
        shape = (item.scope, item.single, item.ordered)
        seen.setdefault(item.key, {}).setdefault(shape, (item, place))

    for part in sorted(parts, key=part_order):
        for item in (*part.provides, *part.requires, *part.optional_requires):
            note(item, part.place)
    for item in application:
        note(item, "")
    problems = []
    for key in sorted(seen):
        shapes = list(seen[key].values())
        if len(shapes) == 1:
            continue
        texts = [
            f'{item.declared_by} says scope="{item.scope}", single={item.single}, '
            f"ordered={item.ordered}"
            for item, _ in shapes
        ]
        problems.append(
            Problem(
                "capability-mismatch",
                "\n".join([f"the capability {shapes[0][0]} is declared in different ways", *texts]),
                places(*(place for _, place in shapes)),
                "install releases of these distributions that agree on it",
            )
        )
    return problems


def check_scopes(parts: Iterable[PartCandidate]) -> list[Problem]:
    """Return an error where a part that lives as long as the host deals in values of one run."""
    problems = []
    for part in parts:
        if part.scope != "host":
            continue
        for verb, items in (("requires", part.requires), ("provides", part.provides)):
            problems += [
                Problem(
                    "capability-scope",
                    f"{part} {verb} the capability {item}, which has run scope: "
                    f"a {part.kind} lives as long as the host, and the value as long as one run",
                    places(part.place),
                    "let a layer do it in setup, or use a capability of host scope",
                )
                for item in items
                if item.scope == "run"
            ]
    return problems


def check_choices(market: Market, inactive: Iterable[str]) -> list[Problem]:
    """Return errors for choices that cannot be met, a warning for those that choose nothing.

    ``inactive``: ids of parts that are configured but switched off or failed.
    """
    off = set(inactive)
    found = (_choice_problem(market, choice, off) for choice in market.choices)
    return [problem for problem in found if problem]


def _choice_problem(market: Market, choice: Choice, inactive: set[str]) -> Problem | None:
    name, where = choice.capability, places(choice.place)
    said = f"[capabilities] {chosen(name, choice.provider)}"
    if choice.provider == "application":
        if market.assume_application or any(item.name == name for item in market.application):
            return None
        return Problem(
            "not-promised",
            f"{said}, but the application does not promise it",
            where,
            "name the capability in Host(provide={...}) or Host(provides=[...])",
        )

    by_id = {known: part for part in market.parts for known in (part.id, str(part.ref))}
    if choice.provider not in by_id and choice.provider not in inactive:
        near = nearest(choice.provider, sorted({part.id for part in market.parts} | inactive))
        return Problem(
            "unknown-provider",
            f"{said}: there is no part with this id",
            where,
            f"did you mean {near}?" if near else "name a provider, layer, model or agent",
        )

    provided, required = _names(market)
    if name not in provided | required:
        near = nearest(name, sorted(provided | required))
        return Problem(
            "unused-choice",
            f"{said}: no active part provides or requires {name}",
            where,
            f"did you mean {near}?" if near else "remove it",
            "warning",
        )

    able = [part for part in market.parts if any(item.name == name for item in part.provides)]
    if not able or any(choice.provider in (part.id, str(part.ref)) for part in able):
        return None
    why = "it does not provide it" if choice.provider in by_id else "it is not active"
    others = sorted({part.id for part in able})
    return Problem(
        "unknown-provider",
        f"{said}: {why}",
        where,
        f"choose {listed(others, conjunction='or')}",
    )


def _names(market: Market) -> tuple[set[str], set[str]]:
    """Return the names of the capabilities that are provided, and of those required."""
    provided = {item.name for part in market.parts for item in part.provides}
    provided |= {item.name for item in market.application}
    required = {
        item.name for part in market.parts for item in (*part.requires, *part.optional_requires)
    }
    return provided, required
