"""The reference pages of the hooks: those of a middleware, and those of a plugin."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from markdown_text import block, code, table
from markdown_text import page as make_page
from source_code import (
    Field,
    Function,
    attributes,
    class_named,
    docstring,
    fields,
    first,
    is_property,
    methods,
    paragraphs,
    parsed,
    signature,
)

import interpose
from interpose.startup.hook_rules import HOOKS

_CONTEXTS = {
    "RunContext": "What every hook of a middleware gets.",
    "LifespanContext": "What `lifespan`, and a factory of agents or models, gets.",
    "AgentContext": "What an agent gets.",
}
_MADE_ONCE = ("declare", "lifespan")


def page() -> str:
    """Return the page about the hooks of a middleware."""
    return make_page(
        "Hooks, exactly",
        "The exact signatures of the hooks of `Middleware`, and the fields of what they receive "
        "and return. [Hooks of a middleware](../hooks.md) tells when each is called, and what a "
        "failure in it means. Each may be `def` or `async def`, except `around_run`, "
        "`around_model_call` and `around_step`, which are async generators, and `around_tool_call`, "
        "which is a coroutine. `MaybeNone` stands for `Awaitable[None] | None`.",
        *_hooks(),
        *_declared(),
        *_payloads(),
        *_contexts(),
    )


def hookspecs_page() -> str:
    """Return the page about the hooks of a plugin."""
    parts: list[str] = []
    for node in parsed("interpose.hookspecs").body:
        if isinstance(node, Function):
            parts += [f"## `{node.name}`", *_function(node)]
    return make_page(
        "Hooks of a plugin",
        "The functions that a plugin may implement, marked with `@hookimpl`. They are plain "
        "functions, called at startup and for the host's life, never per event. An implementation "
        "may take fewer arguments. [What a plugin can hold](../plugins.md) has an example.",
        *parts,
    )


def _function(node: Function) -> Iterator[str]:
    yield block(f"{signature(node)}: ...")
    yield from (text.replace(" Isolated.", "") for text in paragraphs(docstring(node)))


def _hooks() -> Iterator[str]:
    found = {each.name: each for each in methods(class_named("interpose", "Middleware"))}
    yield "## The hooks"
    for name, rule in HOOKS.items():
        yield f"### `{name}`"
        yield from _function(found[name])
        yield f"Point: {rule.point.value}. Several layers: {rule.combines}."
    yield "## Made once for a layer"
    for name in _MADE_ONCE:
        yield f"### `{name}`"
        yield from _function(found[name])


def _declared() -> Iterator[str]:
    every = list(fields(class_named("interpose", "Middleware")))
    yield "## What an instance has"
    yield _fields([each for each in every if each.default is None])
    yield "## What a class declares"
    yield "The answer of `declare` has the same fields, for given settings."
    yield _fields([each for each in every if each.default is not None])


def _fields(found: list[Field]) -> str:
    """Write fields as a table, without the columns that none of them fills."""
    columns = {
        "name": [code(each.name) for each in found],
        "type": [code(re.sub(r"^ClassVar\[(.*)\]$", r"\1", each.kind)) for each in found],
        "default": [code(each.default or "") for each in found],
        "meaning": [first(each.said) for each in found],
    }
    used = {name: cells for name, cells in columns.items() if any(cells)}
    return table(list(used), zip(*used.values(), strict=True))


def _payloads() -> Iterator[str]:
    yield "## What hooks receive and return"
    for node in parsed("interpose.payloads").body:
        if isinstance(node, ast.ClassDef) and node.name in interpose.__all__:
            yield f"### `{node.name}`"
            yield from paragraphs(docstring(node))
            yield _fields(list(fields(node)))


def _contexts() -> Iterator[str]:
    yield "## Contexts"
    for name, about in _CONTEXTS.items():
        node = class_named("interpose", name)
        yield f"### `{name}`"
        yield f"{about} {first(docstring(node))}"
        yield _fields(list(attributes(node)))
        for each in methods(node):
            if not is_property(each):
                yield from _function(each)
