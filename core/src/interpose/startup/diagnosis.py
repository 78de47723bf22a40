"""From a pydantic ``ValidationError`` to problems that say where, what was meant, and no secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from interpose.errors import Problem, nearest
from interpose.startup.environment import PREFIX, variable_name
from interpose.startup.merging import NOWHERE
from interpose.startup.part import LAYER_KEYS, Part
from interpose.startup.secrecy import is_secret, models_in, redact
from interpose.startup.tree import (
    KeyPath,
    Node,
    Origin,
    Scalar,
    Table,
    at,
    child,
    descend,
    is_resolved,
    shown,
)

_INSTALL: Final = re.compile(r'pip install "[^"]+"')


@dataclass(frozen=True, slots=True)
class _Fault:
    """One error of pydantic, with its ``loc`` walked through the tree as far as that goes.

    pydantic puts the names of a union's branches into ``loc``: ``branch`` is the first of them, and
    ``union`` the path at which it stood. ``missing`` is the key that is not there.
    """

    path: KeyPath
    union: KeyPath | None
    branch: str
    missing: str | None
    type: str
    text: str


def diagnose(
    part: Part, tree: Table, error: ValidationError, secrets: frozenset[str], config: Table
) -> Iterator[Problem]:
    """Turn each error of ``part``, read from ``tree``, into a problem.

    ``config`` is everything that was configured; it tells which of the part's tables says a key.
    """
    errors = error.errors(include_input=False, include_url=False, include_context=False)
    groups: dict[tuple[KeyPath, str | None], list[_Fault]] = {}
    for fault in (_walk(tree, each["loc"], each["type"], each["msg"]) for each in errors):
        if _is_consequence(tree, fault):
            continue
        key = (fault.path, fault.missing) if fault.union is None else (fault.union, None)
        groups.setdefault(key, []).append(fault)
    for (path, _), faults in groups.items():
        # A single branch was chosen by its tag, so its errors are errors of their own.
        if len({fault.branch for fault in faults}) == 1:
            problems = [_problem(part, tree, fault, config) for fault in faults]
        else:
            problems = [_fits_none(part, tree, path, faults, config)]
        for problem in problems:
            yield replace(
                problem,
                message=redact(problem.message, secrets),
                hint=redact(problem.hint, secrets),
            )


def crashed(part: Part, tree: Table, error: Exception, secrets: frozenset[str]) -> Problem:
    """Report a validator that raised what a validator must not raise."""
    text = f"{shown(part.path)}: {part.model.__qualname__} failed with {type(error).__name__}"
    detail = str(error)
    return Problem(
        "settings-crashed",
        redact(f"{text}: {detail}." if detail else f"{text}.", secrets),
        _where(tree),
        "This is a defect of the plugin: its validators may raise only ValueError.",
    )


def _walk(tree: Table, loc: Sequence[str | int], kind: str, text: str) -> _Fault:
    node: Node = tree
    path: KeyPath = ()
    union: KeyPath | None = None
    branch = ""
    missing: str | None = None
    for index, step in enumerate(loc):
        below = child(node, step)
        if below is not None:
            node, path = below, (*path, step)
        elif kind == "missing" and index == len(loc) - 1:
            missing = str(step)
        elif union is None:
            union, branch = path, str(step)
    return _Fault(path, union, branch, missing, kind, _sentence(text))


def _sentence(text: str) -> str:
    for prefix in ("Value error, ", "Assertion failed, "):
        text = text.removeprefix(prefix)
    text = text.replace("Input should", "it should", 1) if text.startswith("Input") else text
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _is_consequence(tree: Table, fault: _Fault) -> bool:
    """Say whether a reference that could not be looked up, and is reported, explains the fault."""
    node, _ = descend(tree, fault.path)
    if fault.path and not fault.missing:
        return not is_resolved(node)
    return not fault.missing and not is_resolved(tree)


def _problem(part: Part, tree: Table, fault: _Fault, config: Table) -> Problem:
    if fault.missing is not None:
        return _missing(part, tree, fault)
    if fault.type == "extra_forbidden":
        return _unknown(part, tree, fault, config)
    node, _ = descend(tree, fault.path)
    return Problem(
        "invalid-setting",
        f"{shown(_home(part, fault.path, config))}: {fault.text}",
        _where(node),
        _remedy(part, fault, node),
    )


def _fits_none(
    part: Part, tree: Table, path: KeyPath, faults: Sequence[_Fault], config: Table
) -> Problem:
    """Report one value that was tried as each branch of a union."""
    node, _ = descend(tree, path)
    lines = dict.fromkeys(_line(fault, fault.path[len(path) :]) for fault in faults)
    return Problem(
        "invalid-setting",
        "\n".join([f"{shown(_home(part, path, config))} fits none of its forms:", *lines]),
        _where(node),
        _remedy(part, replace(faults[0], path=path, type="union"), node),
    )


def _line(fault: _Fault, below: KeyPath) -> str:
    if fault.missing is not None:
        return f'"{shown((*below, fault.missing))}" is missing.'
    if fault.type == "extra_forbidden":
        return f'there is no "{shown(below)}".'
    return f"{shown(below)}: {fault.text}" if below else fault.text


def _missing(part: Part, tree: Table, fault: _Fault) -> Problem:
    name = str(fault.missing)
    node, _ = descend(tree, fault.path)
    table = (*(part.base or part.path), *fault.path)
    found = _field(part.model, (*fault.path, name))
    secret = found is not None and is_secret(found[1].annotation)
    value = '{ "$env" = "<VARIABLE>" }' if secret else "..."
    line = f"{name} = {value}"
    in_list = any(isinstance(step, int) for step in table)
    return Problem(
        "missing-setting",
        f'{shown(table)}: the required setting "{name}" is missing.',
        _where(node),
        f"Add {line} there."
        if in_list
        else f"Add {line} to [{shown(table)}], or set {variable_name((*table, name))}.",
    )


def _unknown(part: Part, tree: Table, fault: _Fault, config: Table) -> Problem:
    *parent, last = fault.path
    node, _ = descend(tree, fault.path)
    home = _home(part, fault.path, config)
    table, key = home[:-1], str(last)
    names = _names(part, tuple(parent))
    host_keys = part.host_keys if part.half == "plugin" and not parent else None
    meant = nearest(key, [*names, *sorted(host_keys or ())])
    if _is_variable(node.origin):
        return Problem(
            "unknown-variable",
            f"{node.origin} is not a setting: [{shown(table)}] has no key {key}.",
            _where(node),
            f"Did you mean {variable_name((*table, meant))}?" if meant else _choices(names),
        )
    if not parent and part.path[0] == "middleware" and key in LAYER_KEYS:
        hint = f"The host's options stand in a sub-table: layer = {{ {key} = ... }}."
    elif meant:
        hint = f'Did you mean "{meant}"?'
    elif not parent and part.path[0] == "middleware" and isinstance(node, Table):
        hint = nested_layer(str(part.path[1]), key, config)
    else:
        hint = _choices(names)
    return Problem(
        "unknown-setting", f'{shown(table)}: there is no setting "{key}".', _where(node), hint
    )


def nested_layer(layer: str, key: str, config: Table) -> str:
    """Say what ``[middleware.<layer>.<key>]`` most likely meant: a middleware of a plugin."""
    use = at(config, ("middleware", layer, "use"))
    named = use.value if isinstance(use, Scalar) and isinstance(use.value, str) else layer
    plugin = named.partition("@")[0].partition(".")[0]
    return (
        f"Each layer has a table of its own. If the middleware {plugin}.{key} is meant:\n"
        f'[middleware.{key}]\nuse = "{plugin}.{key}"'
    )


def _choices(names: Sequence[str]) -> str:
    return f"The settings are {', '.join(names)}." if names else "It takes no settings: remove it."


def _remedy(part: Part, fault: _Fault, node: Node) -> str:
    found = _field(part.model, fault.path)
    source = node.origin.source
    if fault.type == "string_type" and source.startswith("--set "):
        return f"Quote a value that is text: {source.removeprefix('--set ')}='\"...\"'."
    if found is None:
        # A validator that lacks a package says how to get it.
        install = _INSTALL.search(fault.text)
        return f"Run {install[0]}." if install else "Correct the value."
    name, info = found
    wanted = f"{name} takes {_type_name(info.annotation)}"
    return f"{wanted}: {info.description}" if info.description else f"{wanted}."


def _type_name(annotation: Any) -> str:
    """Write a type for a person: ``int``, ``list[str]``, ``'fail' or 'skip'``."""
    if annotation is SecretStr:
        return "secret text"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(_type_name(each) for each in arguments if each is not NoneType)
    if origin is Literal:
        return " or ".join(repr(value) for value in arguments)
    if arguments:
        inner = ", ".join("..." if each is Ellipsis else _type_name(each) for each in arguments)
        return f"{_type_name(origin)}[{inner}]"
    return str(getattr(annotation, "__name__", annotation))


def _home(part: Part, path: KeyPath, config: Table) -> KeyPath:
    """Return the full path of a value: below the part's own table, or below its base."""
    own = (*part.path, *path)
    if part.base is None or not path or at(config, own) is not None:
        return own
    return (*part.base, *path)


def _where(node: Node) -> tuple[str, ...]:
    return () if node.origin is NOWHERE else (str(node.origin),)


def _is_variable(origin: Origin) -> bool:
    return origin.source.upper().startswith(PREFIX)


def _names(part: Part, parent: KeyPath) -> list[str]:
    """Return the settings that the table at ``parent`` may have."""
    if parent:
        found = _field(part.model, parent)
        annotation: Any = found[1].annotation if found else None
    else:
        annotation = part.model
    return [key for model in models_in(annotation) for key, _ in keys_of(model)]


def keys_of(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield each field under the key by which a file names it."""
    for name, info in model.model_fields.items():
        yield key_of(name, info), info


def key_of(name: str, info: FieldInfo) -> str:
    """Return the key by which a file names a field: its alias, if it has one."""
    alias = info.validation_alias or info.alias
    return alias if isinstance(alias, str) else name


def _field(model: type[BaseModel], path: KeyPath) -> tuple[str, FieldInfo] | None:
    """Return the innermost field that reads ``path``, and its key; items belong to their list."""
    found: tuple[str, FieldInfo] | None = None
    annotation: Any = model
    for step in path:
        fields = {key: info for each in models_in(annotation) for key, info in keys_of(each)}
        info = fields.get(str(step)) if isinstance(step, str) else None
        if info is not None:
            found, annotation = (str(step), info), info.annotation
    return found
