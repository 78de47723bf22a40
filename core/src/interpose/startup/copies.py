"""A distribution that is found more than once counts once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from interpose.errors import Problem

if TYPE_CHECKING:
    from interpose.startup.discovery import Distribution, Entry

    _Found = tuple[Distribution, tuple[Entry, ...]]


def without_copies(found: Iterable[_Found], notes: list[Problem]) -> Iterator[_Found]:
    """Let each distribution count once: the first on the path, as for Python's import.

    Two in one folder have no order; there the newer one counts, and the other is a leftover.
    """
    groups: dict[str, list[_Found]] = {}
    for distribution, entries in found:
        groups.setdefault(distribution.canonical, []).append((distribution, entries))
    for copies in groups.values():
        if len(copies) == 1:
            yield copies[0]
            continue
        first = Path(copies[0][0].location).resolve()
        beside = [copy for copy in copies if Path(copy[0].location).resolve() == first]
        chosen = max(beside, key=lambda copy: _order(copy[0].version))
        for other, _ in copies:
            same = other.version == chosen[0].version
            # Another way to the same folder (a lib64 link, a path listed twice) is no copy.
            if other is chosen[0] or (same and Path(other.location).resolve() == first):
                continue
            notes.append(_copy_note(chosen[0], other))
        yield chosen


def _order(version: str) -> tuple[int, object]:
    from packaging.version import InvalidVersion, Version

    try:
        return (1, Version(version))
    except InvalidVersion:
        return (0, version)


def _copy_note(chosen: Distribution, other: Distribution) -> Problem:
    stale = chosen.version != other.version
    return Problem(
        "stale-distribution" if stale else "duplicate-distribution",
        f"{chosen} is installed more than once; "
        + (f"the metadata of {other} is a leftover." if stale else "it counts once."),
        (chosen.location, other.location),
        f"Remove what is left of {other} in {other.location}."
        if stale
        else f"Uninstall {chosen.name} until pip finds none, then install it once.",
        severity="warning" if stale else "note",
    )
