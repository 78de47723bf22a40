"""``interpose check``: all of startup, but nothing is started."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from interpose.cli.configured import startup
from interpose.cli.exits import OK, PROBLEMS
from interpose.cli.lockfile import place_of, read_lock
from interpose.cli.terminal import paint
from interpose.errors import Problem, StartupError, render
from interpose.startup.drift import drift
from interpose.startup.locking import lock_of
from interpose.startup.prepared import Given, Prepared
from interpose.startup.preparing import UNBOUND


def main(arguments: argparse.Namespace) -> int:
    """Print every problem there is, or one line that says that all is well."""
    try:
        with startup(arguments) as (given, prepared):
            problems: Sequence[Problem] = (*prepared.warnings, *_without_agent(prepared))
            verdict = f"ok: {_summary(given, prepared)}"
            if arguments.locked is not None:
                name = place_of(arguments.locked, given.files)
                differing = _against_lock(name, prepared)
                problems = (*differing, *problems)
                count = _count(len(differing), "problem")
                verdict = f"{count} with {name}." if differing else f"{verdict}, as in {name}"
    except StartupError as error:
        if arguments.debug:
            raise
        problems = error.problems
        verdict = f"{error.message}."
    failed = any(problem.severity == "error" for problem in problems)
    if arguments.json:
        listed = [asdict(problem) for problem in problems]
        print(json.dumps({"ok": not failed, "problems": listed}, indent=2, ensure_ascii=False))
    else:
        if problems:
            print(paint(render(problems), sys.stdout), end="\n\n")
        print(verdict)
    return PROBLEMS if failed else OK


def _against_lock(name: str, prepared: Prepared) -> tuple[Problem, ...]:
    """Return what is wrong with the lock, or each difference from it."""
    locked = read_lock(name)
    if isinstance(locked, Problem):
        return (locked,)
    return tuple(each.problem(name) for each in drift(locked, lock_of(prepared)))


def _without_agent(prepared: Prepared) -> tuple[Problem, ...]:
    """Say that only an application which brings its agent can run this."""
    agents = [part.part.use for path, part in prepared.parts.items() if path[0] == "agents"]
    if agents != [UNBOUND]:
        return ()
    return (
        Problem(
            "no-agent",
            "No agent is configured: only an application that brings one can run this.",
            hint='For `interpose run`, add [agent] with use = "scripted" or "module:object".',
            severity="warning",
        ),
    )


def _summary(given: Given, prepared: Prepared) -> str:
    agents = ", ".join(
        f"agent {agent} with {_count(len(plan.layers), 'layer')}"
        for agent, plan in prepared.plans.items()
    )
    return f"{', '.join(given.files) or '--set'}: {agents}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
