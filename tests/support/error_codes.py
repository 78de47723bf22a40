"""Every error code that the source can give, found by reading it.

A code is the argument ``code`` of a call (of ``Problem``, ``Reject``, a function of ours with such
a parameter, or an event), the attribute ``code`` of an exception class, a default of such a
parameter, or one of the texts that its type allows. Constants are followed, so that each code is
found wherever it is written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from repository import Distribution

CODE = re.compile(r"[a-z]+(-[a-z0-9]+)*\Z")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def error_codes(distribution: Distribution, beside: Distribution) -> set[str]:
    """Return the codes in ``distribution``; ``beside`` (core) has functions that it may call."""
    trees = list(_trees(distribution))
    foreign = list(_trees(beside))
    positions = {name: place for tree in (*foreign, *trees) for name, place in _positions(tree)}
    constants = {name: value for tree in (*foreign, *trees) for name, value in _constants(tree)}
    found = {code for tree in trees for code in _allowed(tree) if CODE.match(code)}
    for tree in trees:
        for node in _values(tree, positions):
            found |= {code for code in _texts(node, constants) if CODE.match(code)}
    return found


def _trees(distribution: Distribution) -> Iterator[ast.Module]:
    """Yield the modules whose codes an operator may see; those of the kit are for its own plays."""
    kit = distribution.package / "testing"
    yield from (tree for path, tree in distribution.modules() if kit not in path.parents)


@cache
def _positions(tree: ast.Module) -> tuple[tuple[str, int], ...]:
    """Return where ``code`` stands among the arguments, by name of the function or class."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            fields = [
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            ]
            if "code" in fields:
                found[node.name] = fields.index("code")
            for method in node.body:
                if isinstance(method, Function) and method.name == "__init__":
                    found.update(_position(method, node.name))
        elif isinstance(node, Function) and node.name != "__init__":
            found.update(_position(node, node.name))
    return tuple(found.items())


def _position(function: Function, name: str) -> dict[str, int]:
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    names = names[1:] if names[:1] in (["self"], ["cls"]) else names
    return {name: names.index("code")} if "code" in names else {}


@cache
def _constants(tree: ast.Module) -> tuple[tuple[str, str], ...]:
    """Return the texts that have a name of their own in a module."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                found[target.id] = node.value.value
    return tuple(found.items())


def _allowed(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of each ``Literal`` that is the type of a field named ``code``."""
    types = {
        ast.unparse(each.annotation)
        for each in ast.walk(tree)
        if isinstance(each, ast.AnnAssign) and _last_name(each.target) == "code"
    }
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in types:
            yield from (
                each.value
                for each in ast.walk(node.value)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )


def _values(tree: ast.Module, positions: dict[str, int]) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            place = positions.get(_last_name(node.func))
            if place is not None and place < len(node.args):
                yield node.args[place]
            yield from (each.value for each in node.keywords if each.arg == "code")
        elif isinstance(node, ast.ClassDef):
            yield from _to_base(node, positions)
            for each in node.body:
                if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
                    target = each.target if isinstance(each, ast.AnnAssign) else each.targets[0]
                    if _last_name(target) == "code":
                        yield each.value
        elif isinstance(node, ast.Assign) and _is_attribute(node.targets[0], "code"):
            yield node.value
        elif isinstance(node, Function):
            names = [each.arg for each in node.args.args][-len(node.args.defaults) or None :]
            yield from (d for n, d in zip(names, node.args.defaults, strict=False) if n == "code")


def _last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name; nothing for what is no name."""
    return getattr(node, "attr", "") or getattr(node, "id", "")


def _is_attribute(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _to_base(node: ast.ClassDef, positions: dict[str, int]) -> Iterator[ast.expr]:
    """Yield what a class gives its base class as the code."""
    places = [positions[base] for base in map(ast.unparse, node.bases) if base in positions]
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "super().__init__":
            yield from (each.args[place] for place in places if place < len(each.args))


def _texts(node: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name):
        yield from (constants[name] for name in [node.id] if name in constants)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body, constants)
        yield from _texts(node.orelse, constants)
    elif isinstance(node, ast.BoolOp):
        for each in node.values:
            yield from _texts(each, constants)
