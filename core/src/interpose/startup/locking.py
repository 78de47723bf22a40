"""From a host that could start to its lock: what runs, in which order, and set to what. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from interpose._version import __version__
from interpose.plan import CapabilityUse, Plan, PlannedLayer
from interpose.startup.composition import Composition
from interpose.startup.contributions import RegisteredPart
from interpose.startup.discovery import HOST
from interpose.startup.lockmodel import (
    IN_HOUSE,
    Digests,
    Lock,
    LockedAgent,
    LockedLayer,
    LockedPart,
)
from interpose.startup.merging import EMPTY
from interpose.startup.prepared import Prepared, PreparedPart
from interpose.startup.settings_digest import settings_digests
from interpose.startup.tree import KeyPath, Table


def lock_of(prepared: Prepared) -> Lock:
    """Return the lock of a host. It holds no secret, and no digest of one."""
    host = prepared.config
    return Lock(
        distributions=_distributions(prepared),
        host=_digests(host.host, host.composition, ("host",)),
        agents={
            agent: _agent(prepared, agent, plan) for agent, plan in sorted(prepared.plans.items())
        },
        providers=_parts(prepared, "providers"),
        models=_parts(prepared, "models"),
    )


def _distributions(prepared: Prepared) -> dict[str, str]:
    """Return what is active: whatever a table uses, and plugins that have hooks alone."""
    entries = [entry.distribution for entry in prepared.catalogue.active]
    found = {entry.name: entry.version for entry in entries}
    return dict(sorted({**found, HOST: __version__}.items()))


def _parts(prepared: Prepared, section: str) -> dict[str, LockedPart]:
    return {
        str(path[1]): LockedPart(
            use=part.part.use,
            distribution=_distribution(part.part),
            version=_version(part.part),
            settings=_part_digests(prepared, path, part),
        )
        for path, part in sorted(prepared.parts.items(), key=lambda item: str(item[0]))
        if path[0] == section
    }


def _agent(prepared: Prepared, agent: str, plan: Plan) -> LockedAgent:
    path = ("agents", agent)
    part = prepared.parts[path]
    return LockedAgent(
        use=part.part.use,
        distribution=_distribution(part.part),
        version=_version(part.part),
        settings=_part_digests(prepared, path, part),
        points=tuple(sorted(plan.points)),
        layers=tuple(_layer(prepared, agent, layer) for layer in plan.layers),
        capabilities=_capabilities(
            [
                *(use for layer in plan.layers for use in layer.requires),
                *(use for each in (plan.agent, *plan.parts) for use in each.requires),
            ]
        ),
    )


def _layer(prepared: Prepared, agent: str, planned: PlannedLayer) -> LockedLayer:
    layer = prepared.layers[agent, planned.id]
    return LockedLayer(
        id=planned.id,
        middleware=layer.part.use,
        distribution=_distribution(layer.part),
        version=_version(layer.part),
        stage=planned.stage,
        on_failure=planned.on_failure,
        hooks=planned.live_hooks,
        settings={
            **_digests(layer.settings, prepared.composition, layer.key),
            **_deadline(prepared, layer.config.path),
        },
    )


def _deadline(prepared: Prepared, path: KeyPath) -> dict[str, str]:
    """Return the one key of ``layer`` that the plan does not show the effect of."""
    host = prepared.config.composition
    found = _digests(host.settings.get(path), host, path)
    return {name: value for name, value in found.items() if name == "layer.deadline"}


def _capabilities(uses: Iterable[CapabilityUse]) -> dict[str, tuple[str, ...]]:
    """Return who provides each capability that somebody asks for; an optional one maybe nobody."""
    found: dict[str, dict[str, None]] = {}
    for use in uses:
        providers = found.setdefault(f"{use.name} {use.version}", {})
        providers |= dict.fromkeys(map(str, use.parts))
    return {name: tuple(sorted(providers)) for name, providers in sorted(found.items())}


def _part_digests(prepared: Prepared, path: KeyPath, part: PreparedPart) -> Digests:
    return _digests(part.settings, prepared.composition, path)


def _digests(settings: BaseModel | None, composition: Composition, path: KeyPath) -> Digests:
    trees: Mapping[KeyPath, Table] = composition.trees
    return {} if settings is None else settings_digests(settings, trees.get(path, EMPTY))


def _distribution(part: RegisteredPart) -> str:
    return part.distribution or IN_HOUSE


def _version(part: RegisteredPart) -> str | None:
    # What is built into Interpose has its version.
    return __version__ if part.distribution == HOST and not part.version else part.version
