"""All checks of one plugin, in order: what its files say first, then what it does when loaded."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interpose.cli.plugin_check import building, imports, own_wheel, places, trying
from interpose.cli.plugin_check.content_checks import content_checks
from interpose.cli.plugin_check.paper_checks import (
    admits_interpose,
    admits_python,
    paper_checks,
)
from interpose.cli.plugin_check.papers import Papers
from interpose.cli.plugin_check.places import Place
from interpose.cli.plugin_check.results import Check
from interpose.cli.plugin_check.subject import Subject, Target, installed, unpacked
from interpose.errors import Problem

SETTING_UP: Final = 900.0
"""Seconds that building a wheel may take, and installing it."""

LOADING: Final = 60.0
"""Seconds that loading a plugin may take, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """How to check. ``install``: into a clean environment, else with what is installed here.

    ``options``: settings for the plan, as of ``--set``. ``deadline``: seconds for loading.
    """

    install: bool = True
    options: Sequence[str] = ()
    deadline: float = LOADING


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of it. ``subject`` None: there was nothing that could be read."""

    target: Target
    subject: Subject | None
    checks: tuple[Check, ...]


def check_plugin(target: Target, wishes: Wishes) -> Checked:
    """Make every check. What it makes is removed; a build backend may leave its own things."""
    with tempfile.TemporaryDirectory(prefix="interpose-check-") as name:
        folder = Path(name).resolve()
        checks: list[Check] = []
        subject = _subject(target, folder, wishes, checks)
        if subject is not None:
            checks += file_checks(subject)
            checks += _of_loading(target, subject, folder, wishes)
        return Checked(target, subject, tuple(checks))


def _subject(target: Target, folder: Path, wishes: Wishes, checks: list[Check]) -> Subject | None:
    """Come to something that can be read; what that takes is a check itself."""
    if target.kind == "installed":
        found = installed(target.path)
    else:
        wheel: Path | None = target.path
        if target.kind == "project":
            (folder / "dist").mkdir()
            built, wheel = building.build(
                target.path, folder / "dist", alone=wishes.install, deadline=SETTING_UP
            )
            checks.append(built)
        if wheel is None:
            return None
        found = unpacked(wheel, folder / "unpacked")
    if isinstance(found, Problem):
        checks.append(Check("wheel", problems=(found,)))
        return None
    count = len(found.files)
    checks.append(Check("wheel", f"{count} file{'' if count == 1 else 's'}"))
    return found


def file_checks(subject: Subject) -> Iterator[Check]:
    """Make the checks for which nothing is run."""
    yield from paper_checks(subject.papers)
    yield from content_checks(subject)
    yield imports.private_check(imports.scan(subject))


def _of_loading(target: Target, subject: Subject, folder: Path, wishes: Wishes) -> Iterator[Check]:
    why_not = _why_not(subject.papers)
    place, install = _place(target, subject, folder, wishes, why_not)
    yield install
    if place is None:
        why = why_not or "it could not be installed"
        yield from (Check(name, skipped=why) for name in (*trying.CHECKS, "listed"))
        return
    scan = imports.scan(subject)
    yield from trying.load(subject, scan, place, wishes.options, deadline=wishes.deadline)
    yield trying.listed(subject, place, deadline=wishes.deadline)


def _place(
    target: Target, subject: Subject, folder: Path, wishes: Wishes, why_not: str
) -> tuple[Place | None, Check]:
    """Return where the plugin is loaded, and the check that its wheel can be installed."""
    if why_not:
        return None, Check("install", skipped=why_not)
    if target.kind == "installed":
        return places.here(subject.root), Check("install", skipped="it is installed already")
    if not wishes.install or subject.wheel is None:
        place = places.here(subject.root, first=[subject.root])
        return place, Check("install", skipped="--no-install: loaded with what is installed here")
    wheels = [own_wheel.pack(folder), subject.wheel]
    made = places.clean(folder / "environment", wheels, deadline=SETTING_UP)
    if isinstance(made, Problem):
        return None, Check("install", problems=(made,))
    return made, Check("install", f"{subject.wheel.name} in a clean environment")


def _why_not(papers: Papers) -> str:
    """Say why the plugin cannot be loaded here at all; the checks of files have reported it."""
    if not papers.plugins:
        return "there is no plugin in it"
    if not admits_python(papers):
        return "it is not for this Python"
    return "" if admits_interpose(papers) else "it is for another version of Interpose"
