"""Everything that was said about the configuration, before anybody interprets it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from interpose.errors import Problem
from interpose.startup.environment import Variable, read_variables
from interpose.startup.files import Source
from interpose.startup.merging import EMPTY, merge, nest
from interpose.startup.tree import KeyPath, Node, StandIn, Table, at


@dataclass(frozen=True, slots=True)
class Configuration:
    """The three strengths of configuration, weakest first, each merged within itself.

    They stay apart because a variable's text can be read only against the type of its setting,
    and the types are known only after the active plugins are imported.
    """

    base: Table
    variables: tuple[Variable, ...]
    overrides: Table
    named: Table
    """``base`` and ``overrides`` merged: what is configured, in which order."""
    environ: Mapping[str, str] = field(repr=False)
    stand_in: StandIn | None = field(default=None, repr=False)
    """Gives the values of references in place of variables and files, for tests."""

    def node(self, path: KeyPath) -> Node | None:
        """Return what files, code and overrides say at ``path``."""
        return at(self.named, path)


def gather(
    sources: Sequence[Source],
    overrides: Sequence[Source] = (),
    *,
    environ: Mapping[str, str],
) -> tuple[Configuration, tuple[Problem, ...]]:
    """Merge ``sources`` (files, then layers given in code) and read the variables.

    ``overrides`` (``--set``, ``Host(overrides)``) are stronger than variables. Both weakest first.
    """
    problems: list[Problem] = []
    base = _merged(sources, problems)
    stronger = _merged(overrides, problems)
    named = _as_table(merge([base, stronger]))
    variables, unknown = read_variables(environ, named)
    problems += unknown
    return Configuration(base, variables, stronger, named, environ), tuple(problems)


def _merged(sources: Sequence[Source], problems: list[Problem]) -> Table:
    return _as_table(merge(_with_default_agent(source, problems) for source in sources))


def _as_table(node: Node) -> Table:
    return node if isinstance(node, Table) else EMPTY


def _with_default_agent(source: Source, problems: list[Problem]) -> Table:
    """Write ``[agent]`` as the ``[agents.default]`` that it is short for.

    One source must choose; two sources may each use their own form.
    """
    tree = source.tree
    short = tree.entries.get("agent")
    if short is None:
        return tree
    rest = Table({k: v for k, v in tree.entries.items() if k != "agent"}, tree.origin)
    long = at(rest, ("agents", "default"))
    if long is not None:
        problems.append(
            Problem(
                "two-default-agents",
                "[agent] is short for [agents.default], and both are given.",
                (str(short.origin), str(long.origin)),
                "Keep one of the two.",
            )
        )
        return rest
    return _as_table(merge([rest, nest(("agents", "default"), short)]))
