"""Loading a plugin in a process of its own, and reading what that process could still tell."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from interpose.cli.plugin_check.imports import Scan
from interpose.cli.plugin_check.places import Place
from interpose.cli.plugin_check.probe import Request
from interpose.cli.plugin_check.processes import Ran
from interpose.cli.plugin_check.results import Check, checked, from_json
from interpose.cli.plugin_check.subject import Subject
from interpose.errors import Problem
from interpose.startup.discovery import canonical

CHECKS: Final = (
    "dependencies",
    "load",
    "side-effects",
    "imports",
    "parts",
    "offers-true",
    "settings",
    "plan",
)
"""What the probe makes, in its order."""


def load(
    subject: Subject, found: Scan, place: Place, options: Sequence[str], *, deadline: float
) -> Iterator[Check]:
    """Load the plugins there, and yield every check, also those that were not reached."""
    request = Request(
        distribution=subject.papers.canonical,
        root=str(place.root),
        own=subject.tops,
        declared=sorted({canonical(each.name) for each in subject.papers.requirements}),
        imports=[(each.module, each.where, each.guarded) for each in found.foreign(subject.tops)],
        readme=subject.papers.readme,
        options=list(options),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        request.write(folder / "request")
        (folder / "work").mkdir()
        ran = place.python(
            "-m",
            "interpose.cli.plugin_check.probe",
            str(folder / "request"),
            str(folder / "answer"),
            cwd=folder / "work",
            deadline=deadline,
        )
        checks = list(_read(folder / "answer", ran, deadline))
    yield from (_told_from(place.root, check) for check in checks)


def listed(subject: Subject, place: Place, *, deadline: float) -> Check:
    """Check that ``interpose plugins`` shows every plugin there."""
    with tempfile.TemporaryDirectory() as name:
        ran = place.python(
            "-m", "interpose", "plugins", "--json", cwd=Path(name), deadline=deadline
        )
    try:
        plugins: Any = json.loads(ran.output)
        shown = {(each["id"], each["value"]): each["problem"] for each in plugins}
    except (ValueError, TypeError, KeyError):
        problem = Problem(
            "plugin-listed",
            f"`interpose plugins` fails where it is installed:\n{ran.tail}",
            hint="Correct what it names.",
        )
        return Check("listed", problems=(problem,))
    problems = []
    for entry in subject.papers.plugins:
        if (entry.name, entry.value) not in shown:
            problems.append(
                Problem(
                    "plugin-listed",
                    f'`interpose plugins` does not show the plugin "{entry.name}".',
                    hint="Correct its entry point; `interpose doctor` tells what it found.",
                )
            )
        elif (said := shown[entry.name, entry.value]) is not None:
            problems.append(Problem("plugin-listed", said, hint="Correct its range on interpose."))
    return checked("listed", ", ".join(entry.name for entry in subject.papers.plugins), problems)


def _read(answer: Path, ran: Ran, deadline: float) -> Iterator[Check]:
    told = _lines(answer)
    checks = [from_json(line) for line in told if "check" in line]
    yield from checks
    if told and told[-1].get("done"):
        return
    last = next((line for line in reversed(told) if "doing" in line), None)
    at, doing = ("load", "starting Python") if last is None else (last["at"], last["doing"])
    yield Check(at, problems=(_broke_off(doing, ran, deadline),))
    done = {at, *(check.name for check in checks)}
    for name in CHECKS:
        if name not in done:
            yield Check(name, skipped=f"the process ended while {doing}")


def _lines(answer: Path) -> list[Mapping[str, Any]]:
    if not answer.is_file():
        return []
    found = []
    for line in answer.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break  # cut off in the middle
    return found


def _broke_off(doing: str, ran: Ran, deadline: float) -> Problem:
    if ran.code is None:
        why = f"It took longer than {deadline:g} seconds, and was stopped, while {doing}."
        hint = "An import only defines: wait, read and connect in `lifespan`."
    else:
        ended = f"signal {-ran.code}" if ran.code < 0 else f"exit code {ran.code}"
        why = f"The process ended ({ended}) while {doing}."
        hint = "Correct what ends the process there."
    printed = f"\n{ran.tail}" if ran.tail else ""
    return Problem("plugin-broke-off", f"{why}{printed}", hint=hint)


def _told_from(root: Path, check: Check) -> Check:
    """Name files as the wheel does, not by the temporary folder they were in."""
    inside = re.compile(
        rf"{re.escape(str(root))}[\\/](?:lib[\\/](?:python[^\\/]*[\\/])?site-packages[\\/]?)?",
        re.IGNORECASE,
    )

    def shown(text: str) -> str:
        return inside.sub("", text)

    problems = tuple(
        replace(
            problem,
            message=shown(problem.message),
            where=tuple(filter(None, map(shown, problem.where))),
            hint=shown(problem.hint),
        )
        for problem in check.problems
    )
    return replace(check, problems=problems)
