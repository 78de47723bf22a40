"""``interpose doctor``: whether what is installed is sound."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from interpose._version import __version__
from interpose.cli.exits import OK, PROBLEMS
from interpose.cli.plugin_commands import name_notes
from interpose.cli.terminal import paint
from interpose.errors import Problem, render
from interpose.startup.discovery import CommandEntry, Discovery, PluginEntry, discover
from interpose.startup.loading import check_range


def main(arguments: argparse.Namespace) -> int:
    """Print what is wrong with the installation. A note alone is nothing wrong."""
    discovery = discover(thorough=True)
    findings = _findings(discovery)
    wrong = sum(finding.severity != "note" for finding in findings)
    if arguments.json:
        report = {
            "ok": not wrong,
            "interpose": __version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "plugins": len(discovery.plugins),
            "findings": [asdict(finding) for finding in findings],
        }
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return PROBLEMS if wrong else OK
    if findings:
        print(paint(render(findings), sys.stdout), end="\n\n")
    looked = f"{_count(len(discovery.plugins), 'plugin')} installed"
    print(f"{_count(wrong, 'problem')}; {looked}." if wrong else f"ok: {looked}.")
    return PROBLEMS if wrong else OK


def _findings(discovery: Discovery) -> list[Problem]:
    entries: list[PluginEntry | CommandEntry] = [*discovery.plugins, *discovery.commands]
    unfit = (problem for problem in map(check_range, entries) if problem is not None)
    return [*discovery.notes, *name_notes(discovery), *unfit]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
