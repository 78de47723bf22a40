"""What can be wrong with the host's half beyond the types of its keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from interpose.errors import Problem, nearest
from interpose.startup.environment import NAMED_TABLES, TABLES
from interpose.startup.hostconfig import HostConfig
from interpose.startup.part import is_override
from interpose.startup.tree import KeyPath, Node, Table, at, descend, kind, shown

ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
APPLICATION = "application"


def unknown_tables(named: Table) -> Iterator[Problem]:
    """Find keys at the top that are no table of ours."""
    for key, node in named.entries.items():
        if key in TABLES:
            if not isinstance(node, Table):
                yield _not_a_table((key,), node)
            continue
        meant = nearest(key, ("agent", *TABLES))
        written = f"[{shown((key,))}]" if isinstance(node, Table) else shown((key,))
        yield Problem(
            "unknown-table",
            f"{written} is not part of the configuration.",
            (str(node.origin),),
            f"Did you mean [{meant}]?" if meant else f"The tables are {', '.join(TABLES)}.",
        )


def named_tables(named: Table, problems: list[Problem]) -> Iterator[KeyPath]:
    """Yield the path of each table that has an id, and of each override for an agent."""
    for section in NAMED_TABLES:
        for path in _tables_below(named, (section,), problems):
            yield path
            if section == "agents":
                yield from _tables_below(named, (*path, "middleware"), problems)


def _tables_below(named: Table, parent: KeyPath, problems: list[Problem]) -> Iterator[KeyPath]:
    node = at(named, parent)
    if not isinstance(node, Table):
        if node is not None and len(parent) > 1:
            problems.append(_not_a_table(parent, node))
        return
    for key, below in node.entries.items():
        path = (*parent, key)
        if not isinstance(below, Table):
            problems.append(_not_a_table(path, below))
        elif ID.fullmatch(key) is None:
            problems.append(_bad_id(parent, key, below))
        else:
            yield path


def _not_a_table(path: KeyPath, node: Node) -> Problem:
    return Problem(
        "not-a-table",
        f"{shown(path)} is {kind(node)}, where a table is due.",
        (str(node.origin),),
        f"Write it as a table: [{shown(path)}].",
    )


def _bad_id(parent: KeyPath, key: str, node: Node) -> Problem:
    pieces = key.split(".")
    fixed = re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-").lstrip("0123456789-")
    if len(pieces) > 1 and all(ID.fullmatch(piece) for piece in pieces):
        hint = f'Write [{shown((*parent, pieces[-1]))}] with use = "{key}".'
    elif fixed:
        hint = f"Write [{shown((*parent, fixed))}]."
    else:
        hint = "Choose one, as in rate-limit."
    return Problem(
        "invalid-id",
        f'[{shown((*parent, key))}]: "{key}" is no id. An id begins with a lower-case letter and '
        'has lower-case letters and digits, in groups joined by "-".',
        (str(node.origin),),
        hint,
    )


def unknown_agents(config: HostConfig, known: Collection[str]) -> Iterator[Problem]:
    """Find layers that serve an agent that is neither configured nor given in code."""
    for layer in config.layers:
        for agent in layer.agents or ():
            if agent.name not in known:
                meant = nearest(agent.name, known)
                yield Problem(
                    "unknown-agent",
                    f'middleware.{layer.id}.layer.agents: there is no agent "{agent.name}".',
                    (agent.place,),
                    f'Did you mean "{meant}"?' if meant else f"Add [agents.{agent.name}].",
                )


def bad_overrides(
    named: Table, config: HostConfig, tables: Collection[KeyPath]
) -> Iterator[Problem]:
    """Find overrides for an agent that can have no effect."""
    for path in tables:
        if not is_override(path):
            continue
        agent, layer = str(path[1]), str(path[3])
        node, _ = descend(named, path)
        base = config.layer(layer)
        if base is None:
            meant = nearest(layer, [each.id for each in config.layers])
            yield Problem(
                "unknown-layer",
                f"[{shown(path)}] overrides a layer that is not configured.",
                (str(node.origin),),
                f'Did you mean "{meant}"?' if meant else f"Add [middleware.{layer}].",
            )
        elif not base.serves(agent):
            yield Problem(
                "layer-not-served",
                f'[{shown(path)}] overrides a layer that does not serve the agent "{agent}".',
                (str(node.origin), base.place),
                f'Add "{agent}" to agents in the layer\'s sub-table, or remove the override.',
            )
        for key in ("use", "layer"):
            below = at(named, (*path, key))
            if below is not None:
                yield Problem(
                    "not-per-agent",
                    f'{shown(path)}: "{key}" is the same for all agents.',
                    (str(below.origin),),
                    f"Set it in [middleware.{layer}], or add a second layer for this agent.",
                )


def unknown_choices(config: HostConfig, agents: Collection[str]) -> Iterator[Problem]:
    """Find chosen providers that do not exist."""
    layers = [layer.id for layer in config.layers]
    others = [part.id for part in (*config.providers, *config.models)]
    known = [*layers, *others, *agents, APPLICATION]
    for name, choice in config.capabilities.items():
        if choice.name not in known:
            meant = nearest(choice.name, known)
            yield Problem(
                "unknown-provider",
                f'capabilities.{name}: nothing is called "{choice.name}".',
                (choice.place,),
                f'Did you mean "{meant}"?'
                if meant
                else f'Name a provider or a layer, or "{APPLICATION}".',
            )
