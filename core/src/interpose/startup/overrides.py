"""What is said more strongly than any file or variable: ``--set a.b=c``, and mappings in code."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interpose.errors import Problem
from interpose.startup.files import Source
from interpose.startup.tree import Origin, annotate_table, shown


def from_mapping(values: Mapping[str, Any], *, name: str, folder: Path) -> Source:
    """Take a mapping given in code; ``name`` says which argument, as ``Host(overrides)``."""
    origin = Origin(name)
    return Source(name, annotate_table(values, lambda _: origin, folder))


def from_options(
    options: Sequence[str], *, folder: Path
) -> tuple[tuple[Source, ...], tuple[Problem, ...]]:
    """Read ``--set`` options, the weakest first. Later ones win.

    The key is dotted as in TOML (``middleware.redact.entities``, quoted where needed). The value
    is TOML, and text that is not TOML is a string: ``--set agent.use=scripted``.
    """
    sources: list[Source] = []
    problems: list[Problem] = []
    for option in options:
        read = _from_option(option, folder)
        (problems if isinstance(read, Problem) else sources).append(read)  # type: ignore[arg-type]
    return tuple(sources), tuple(problems)


def _from_option(option: str, folder: Path) -> Source | Problem:
    key, equals, text = option.partition("=")
    path = _keys(key) if equals else None
    if path is None:
        # The option's text stays out of the message: its value may be a secret.
        return Problem(
            "invalid-override",
            "--set takes a dotted key and a value.",
            (f"--set {key.strip()}",),
            "Write it as --set middleware.<id>.<key>=<value>.",
        )
    name = f"--set {shown(path)}"
    value = _value(text)
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") and value == text:
        return Problem(
            "invalid-override",
            f"{name}: its value looks like a table or a list, and is no TOML.",
            (name,),
            'Write a table as { "key" = "value" } and a list as ["a", "b"]; quote other text.',
        )
    for step in reversed(path):
        value = {step: value}
    return from_mapping(value, name=name, folder=folder)


def _keys(dotted: str) -> tuple[str, ...] | None:
    """Split a dotted key the way TOML does."""
    try:
        data = tomllib.loads(f"{dotted.strip()} = 0")
    except tomllib.TOMLDecodeError:
        return None
    keys: list[str] = []
    node: Any = data
    while isinstance(node, dict):
        if len(node) != 1:  # a newline made more than one key of it
            return None
        [(key, node)] = node.items()
        keys.append(key)
    return tuple(keys)


def _value(text: str) -> Any:
    try:
        data = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return data["value"] if len(data) == 1 else text
