"""Read what a public name is from the source, where an author of a plugin would read it.

The source is the same on every version of Python and of pydantic, which the running objects are
not.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from repository import ROOT

CORE = ROOT / "core/src/interpose"
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_LANGUAGE = {"property", "classmethod", "staticmethod", "overload", "abstractmethod"}
_PROTOCOL = {
    *("__call__", "__getitem__", "__aiter__", "__await__"),
    *("__enter__", "__exit__", "__aenter__", "__aexit__"),
}


class Found(NamedTuple):
    """A statement that defines a name, and the string below it."""

    statement: ast.stmt
    said: str


class Field(NamedTuple):
    """A field of a dataclass or a model; ``default`` is None if there is none."""

    name: str
    kind: str
    default: str | None
    said: str


@cache
def parsed(module: str) -> ast.Module:
    """Return a module of core, parsed; LookupError if there is none of this name."""
    path = CORE.parent / module.replace(".", "/")
    found: tuple[Path, ...] = (path.with_suffix(".py"), path / "__init__.py")
    for each in found:
        if each.is_file():
            return ast.parse(each.read_text(encoding="utf-8"))
    raise LookupError(module)


def definitions(module: str, name: str) -> tuple[Found, ...]:
    """Return what defines a name of ``module``, followed to where that is; () if it is foreign.

    There are several for a function with overloads.
    """
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    try:
                        return definitions(node.module, alias.name)
                    except LookupError:
                        return ()
    body = parsed(module).body
    found = [
        Found(statement, said)
        for statement, said in _with_strings(body)
        if name in _names(statement)
    ]
    return tuple(found)


def class_named(module: str, name: str) -> ast.ClassDef:
    """Return the class that ``module`` defines under this name."""
    [found] = definitions(module, name)
    if not isinstance(found.statement, ast.ClassDef):
        raise TypeError(f"{name} of {module} is no class")
    return found.statement


def fields(node: ast.ClassDef) -> Iterator[Field]:
    """Yield the public fields of a class, with their types as they are written."""
    for statement, said in _with_strings(node.body):
        if isinstance(statement, ast.AnnAssign) and _is_public(*_names(statement)):
            default = None if statement.value is None else ast.unparse(statement.value)
            [name] = _names(statement)
            yield Field(name, ast.unparse(statement.annotation), default, said)


def methods(node: ast.ClassDef) -> Iterator[Function]:
    """Yield the public methods and properties of a class."""
    for each in node.body:
        if isinstance(each, Function) and (_is_public(each.name) or each.name in _PROTOCOL):
            yield each


def attributes(node: ast.ClassDef) -> Iterator[Field]:
    """Yield what an instance has: what its constructor sets, and its properties."""
    for each in node.body:
        if isinstance(each, Function) and each.name == "__init__":
            for statement, said in _with_strings(each.body):
                for target in _names(statement):
                    head, _, name = target.partition(".")
                    if head == "self" and _is_public(name):
                        kind = getattr(statement, "annotation", None)
                        yield Field(name, ast.unparse(kind) if kind else "", None, said)
    for each in methods(node):
        if is_property(each):
            kind = ast.unparse(each.returns) if each.returns else ""
            yield Field(each.name, kind, None, docstring(each))


def is_property(node: Function) -> bool:
    """Say whether a method is read like an attribute."""
    return any(ast.unparse(mark) == "property" for mark in node.decorator_list)


def is_overload(statement: ast.stmt) -> bool:
    """Say whether a statement is what a caller sees in place of an implementation."""
    return isinstance(statement, Function) and any(
        ast.unparse(mark) == "overload" for mark in statement.decorator_list
    )


def signature(node: Function) -> str:
    """Return the line that defines a function."""
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{kind} {node.name}({ast.unparse(node.args)}){returns}"


def stub(statement: ast.stmt) -> str:
    """Return a definition as a stub file has it, with the beginning of each method's docstring."""
    if isinstance(statement, ast.ClassDef):
        bases = ", ".join(ast.unparse(each) for each in (*statement.bases, *statement.keywords))
        head = [f"@{ast.unparse(mark)}" for mark in statement.decorator_list]
        head += [f"class {statement.name}({bases}):" if bases else f"class {statement.name}:"]
        body = [_indented(each) for each in _members(statement)]
        return "\n".join([*head, *(body or ["    ..."])])
    if isinstance(statement, Function):
        return f"{_marked(statement)}: ..."
    return ast.unparse(statement)


def docstring(node: ast.AST) -> str:
    """Return a docstring without its indentation, "" if there is none."""
    found = isinstance(node, ast.ClassDef | Function | ast.Module) and ast.get_docstring(node)
    return found or ""


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a docstring, as Markdown: RST's roles and literals are code."""
    text = re.sub(r":[a-z]+:`[~.]?([^`]+)`", r"`\1`", inspect.cleandoc(text))
    parts = re.split(r"\n[ \t]*\n", re.sub(r"``(.+?)``", r"`\1`", text, flags=re.DOTALL))
    return [" ".join(part.split()) for part in parts if part.strip()]


def first(text: str) -> str:
    """Return the first paragraph of a docstring as Markdown."""
    found = paragraphs(text)
    return found[0] if found else ""


def _members(node: ast.ClassDef) -> Iterator[str]:
    for statement, said in _with_strings(node.body):
        if isinstance(statement, Function):
            if statement.name == "__init__" or statement in [*methods(node)]:
                about = first(docstring(statement)).replace("`", "")
                yield f"{_marked(statement)}:" + _indented(f'\n"""{about}"""' if about else " ...")
        elif isinstance(statement, ast.AnnAssign | ast.Assign) and _is_public(*_names(statement)):
            about = first(said).replace("`", "")
            yield ast.unparse(statement) + (f'\n"""{about}"""' if about else "")
    for each in attributes(node):
        if not any(each.name == method.name for method in methods(node)):
            kind = f": {each.kind}" if each.kind else ": Any"
            about = first(each.said).replace("`", "")
            yield f"{each.name}{kind}" + (f'\n"""{about}"""' if about else "")


def _marked(node: Function) -> str:
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    kept = [f"@{mark}\n" for mark in marks if mark in _LANGUAGE]
    return "".join([*kept, signature(node)])


def _indented(text: str) -> str:
    return re.sub(r"^(?=.)", "    ", text, flags=re.MULTILINE)


def _is_public(*names: str) -> bool:
    return bool(names) and not any(name.startswith("_") for name in names)


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.ClassDef | Function):
        return [statement.name]
    if isinstance(statement, ast.AnnAssign):
        return [ast.unparse(statement.target)]
    if isinstance(statement, ast.Assign):
        return [ast.unparse(target) for target in statement.targets]
    return []


def _with_strings(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement with its docstring, or the string that stands below it."""
    for statement, below in zip(body, [*body[1:], None], strict=True):
        said = docstring(statement)
        if isinstance(statement, ast.AnnAssign | ast.Assign) and isinstance(below, ast.Expr):
            value = below.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                said = inspect.cleandoc(value.value)
        yield statement, said
