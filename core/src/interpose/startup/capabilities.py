"""Who provides which capability to whom, and the order in which that makes parts start.

A capability is its name and major version. Parts that provide: layers, ``[providers.<id>]``,
models, agents and the application. :func:`bind` finds the provider of everything required;
:func:`start_order` sorts parts so that a needed provider comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from interpose.errors import Problem
from interpose.plan import PartRef
from interpose.startup.candidates import CapabilityRef, Choice, Offer, PartCandidate, listed, places
from interpose.startup.graph import graph_of, needed_first, shortest_cycles

APPLICATION = PartRef("application")
_BARE_KEY = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@dataclass(frozen=True, slots=True)
class Binding:
    """One requirement of one part and the parts that meet it (several unless single; or none)."""

    consumer: PartRef
    capability: CapabilityRef
    optional: bool
    providers: tuple[PartRef, ...]


@dataclass(frozen=True, slots=True)
class Market:
    """Everything that decides who may provide: the active parts and what the file says.

    ``application``: what the embedding code promised (``Host(provides=...)``). With
    ``assume_application`` a choice of ``"application"`` counts as its promise: ``check`` runs
    without that code. ``offers``: installed but inactive plugins.
    """

    parts: tuple[PartCandidate, ...]
    application: tuple[CapabilityRef, ...] = ()
    assume_application: bool = False
    choices: tuple[Choice, ...] = ()
    offers: tuple[Offer, ...] = ()
    _providers: Mapping[tuple[str, int], list[PartCandidate]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Index the parts once: every requirement asks for its providers."""
        found: dict[tuple[str, int], list[PartCandidate]] = {}
        for part in sorted(self.parts, key=part_order):
            for key in dict.fromkeys(item.key for item in part.provides):
                found.setdefault(key, []).append(part)
        object.__setattr__(self, "_providers", found)

    def providers(self, key: tuple[str, int]) -> Sequence[PartCandidate]:
        """Return the active parts that provide this capability, in file order."""
        return self._providers.get(key, ())

    def promised(self, capability: CapabilityRef) -> bool:
        """Say whether the application provides it."""
        if any(item.key == capability.key for item in self.application):
            return True
        chosen = self.choice(capability.name)
        return self.assume_application and chosen is not None and chosen.provider == "application"

    def choice(self, name: str) -> Choice | None:
        """Return what ``[capabilities]`` says about this name."""
        return next((choice for choice in self.choices if choice.capability == name), None)

    def selected(self, capability: CapabilityRef) -> tuple[PartRef, ...]:
        """Return who provides it, after the operator's choice."""
        found = [part.ref for part in self.providers(capability.key)]
        if self.promised(capability):
            found.append(APPLICATION)
        choice = self.choice(capability.name)
        if choice is None:
            return tuple(found)
        return tuple(ref for ref in found if choice.provider in (ref.id, str(ref)))


def bind(market: Market, consumers: Iterable[PartCandidate]) -> tuple[list[Binding], list[Problem]]:
    """Return the binding of every requirement, and an error for each capability nobody provides."""
    bindings: list[Binding] = []
    missing: dict[tuple[str, int], tuple[CapabilityRef, list[PartCandidate]]] = {}
    for part in sorted(consumers, key=part_order):
        required = {item.key for item in part.requires}
        wanted = [(item, False) for item in part.requires]
        wanted += [(item, True) for item in part.optional_requires if item.key not in required]
        for capability, optional in wanted:
            providers = market.selected(capability)
            bindings.append(Binding(part.ref, capability, optional, providers))
            if not providers and not optional and not _refused_elsewhere(market, capability):
                missing.setdefault(capability.key, (capability, []))[1].append(part)
    return bindings, [_missing(market, *missing[key]) for key in sorted(missing)]


def _refused_elsewhere(market: Market, capability: CapabilityRef) -> bool:
    """Say whether the choice is at fault: then that is the error, and not a missing provider."""
    choice = market.choice(capability.name)
    if choice is None:
        return False
    return choice.provider == "application" or bool(market.providers(capability.key))


def _missing(market: Market, capability: CapabilityRef, requirers: list[PartCandidate]) -> Problem:
    choice = market.choice(capability.name)
    installed = [offer for offer in market.offers if offer.capability == capability.name]
    verb = "requires" if len(requirers) == 1 else "require"
    lines = [
        f"{listed([str(part) for part in requirers])} {verb} the capability {capability}, "
        + (
            f"which the file expects from {choice.provider}, and that does not provide it"
            if choice
            else "which nothing active provides"
        ),
        f"active parts provide: {_provided_by_all(market)}",
    ]
    if installed:
        names = [f"{offer.plugin} ({offer.distribution})" for offer in installed]
        lines.append(f"installed and not active, but could provide it: {listed(names)}")
    where = places(*(part.place for part in requirers), *((choice.place,) if choice else ()))
    return Problem("missing-capability", "\n".join(lines), where, _remedy(capability, installed))


def _provided_by_all(market: Market) -> str:
    known: dict[tuple[str, int], list[str]] = {}
    for part in sorted(market.parts, key=part_order):
        for item in part.provides:
            known.setdefault(item.key, []).append(str(part.ref))
    for item in market.application:
        known.setdefault(item.key, []).append("the application")
    texts = [
        f"{name} version {version} ({', '.join(who)})"
        for (name, version), who in sorted(known.items())
    ]
    return ", ".join(texts) or "none"


def _remedy(capability: CapabilityRef, installed: Sequence[Offer]) -> str:
    if not installed:
        return (
            "activate a plugin that provides it, or let the application provide it:\n"
            "Host(provides=[...]) in code, and in the file\n"
            f"[capabilities]\n{chosen(capability.name, APPLICATION.kind)}"
        )
    offer = installed[0]
    table = offer.table or "providers"
    hint = f"add to the file\n[{table}.{offer.plugin}]"
    if offer.table is None:
        hint += f"\nor, if {offer.plugin} provides it as a middleware, [middleware.{offer.plugin}]"
    return hint


def chosen(name: str, provider: str) -> str:
    """Write a choice as the line of TOML that makes it."""
    key = name if set(name) <= _BARE_KEY else f'"{name}"'
    return f'{key} = "{provider}"'


def check_single(market: Market) -> list[Problem]:
    """Return an error for each single capability that several parts provide and nobody chose."""
    declared = {item.key: item for part in market.parts for item in part.provides}
    problems: list[Problem] = []
    for key in sorted(declared):
        capability = declared[key]
        selected = market.selected(capability)
        if not capability.single or len(selected) < 2:  # noqa: PLR2004 - two are one too many
            continue
        parts = [part for part in market.providers(key) if part.ref in selected]
        names = [str(part) for part in parts]
        where = [part.place for part in parts]
        if APPLICATION in selected:
            names.append("the application")
        ids = [ref.id or "application" for ref in selected]
        # An id that a layer and a provider share does not choose; the longer form does.
        wanted = ids[0] if ids.count(ids[0]) == 1 else str(selected[0])
        problems.append(
            Problem(
                "two-providers",
                f"{listed(names)} all provide the capability {capability}, and it has one provider"
                if len(names) > 2  # noqa: PLR2004 - grammar
                else f"{listed(names)} both provide the capability {capability}, "
                "and it has one provider",
                places(*where),
                f"choose one in the file\n[capabilities]\n{chosen(capability.name, wanted)}",
            )
        )
    return problems


def start_order(
    parts: Sequence[PartCandidate], bindings: Iterable[Binding], scope: str
) -> tuple[list[PartRef], list[Problem]]:
    """Sort ``parts`` so that a needed provider comes first, else as given.

    A provider is pulled before the first part that needs it; that part does not wait behind all
    others. Only bindings of this scope count, optional ones too. A cycle is an error; then the
    order is the one given.
    """
    by_ref = {part.ref: part for part in parts}
    needs: dict[tuple[PartRef, PartRef], Binding] = {}
    for binding in bindings:
        if binding.capability.scope != scope or binding.consumer not in by_ref:
            continue
        for provider in binding.providers:
            if provider in by_ref and provider != binding.consumer:
                needs.setdefault((provider, binding.consumer), binding)
    graph = graph_of(by_ref, needs)
    order = needed_first(graph)
    if len(order) == len(graph):
        return order, []
    return list(by_ref), [_cycle(cycle, needs, by_ref, scope) for cycle in shortest_cycles(graph)]


def _cycle(
    cycle: Sequence[PartRef],
    needs: Mapping[tuple[PartRef, PartRef], Binding],
    by_ref: Mapping[PartRef, PartCandidate],
    scope: str,
) -> Problem:
    steps = list(pairwise(cycle))
    lines = [
        f"the {'setups' if scope == 'run' else 'lifespans'} of these parts wait for each other",
        *(
            f"{by_ref[user]} needs {needs[giver, user].capability} of {giver}"
            for giver, user in steps
        ),
    ]
    return Problem(
        "capability-cycle",
        "\n".join(lines),
        places(*(by_ref[user].place for _, user in steps)),
        "let another part provide one of these capabilities, and choose it in [capabilities]",
    )


def part_order(part: PartCandidate) -> tuple[int, str, str]:
    """Sort key: file order, and never the order in which parts were found."""
    return (part.index, part.kind, part.id)
