"""What ``interpose check-plugin`` prints: a line for each check, or one JSON document."""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from textwrap import indent
from typing import Any, Final

from interpose._version import __version__
from interpose.cli.plugin_check.checking import Checked
from interpose.cli.plugin_check.results import Check, to_json
from interpose.cli.terminal import paint, visible
from interpose.errors import render

SCHEMA: Final = 1
"""Grows when a field of the JSON form changes its meaning or goes."""


def has_failed(checked: Checked, *, strict: bool) -> bool:
    """Say whether something is wrong. ``strict``: a warning is, too."""
    bad = {"error", "warning"} if strict else {"error"}
    return any(check.outcome in bad for check in checked.checks)


def as_json(checked: Checked, *, strict: bool) -> str:
    """Return everything as JSON."""
    return json.dumps(_document(checked, strict=strict), indent=2, ensure_ascii=False)


def _document(checked: Checked, *, strict: bool) -> dict[str, Any]:
    subject = checked.subject
    papers = None if subject is None else subject.papers
    return {
        "schema": SCHEMA,
        "ok": not has_failed(checked, strict=strict),
        "interpose": __version__,
        "python": platform.python_version(),
        "target": checked.target.name,
        "kind": checked.target.kind,
        "distribution": None if papers is None else papers.name,
        "version": None if papers is None else papers.version,
        "plugins": [] if papers is None else [entry.name for entry in papers.plugins],
        "checks": [to_json(check) for check in checked.checks],
    }


def as_text(checked: Checked, *, strict: bool) -> str:
    """Return everything for a person."""
    lines = [line for check in checked.checks for line in _lines(check)]
    return "\n".join([*lines, "", _verdict(checked, strict=strict)])


def _lines(check: Check) -> list[str]:
    says = check.skipped or (check.says if check.outcome == "ok" else "")
    lines = [visible(f"{check.outcome:<8} {check.name:<13} {says}").rstrip()]
    if check.problems:
        problems = paint(visible(render(check.problems)), sys.stdout)
        lines += [indent(problems, "    "), ""]
    return lines


def _verdict(checked: Checked, *, strict: bool) -> str:
    subject = checked.subject
    name = checked.target.name
    if subject is not None:
        name = f"{subject.papers.name} {subject.papers.version}"
    counts = Counter(check.outcome for check in checked.checks)
    told = [_count(counts["error"], "error")] if counts["error"] else []
    told += [_count(counts["warning"], "warning")] if counts["warning"] else []
    told += [f"{counts['skipped']} skipped"] if counts["skipped"] else []
    told.insert(0, f"{counts['ok']} of {len(checked.checks)} checks are fine")
    ok = "" if has_failed(checked, strict=strict) else "ok: "
    return visible(f"{ok}{name}: {', '.join(told)}.")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
