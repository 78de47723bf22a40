"""The public interface as text: what the compatibility policy of CONTRIBUTING covers.

It is read from the source rather than from the running objects, so that it is the same on every
version of Python and of pydantic, and shows what an author of a plugin reads.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from error_codes import error_codes
from repository import ROOT, distributions, parsed

CORE = ROOT / "core/src/interpose"
DOORS = (
    "interpose",
    "interpose.agui",
    "interpose.commands",
    "interpose.loop",
    "interpose.server",
    "interpose.testing",
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def render() -> str:
    """Return the whole public interface."""
    parts = ["# The public interface. See CONTRIBUTING.md, Compatibility, before you change it."]
    for door in DOORS:
        if _source(door) is not None:
            parts += [f"\n## {door}", *_door(door)]
    parts += ["\n## Hooks of plugins", *_hookspecs()]
    parts += ["\n## Keys of the configuration", *_tables()]
    parts.append("\n## Error codes")
    core = next(each for each in distributions() if each.name == "interpose")
    parts += sorted(error_codes(core, core))
    return "\n".join(parts) + "\n"


def _source(module: str) -> Path | None:
    path = CORE.parent / module.replace(".", "/")
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((each for each in found if each.is_file()), None)


def _parsed(module: str) -> ast.Module:
    path = _source(module)
    if path is None:
        raise LookupError(module)
    return parsed(path)


def _door(door: str) -> Iterator[str]:
    for name in sorted(importlib.import_module(door).__all__):
        yield from _definition(door, name)


def _definition(module: str, name: str) -> Iterator[str]:
    """Yield the text of the name that ``module`` has, followed to where it is defined."""
    for node in _imports(_parsed(module)):
        if node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    if _source(node.module) is None:
                        yield f"{name} = {node.module}.{alias.name}"
                    elif _source(f"{node.module}.{alias.name}") is None:
                        yield from _definition(node.module, alias.name)
                    return
    found = [each for each in _parsed(module).body if _defines(each, name)]
    # Where there are overloads, they are what a caller sees, and not the implementation.
    for statement in [each for each in found if _is_overload(each)] or found:
        if isinstance(statement, ast.ClassDef | Function):
            yield from _shown(statement)
        else:
            # The value of a version is not part of the interface.
            yield name if name == "__version__" else ast.unparse(statement)


@cache
def _imports(tree: ast.Module) -> tuple[ast.ImportFrom, ...]:
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))


def _defines(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.ClassDef | Function):
        return statement.name == name
    return isinstance(statement, ast.Assign | ast.AnnAssign) and name in _targets(statement)


def _is_overload(statement: ast.stmt) -> bool:
    return isinstance(statement, Function) and any(
        ast.unparse(mark) == "overload" for mark in statement.decorator_list
    )


def _shown(node: ast.ClassDef | Function) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(each) for each in (*node.bases, *node.keywords))
        yield f"class {node.name}({bases})" if bases else f"class {node.name}"
        yield from (f"    {line}" for line in _members(node))
    else:
        yield _signature(node)


def _members(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, Function):
            if each.name == "__init__" or not each.name.startswith("_") or _is_protocol(each.name):
                yield from (f"@{ast.unparse(mark)}" for mark in each.decorator_list)
                yield _signature(each)
            if each.name == "__init__":
                yield from _attributes(each)
        elif isinstance(each, ast.AnnAssign | ast.Assign) and not any(
            name.startswith("_") for name in _targets(each)
        ):
            yield ast.unparse(each)


def _is_protocol(name: str) -> bool:
    return name in {
        *("__call__", "__getitem__", "__aiter__", "__await__"),
        *("__enter__", "__exit__", "__aenter__", "__aexit__"),
    }


def _attributes(init: Function) -> Iterator[str]:
    """Yield the public attributes that a constructor sets."""
    for statement in ast.walk(init):
        if isinstance(statement, ast.AnnAssign | ast.Assign):
            for target in _targets(statement):
                head, _, name = target.partition(".")
                if head == "self" and name and not name.startswith("_"):
                    kind = statement.annotation if isinstance(statement, ast.AnnAssign) else None
                    yield f"self.{name}" + (f": {ast.unparse(kind)}" if kind else "")


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[str]:
    targets: Iterable[ast.expr] = (
        [statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets
    )
    return [ast.unparse(target) for target in targets]


def _signature(node: Function) -> str:
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{kind} {node.name}({ast.unparse(node.args)}){returns}"


def _hookspecs() -> Iterator[str]:
    for node in _parsed("interpose.hookspecs").body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield _signature(node)


def _tables() -> Iterator[str]:
    """Yield the keys that the host owns, table by table, with type and default."""
    for node in _parsed("interpose.startup.hostmodel").body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _shown(node)
