"""From the name of a distribution to every other name in it, and whether they can be used."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import interpose
from interpose.errors import Problem
from interpose.startup.discovery import Discovery, canonical

_ID: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
_PREFIX: Final = "interpose-"
_BUILT_IN: Final = frozenset({"loop", "remote", "scripted"})
"""Ids of the agents and models that Interpose itself has."""
_COMMON: Final = frozenset(
    {"app", "common", "core", "main", "plugin", "plugins", "src", "test", "tests", "utils"}
)
"""Top-level packages that too many distributions would ship."""
_TAKEN: Final = frozenset(
    {*interpose.__all__, "Counting", "Counts", "InMemory", "Limit", "Repeating", "Report", "Store"}
)
"""Names that the templates import or define; a class of the plugin cannot have one, too."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a new plugin.

    ``interpose-word-mask`` has the id ``word-mask``, the package ``interpose_word_mask``, and
    ``WordMask`` in its classes' names.
    """

    distribution: str
    plugin: str
    package: str
    stem: str

    @classmethod
    def of(cls, name: str) -> Names:
        """Derive them from the name of the distribution."""
        plugin = name.removeprefix(_PREFIX)
        stem = "".join(word.capitalize() for word in plugin.split("-"))
        return cls(name, plugin, name.replace("-", "_"), stem)


def name_problems(names: Names, discovery: Discovery, *, is_local: bool) -> Iterator[Problem]:
    """Yield why the names cannot be used; ``is_local``: for one file in an application."""
    given = names.distribution
    if not (_ID.match(given) and _ID.match(names.plugin)):
        yield Problem(
            "bad-name",
            f'"{given}" is no name for a plugin: names are lower case letters and digits, in '
            f"words with - between them, and begin with a letter.",
            hint=_suggested(given),
        )
        return
    module = names.plugin.replace("-", "_") if is_local else names.package
    if keyword.iskeyword(names.stem) or names.stem in _TAKEN:
        yield Problem(
            "bad-name",
            f'The class would be "{names.stem}", a name that the code already uses.',
            hint="Choose a name that says whose it is, or what it does.",
        )
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in _COMMON:
        yield Problem(
            "bad-name",
            f'The module would be "{module}", a name that Python or many others use.',
            hint="Choose a name that says whose it is, or what it does.",
        )
    elif not is_local and find_spec(module) is not None:
        yield Problem(
            "name-taken",
            f'A package "{module}" is here already, and two cannot be imported by one name.',
            hint="Choose another name, or uninstall the other one.",
        )
    if not is_local:
        yield from _taken(names, discovery)


def _taken(names: Names, discovery: Discovery) -> Iterator[Problem]:
    if names.plugin in _BUILT_IN:
        yield Problem(
            "name-taken",
            f'"{names.plugin}" is the id of an agent that Interpose has itself.',
            hint="Choose another name.",
        )
    for entry in discovery.plugins:
        if canonical(entry.distribution.name) == canonical(names.distribution):
            yield Problem(
                "name-taken",
                f"{entry.distribution} is installed already.",
                hint="Choose another name, or uninstall it.",
            )
        elif entry.id == names.plugin:
            yield Problem(
                "name-taken",
                f'The id "{names.plugin}" belongs to {entry.distribution}, which is installed.',
                hint="Choose another name: an operator with both would have to name one of them "
                "in full.",
            )


def _suggested(given: str) -> str:
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", given).lower())
    meant = "-".join(words)
    is_fine = _ID.match(meant) and _ID.match(meant.removeprefix(_PREFIX)) and meant != "interpose"
    return f"Write {meant}." if is_fine and meant != given else "For example: interpose-word-mask."
