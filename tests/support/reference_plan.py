"""The reference page of the plan as JSON, from its dataclasses and a real plan."""

from __future__ import annotations

import ast
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from markdown_text import block, code, table
from markdown_text import page as make_page
from source_code import class_named, docstring, fields, first, paragraphs, parsed

from interpose import Host
from interpose.plan import PLAN_SCHEMA

CONFIG = """\
[agent]
use = "scripted"

[middleware.logging]

[middleware.redact]
entities = ["email"]
"""
_KINDS = {
    "str": "string",
    "int": "number",
    "bool": "boolean",
    "PartKind": "string",
    "EdgeOrigin": "string",
    "Strength": "string",
    "Severity": "string",
}


def page() -> str:
    """Return the page."""
    return make_page(
        "The plan as JSON",
        "What `interpose plan --format json`, `GET /plan` and `Plan.to_json()` give: the plan of "
        "one agent, for tools. It never holds the value of a setting.",
        f"`schema` is {PLAN_SCHEMA}. It grows when a field changes its meaning or goes; new fields "
        "may come at any time, so ignore what you do not know.",
        "## `Plan`",
        *_class(
            "interpose.plan", "Plan", extra=(("`schema`", "number", "The version of this form."),)
        ),
        *(part for name in _others() for part in (f"## `{name}`", *_class("interpose.plan", name))),
        "## `Problem`",
        *_class("interpose.errors", "Problem"),
        "## An example",
        "For this configuration:",
        block(CONFIG, "toml"),
        block(example(), "json"),
    )


def example() -> str:
    """Return a real plan, with what differs between versions and machines left open."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "interpose.toml"
        file.write_text(CONFIG, encoding="utf-8")
        plan = Host.from_config(file, environ={}).plan().to_json()
    text = json.dumps(plan, indent=2, ensure_ascii=False).replace(f"{folder}/", "")
    return re.sub(r'("version": )"[^"]+"', r'\1"0.1.0"', text)


def _others() -> list[str]:
    names = [node.name for node in parsed("interpose.plan").body if isinstance(node, ast.ClassDef)]
    return [name for name in reversed(names) if name != "Plan"]


def _class(module: str, name: str, extra: tuple[tuple[str, str, str], ...] = ()) -> Iterator[str]:
    node = class_named(module, name)
    yield from paragraphs(docstring(node))
    rows = [(code(each.name), _kind(each.kind), first(each.said)) for each in fields(node)]
    yield table(["field", "type", "meaning"], [*extra, *rows])


def _kind(annotation: str) -> str:
    """Say as what a field is written in JSON."""
    if annotation.endswith(" | None"):
        return f"{_kind(annotation.removesuffix(' | None'))} or null"
    if found := re.fullmatch(r"tuple\[(.+), \.\.\.\]", annotation):
        return f"list of {_kind(found[1])}{'s' if found[1] in _KINDS else ''}"
    if annotation in _KINDS:
        return _KINDS[annotation]
    return f"[{annotation}](#{annotation.lower()})"
