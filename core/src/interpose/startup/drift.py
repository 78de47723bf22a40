"""What differs between a lock and what would run now, as data. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from interpose.errors import Problem
from interpose.startup.candidates import listed
from interpose.startup.lockmodel import IN_HOUSE, Lock, LockedAgent, LockedLayer, LockedPart

_ACCEPT: Final = "Undo the change, or accept it: run interpose lock, with the same options."
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference. ``said`` is a clause about ``subject``: what is locked, and what is now.

    ``agents``: whose runs it concerns; () for all of them.
    """

    code: str
    subject: str
    said: str
    agents: tuple[str, ...] = ()

    def __str__(self) -> str:
        whose = f" (only for agent {listed(self.agents)})" if self.agents else ""
        return f"{self.subject}: {self.said}{whose}"

    def problem(self, name: str) -> Problem:
        """Return it as an error; ``name`` is the lock's file."""
        return Problem(self.code, f"{self}.", (name,), _ACCEPT)


def drift(locked: Lock, now: Lock) -> tuple[Drift, ...]:
    """Return every difference, each once, however many agents have it."""
    found = [
        *_versions(locked, now),
        *_settings("the host", locked.host, now.host),
        *_agents(locked, now),
        *_parts("provider", locked.providers, now.providers),
        *_parts("model", locked.models, now.models),
    ]
    if not found and locked != now:
        # As after an edit by hand: what the versions of its parts say is not what it says itself.
        found.append(Drift("changed-lock", "the lock", "it contradicts itself"))
    return tuple(found)


def _versions(locked: Lock, now: Lock) -> Iterator[Drift]:
    """Compare versions. A distribution that comes or goes with its parts is told with them."""
    for name in sorted({*locked.distributions, *now.distributions}):
        was, runs = locked.distributions.get(name), now.distributions.get(name)
        if was is None and name not in _used(now):
            yield Drift("changed-version", name, f"{runs} is active, and is not locked")
        elif runs is None and name not in _used(locked):
            yield Drift("changed-version", name, f"{was} is locked, and is not active now")
        elif was is not None and runs is not None and was != runs:
            yield Drift("changed-version", name, f"{was} is locked, {runs} is installed")


def _used(lock: Lock) -> set[str]:
    parts = [*lock.providers.values(), *lock.models.values(), *lock.agents.values()]
    layers = {each.distribution for agent in lock.agents.values() for each in agent.layers}
    return {each.distribution for each in parts} | layers


def _agents(locked: Lock, now: Lock) -> Iterator[Drift]:
    whose: dict[Drift, list[str]] = {}
    both = [agent for agent in now.agents if agent in locked.agents]
    for agent in both:
        for each in _chain(locked.agents[agent], now.agents[agent]):
            whose.setdefault(each, []).append(agent)
    yield from _presence("changed-agents", "agent", locked.agents, now.agents, _part_source)
    for agent in both:
        was, runs = locked.agents[agent], now.agents[agent]
        yield from _part(f"agent {agent}", "changed-agents", was, runs)
        points = _difference(was.points, runs.points)
        if points:
            yield Drift("changed-points", f"agent {agent}", f"its points: {points}")
    for each, agents in whose.items():
        only = () if agents == both else tuple(agents)
        yield Drift(each.code, each.subject, each.said, only)


def _chain(locked: LockedAgent, now: LockedAgent) -> Iterator[Drift]:
    """Compare the layers of one agent, and who provides what they ask for."""
    was, runs = _by_id(locked.layers), _by_id(now.layers)
    yield from _presence("changed-layers", "layer", was, runs, _layer_source)
    both = [layer for layer in runs if layer in was]
    yield from _order([layer for layer in was if layer in runs], both)
    for layer in both:
        yield from _layer(f"layer {layer}", was[layer], runs[layer])
    for name in sorted({*locked.capabilities, *now.capabilities}):
        before, after = locked.capabilities.get(name), now.capabilities.get(name)
        if before != after:
            said = f"{_providers(before)} is locked, {_providers(after)} now"
            yield Drift("changed-capability", f"the capability {name}", said)


def _order(locked: Sequence[str], now: Sequence[str]) -> Iterator[Drift]:
    """Tell which layers moved: the fewest whose moves make one order out of the other."""
    if locked == now:
        return
    stayed = _longest_rising([locked.index(layer) for layer in now])
    moved = [layer for layer in now if locked.index(layer) not in stayed]
    said = f"{listed(moved)} moved: locked is {', '.join(locked)}; now {', '.join(now)}"
    yield Drift("changed-order", "the order of the layers, outermost first", said)


def _longest_rising(numbers: Sequence[int]) -> set[int]:
    """Return the numbers of a longest increasing subsequence."""
    tails: list[int] = []
    before: dict[int, int | None] = {}
    for number in numbers:
        place = bisect_left(tails, number)
        before[number] = tails[place - 1] if place else None
        tails[place : place + 1] = [number]
    found: set[int] = set()
    last = tails[-1] if tails else None
    while last is not None:
        found.add(last)
        last = before[last]
    return found


def _layer(subject: str, locked: LockedLayer, now: LockedLayer) -> Iterator[Drift]:
    if (locked.middleware, locked.distribution) != (now.middleware, now.distribution):
        said = f"{_layer_source(locked)} is locked, {_layer_source(now)} is used"
        yield Drift("changed-layers", subject, said)
        return  # Its hooks and settings are another middleware's.
    for name in ("stage", "on_failure"):
        was, runs = getattr(locked, name), getattr(now, name)
        if was != runs:
            yield Drift("changed-layers", subject, f'{name} "{was}" is locked, "{runs}" now')
    hooks = _difference(locked.hooks, now.hooks)
    if hooks:
        yield Drift("changed-points", subject, f"its hooks that are called: {hooks}")
    yield from _settings(subject, locked.settings, now.settings)


def _parts(
    kind: str, locked: Mapping[str, LockedPart], now: Mapping[str, LockedPart]
) -> Iterator[Drift]:
    yield from _presence("changed-parts", kind, locked, now, _part_source)
    for name, part in now.items():
        if name in locked:
            yield from _part(f"{kind} {name}", "changed-parts", locked[name], part)


def _part(subject: str, code: str, locked: LockedPart, now: LockedPart) -> Iterator[Drift]:
    if (locked.use, locked.distribution) != (now.use, now.distribution):
        said = f"{_part_source(locked)} is locked, {_part_source(now)} is used"
        yield Drift(code, subject, said)
    else:
        yield from _settings(subject, locked.settings, now.settings)


def _presence(
    code: str,
    kind: str,
    locked: Mapping[str, _T],
    now: Mapping[str, _T],
    source: Callable[[_T], str],
) -> Iterator[Drift]:
    """Tell what came and what went."""
    for name, part in now.items():
        if name not in locked:
            yield Drift(code, f"{kind} {name}", f"it is new, with {source(part)}")
    for name, part in locked.items():
        if name not in now:
            yield Drift(code, f"{kind} {name}", f"it is gone; locked with {source(part)}")


def _settings(subject: str, locked: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Drift]:
    """Name the settings whose digests differ; their values are not known."""
    other = [name for name in now if name in locked and locked[name] != now[name]]
    said = [f"{listed(other)} changed"] if other else []
    said += [change] if (change := _difference(list(locked), list(now))) else []
    if said:
        yield Drift("changed-settings", subject, f"its settings: {', '.join(said)}")


def _difference(locked: Sequence[str], now: Sequence[str]) -> str:
    """Say what came and what went, of two lists of names."""
    new = [name for name in now if name not in locked]
    gone = [name for name in locked if name not in now]
    said = [f"{listed(new)} added"] if new else []
    said += [f"{listed(gone)} removed"] if gone else []
    return ", ".join(said)


def _by_id(layers: Iterable[LockedLayer]) -> dict[str, LockedLayer]:
    return {layer.id: layer for layer in layers}


def _layer_source(layer: LockedLayer) -> str:
    return _source(layer.middleware, layer.distribution, layer.version)


def _part_source(part: LockedPart) -> str:
    return _source(part.use, part.distribution, part.version)


def _source(use: str, distribution: str, version: str | None) -> str:
    if distribution == IN_HOUSE:
        return f"{use} ({IN_HOUSE})"
    return f"{use.partition('@')[0]} of {distribution} {version or ''}".rstrip()


def _providers(refs: tuple[str, ...] | None) -> str:
    if refs is None:
        return "no need of it"
    return listed(refs) if refs else "nobody"
