"""Checks that what a plugin imports is what it declares, by what is installed where it runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from interpose.cli.plugin_check.results import Check, checked
from interpose.errors import Problem
from interpose.startup.discovery import HOST, canonical, owners

_PARTS: Final[Mapping[str, str]] = {"pydantic_core": "pydantic"}
"""Modules of a distribution that another one pins, as one product in two parts."""


@dataclass(frozen=True, slots=True)
class Needed:
    """A module that a file imports, and whether its absence is taken care of."""

    module: str
    where: str
    guarded: bool


def dependency_check(imports: Iterable[Needed], declared: Collection[str]) -> Check:
    """Check that each import comes from a declared dependency (canonical names)."""
    said = ", ".join(sorted(declared)) or "none"
    return checked("dependencies", said, _problems(tuple(imports), {*declared}))


def _problems(imports: Iterable[Needed], declared: set[str]) -> Iterator[Problem]:
    known = owners()
    places: dict[tuple[str, bool], list[str]] = {}
    for each in imports:
        top = each.module.partition(".")[0]
        if top != HOST and not _is_declared(top, known, declared):
            places.setdefault((top, each.guarded), []).append(each.where)
    for (top, guarded), where in sorted(places.items()):
        owner = min(known.get(top, ()), default=None)
        if owner is None and _is_here(top):
            continue  # nobody's metadata says whose it is, as for what is installed as a link
        need = owner or canonical(top)
        yield Problem(
            "plugin-dependency",
            f"It imports {top}"
            + (f", which comes with {owner}," if owner else "")
            + " and does not declare it"
            + (": it is here only because something else needs it." if owner else "."),
            tuple(dict.fromkeys(where))[:3],
            f'Declare it as an extra: [project.optional-dependencies]\n{top} = ["{need}"]'
            if guarded
            else f'dependencies = ["{need}>=..."]',
            "warning" if guarded else "error",
        )


def _is_declared(top: str, known: Mapping[str, Collection[str]], declared: set[str]) -> bool:
    names = {*known.get(top, ()), canonical(top), _PARTS.get(top, "")}
    return not names.isdisjoint(declared)


def _is_here(top: str) -> bool:
    try:
        return find_spec(top) is not None
    except (ImportError, ValueError):
        return False
