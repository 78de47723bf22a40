"""Values that stand elsewhere: ``{ "$env" = "NAME" }`` and ``{ "$file" = "path" }``.

They are looked up late, when a part that is active needs them, so that neither an overlaid nor an
inactive one has to exist. What they yield is a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from interpose.errors import Problem, nearest
from interpose.startup.tree import (
    Array,
    KeyPath,
    Malformed,
    Node,
    Reference,
    Scalar,
    StandIn,
    Table,
    shown,
)


def resolve(
    node: Node, path: KeyPath, environ: Mapping[str, str], stand_in: StandIn | None = None
) -> tuple[Node, tuple[Problem, ...]]:
    """Look up every reference below ``node``, which stands at ``path``.

    One that cannot be looked up stays in the tree, and a problem says why. ``stand_in`` is asked
    in place of the variables and files.
    """
    problems: list[Problem] = []
    look_up = _real(environ) if stand_in is None else _stood_in(stand_in)
    return _resolve(node, path, look_up, problems), tuple(problems)


LookUp: TypeAlias = Callable[[Reference, KeyPath], "str | Problem"]


def _real(environ: Mapping[str, str]) -> LookUp:
    def look_up(node: Reference, path: KeyPath) -> str | Problem:
        found = _from_variable if node.kind == "$env" else _from_file
        return found(node, path, environ)

    return look_up


def _stood_in(stand_in: StandIn) -> LookUp:
    return lambda node, _: stand_in(node)


def _resolve(node: Node, path: KeyPath, look_up: LookUp, problems: list[Problem]) -> Node:
    match node:
        case Table():
            entries = {
                key: _resolve(below, (*path, key), look_up, problems)
                for key, below in node.entries.items()
            }
            return Table(entries, node.origin)
        case Array():
            items = (
                _resolve(below, (*path, index), look_up, problems)
                for index, below in enumerate(node.items)
            )
            return Array(tuple(items), node.origin, node.extends)
        case Malformed():
            problems.append(
                Problem(
                    "invalid-reference",
                    f"{shown(path)}: {node.reason}.",
                    (str(node.origin),),
                    'Write { "$env" = "NAME" }, { "$file" = "path" } or { "$append" = [...] }.',
                )
            )
            return node
        case Reference():
            value = look_up(node, path)
            if isinstance(value, Problem):
                problems.append(value)
                return node
            return Scalar(value, node.origin, secret=True)
        case Scalar():
            return node


def _from_variable(node: Reference, path: KeyPath, environ: Mapping[str, str]) -> str | Problem:
    value = environ.get(node.target)
    if value is not None:
        return value
    meant = nearest(node.target, environ)
    return Problem(
        "missing-variable",
        f"{shown(path)}: the environment variable {node.target} is not set.",
        (str(node.origin),),
        f"Set {node.target}" + (f", or name {meant} if that is meant." if meant else "."),
    )


def _from_file(node: Reference, path: KeyPath, _: Mapping[str, str]) -> str | Problem:
    file = node.folder / node.target
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        reason = "does not exist"
    except UnicodeDecodeError:
        reason = "is not UTF-8 text"
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
    else:
        # Editors and `echo` end a file with a newline that is no part of the secret.
        return text.removesuffix("\n")
    return Problem(
        "missing-file",
        f"{shown(path)}: the file {node.target} {reason}.",
        (str(node.origin),),
        f"Provide {file.absolute()}; a relative path starts at the folder of the config file.",
    )
