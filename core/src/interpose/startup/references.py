"""Values that stand elsewhere: ``{ "$env" = "NAME" }`` and ``{ "$file" = "path" }``.

They are looked up late, when a part that is active needs them, so that neither an overlaid nor an
inactive one has to exist. What they yield is a secret.
"""

from __future__ import annotations

from collections.abc import Mapping

from interpose.errors import Problem, nearest
from interpose.startup.tree import (
    Array,
    KeyPath,
    Malformed,
    Node,
    Reference,
    Scalar,
    Table,
    shown,
)


def resolve(
    node: Node, path: KeyPath, environ: Mapping[str, str]
) -> tuple[Node, tuple[Problem, ...]]:
    """Look up every reference below ``node``, which stands at ``path``.

    One that cannot be looked up stays in the tree, and a problem says why.
    """
    problems: list[Problem] = []
    return _resolve(node, path, environ, problems), tuple(problems)


def _resolve(
    node: Node, path: KeyPath, environ: Mapping[str, str], problems: list[Problem]
) -> Node:
    match node:
        case Table():
            entries = {
                key: _resolve(below, (*path, key), environ, problems)
                for key, below in node.entries.items()
            }
            return Table(entries, node.origin)
        case Array():
            items = (
                _resolve(below, (*path, index), environ, problems)
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
            found = _from_variable if node.kind == "$env" else _from_file
            value = found(node, path, environ)
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
