"""What a plugin's files import, read without running them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from interpose.cli.plugin_check.results import Check, checked
from interpose.cli.plugin_check.subject import Subject
from interpose.errors import Problem, Severity, nearest

DOORS = (
    "interpose",
    "interpose.agui",
    "interpose.commands",
    "interpose.loop",
    "interpose.server",
    "interpose.testing",
)
"""The public modules; every other one may change in any release."""

_LENIENT = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a file imports. ``name``: of ``from module import name``, or "".

    ``guarded``: its failing is caught. ``typing``: only type checkers see it.
    """

    module: str
    name: str
    where: str
    guarded: bool = False
    typing: bool = False

    @property
    def top(self) -> str:
        """The top-level module."""
        return self.module.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Scan:
    """What all files of a plugin import, and those that Python cannot read."""

    imports: tuple[Import, ...]
    broken: tuple[Problem, ...] = ()

    def foreign(self, own: tuple[str, ...]) -> tuple[Import, ...]:
        """Return the imports that need another distribution at run time."""
        return tuple(
            each
            for each in self.imports
            if not each.typing and each.top not in own and each.top not in sys.stdlib_module_names
        )


def scan(subject: Subject) -> Scan:
    """Read all files of a plugin."""
    found: list[Import] = []
    broken: list[Problem] = []
    for file, text in subject.sources():
        try:
            tree = ast.parse(text, str(file))
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            said = getattr(error, "msg", str(error))
            broken.append(
                Problem(
                    "plugin-source",
                    f"{file} is no Python: {said}.",
                    (f"{file}:{line}",),
                    "Correct it, or leave it out of the wheel.",
                )
            )
            continue
        found += _imports(tree, Import("", "", str(file)))
    return Scan(tuple(dict.fromkeys(found)), tuple(broken))


def _imports(tree: ast.AST, here: Import) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        yield from _of(node, here)


def _of(node: ast.AST, here: Import) -> Iterator[Import]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _named(node, replace(here, where=f"{here.where}:{node.lineno}"))
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for statement in node.body:
            yield from _of(statement, replace(here, typing=True))
        for statement in node.orelse:
            yield from _of(statement, here)
    elif isinstance(node, ast.Try) and any(map(_is_lenient, node.handlers)):
        for statement in node.body:
            yield from _of(statement, replace(here, guarded=True))
        for other in (*node.handlers, *node.orelse, *node.finalbody):
            yield from _of(other, here)
    else:
        yield from _imports(node, here)


def _named(node: ast.Import | ast.ImportFrom, here: Import) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (replace(here, module=alias.name) for alias in node.names)
    elif node.level == 0 and node.module:
        yield from (replace(here, module=node.module, name=alias.name) for alias in node.names)


def _is_lenient(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(each) in _LENIENT for each in caught)


def private_check(found: Scan) -> Check:
    """Check that a plugin uses the public names of Interpose alone."""
    ours = [each for each in found.imports if each.top == "interpose"]
    problems = [*found.broken, *(p for each in ours for p in _private(each))]
    doors = sorted({each.module for each in ours if each.module in DOORS})
    return checked("public-names", ", ".join(doors) or "nothing of Interpose", problems)


def _private(each: Import) -> Iterator[Problem]:
    severity: Severity = "warning" if each.typing else "error"
    full = f"{each.module}.{each.name}" if each.name else each.module
    if each.module not in DOORS:
        near = _door_of(each.name)
        hint = (
            f"from {near} import {each.name}"
            if near
            else f"Use a public name: of {', '.join(DOORS)}."
        )
        yield Problem(
            "plugin-private-import",
            f"It imports {full}, which is private: it may change in any release.",
            (each.where,),
            hint,
            severity,
        )
    elif each.name and each.name != "*" and full not in DOORS:
        names = _names(each.module)
        if names and each.name not in names:
            near = nearest(each.name, names)
            home = _door_of(each.name)
            yield Problem(
                "plugin-private-import",
                f"{each.module} has no public name {each.name}.",
                (each.where,),
                f"from {home} import {each.name}"
                if home
                else f"Did you mean {near}?"
                if near
                else "Use a public name.",
                severity,
            )


def _door_of(name: str) -> str | None:
    return next((door for door in DOORS if name and name in _names(door)), None)


def _names(door: str) -> tuple[str, ...]:
    """Return the public names of a door; none when it cannot be opened here (an extra)."""
    from importlib import import_module

    try:
        return tuple(import_module(door).__all__)
    except (ImportError, AttributeError):
        return ()
