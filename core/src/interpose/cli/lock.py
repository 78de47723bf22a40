"""``interpose lock``: write down what runs, so that a later change of it is seen."""

from __future__ import annotations

import argparse
from pathlib import Path

from interpose.cli.configured import startup
from interpose.cli.exits import OK
from interpose.cli.lockfile import place_of, read_lock, write_lock
from interpose.cli.terminal import complain
from interpose.errors import Problem, StartupError, render
from interpose.startup.drift import drift
from interpose.startup.locking import lock_of
from interpose.startup.lockmodel import IN_HOUSE, Lock


def main(arguments: argparse.Namespace) -> int:
    """Write the lock, unless there is the same already, and say what changed."""
    with startup(arguments) as (given, prepared):
        lock = lock_of(prepared)
        name = place_of(arguments.output, given.files)
        if prepared.warnings:
            complain(render(prepared.warnings))
    old = read_lock(name)
    if isinstance(old, Problem):
        _refuse_foreign(name, old)
    if old == lock:
        print(f"{name} is up to date: {_summary(lock)}")
        return OK
    write_lock(name, lock)
    print(f"{name} is written: {_summary(lock)}")
    for each in drift(old, lock) if isinstance(old, Lock) else ():
        print(f"  {each}")
    if isinstance(old, Problem) and old.code != "missing-lock":
        print("  what changed is not known: the old one could not be read")
    return OK


def _refuse_foreign(name: str, problem: Problem) -> None:
    """Spare a file that is no lock, as a config file named by mistake."""
    if problem.code == "invalid-lock" and Path(name).suffix != ".lock":
        raise StartupError(
            [
                Problem(
                    "invalid-lock",
                    f"{name} is there, and is no lock; it is left as it is.",
                    problem.where,
                    "Name another file with --output, or remove this one.",
                )
            ]
        )


def _summary(lock: Lock) -> str:
    used = [*lock.agents.values(), *lock.providers.values(), *lock.models.values()]
    layers = {layer.id: layer for agent in lock.agents.values() for layer in agent.layers}
    sources = [*(part.distribution for part in used), *(x.distribution for x in layers.values())]
    own = sources.count(IN_HOUSE)
    said = [
        _count(len(lock.distributions), "distribution"),
        _count(len(lock.agents), "agent"),
        _count(len(layers), "layer"),
    ]
    said += [f"{_count(own, 'part')} of in-house code, whose version nobody knows"] if own else []
    return ", ".join(said)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
