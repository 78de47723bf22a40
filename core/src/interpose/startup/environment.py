"""Which environment variables are settings, and what each one names.

Only names that start with ``INTERPOSE__`` are settings, so that an orchestrator may inject an
``INTERPOSE_PORT``. ``INTERPOSE__MIDDLEWARE__RATE_LIMIT__PER_MINUTE`` names the key ``per_minute``
of ``[middleware.rate-limit]``. A variable sets values in what a file or code names; it adds
nothing. Its text is read later, against the settings' types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from interpose.errors import Problem, nearest
from interpose.startup.tree import KeyPath, Table, at, shown

PREFIX = "INTERPOSE__"
DELIMITER = "__"

NAMED_TABLES = ("middleware", "providers", "agents", "models")
"""Top-level tables whose keys are ids."""
PLAIN_TABLES = ("capabilities", "plugins", "host", "server")
"""Top-level tables whose keys are settings of the host."""
TABLES = (*NAMED_TABLES, *PLAIN_TABLES)


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable: the table it sets a value in, the segments below that, and its text."""

    name: str
    table: KeyPath
    keys: tuple[str, ...]
    text: str = field(repr=False)


def variable_name(path: KeyPath) -> str:
    """Return the variable that sets the value at ``path``."""
    return PREFIX + DELIMITER.join(variable_segment(step) for step in path)


def variable_segment(step: str | int) -> str:
    """Return how one id or key is written in a variable's name."""
    return str(step).replace("-", "_").upper()


def read_variables(
    environ: Mapping[str, str], config: Table
) -> tuple[tuple[Variable, ...], tuple[Problem, ...]]:
    """Find the table of each variable among those that ``config`` names."""
    tables = {variable_name(path): path for path in _tables(config)}
    variables: dict[KeyPath, Variable] = {}
    problems: list[Problem] = []
    for name in sorted(environ):
        if not name.upper().startswith(PREFIX):
            continue
        read = _read(name, environ[name], tables)
        if isinstance(read, Problem):
            problems.append(read)
            continue
        other = variables.setdefault((*read.table, *read.keys), read)
        if other is not read:
            problems.append(_twice(other, read))
    return tuple(variables.values()), tuple(problems)


def _twice(one: Variable, other: Variable) -> Problem:
    """Report two spellings of one name: ``AGENT`` and ``AGENTS__DEFAULT``, or another case."""
    return Problem(
        "ambiguous-variable",
        f"{one.name} and {other.name} set the same setting.",
        (one.name, other.name),
        "Keep one of the two.",
    )


def _read(name: str, text: str, tables: Mapping[str, KeyPath]) -> Variable | Problem:
    segments = name.upper().split(DELIMITER)
    if segments[1] == "AGENT":  # [agent] is short for [agents.default]
        segments[1:2] = ["AGENTS", "DEFAULT"]
    length = _owner(segments, tables)
    keys = tuple(segment.lower() for segment in segments[length:])
    if not length or not all(keys):
        return _unknown(name, segments, tables)
    path = tables[DELIMITER.join(segments[:length])]
    if not keys:
        return _names_a_table(name, path)
    if path[0] == "agents" and keys[0] == "middleware":
        return _unknown_id(name, segments, (*path, "middleware"), tables)
    return Variable(name, path, keys, text)


def _owner(segments: list[str], tables: Mapping[str, KeyPath]) -> int:
    """Return how many leading segments name a table, the longest match; 0 when none do."""
    for length in range(len(segments), 1, -1):
        if DELIMITER.join(segments[:length]) in tables:
            return length
    return 0


def _tables(config: Table) -> Iterator[KeyPath]:
    """Yield the path of each table that a variable may set a value in."""
    for section in PLAIN_TABLES:
        yield (section,)
    for section in NAMED_TABLES:
        for name in _names(config, (section,)):
            yield (section, name)
    layers = _names(config, ("middleware",))
    for agent in _names(config, ("agents",)):
        for layer in layers:
            yield ("agents", agent, "middleware", layer)


def _names(config: Table, path: KeyPath) -> tuple[str, ...]:
    node = at(config, path)
    return tuple(node.entries) if isinstance(node, Table) else ()


def _names_a_table(name: str, path: KeyPath) -> Problem:
    return Problem(
        "unknown-variable",
        f"{name} names the table [{shown(path)}], not one of its keys.",
        (name,),
        f"Set one key at a time, as {name}{DELIMITER}<KEY>.",
    )


def _unknown(name: str, segments: list[str], tables: Mapping[str, KeyPath]) -> Problem:
    if not all(segments):
        return Problem(
            "unknown-variable",
            f"{name} is not a setting: nothing stands between two of its {DELIMITER}.",
            (name,),
            f"Name it {PREFIX}<TABLE>{DELIMITER}<ID>{DELIMITER}<KEY>.",
        )
    section = segments[1].lower()
    if section in NAMED_TABLES:
        return _unknown_id(name, segments, (section,), tables)
    meant = nearest(section, TABLES)
    fix = DELIMITER.join([segments[0], meant.upper(), *segments[2:]]) if meant else ""
    return Problem(
        "unknown-variable",
        f"{name} is not a setting: there is no table [{section}].",
        (name,),
        f"Did you mean {fix}?" if fix else f"The tables are {', '.join(TABLES)}.",
    )


def _unknown_id(
    name: str, segments: list[str], parent: KeyPath, tables: Mapping[str, KeyPath]
) -> Problem:
    """Report a variable whose segment after ``parent`` is no id that is configured there."""
    index = len(parent) + 1
    known = [str(path[-1]) for path in tables.values() if path[:-1] == parent]
    wanted = segments[index].lower().replace("_", "-") if len(segments) > index else "<id>"
    meant = nearest(wanted, known)
    fix = [*segments[:index], variable_segment(meant), *segments[index + 1 :]] if meant else []
    return Problem(
        "unknown-variable",
        f"{name} is not a setting: [{shown(parent)}.{wanted}] is not configured, "
        "and a variable never adds one.",
        (name,),
        f"Did you mean {DELIMITER.join(fix)}?"
        if fix
        else f"Add [{parent[-1]}.{wanted}] to the config file, or remove the variable.",
    )
