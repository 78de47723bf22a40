"""What ``--config`` and ``--set`` name, taken through startup."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from interpose.errors import Problem, StartupError, UsageError, nearest
from interpose.startup.built_in import built_in_parts
from interpose.startup.files import find_files
from interpose.startup.prepared import Given, Prepared
from interpose.startup.preparing import UNBOUND, prepare


@contextmanager
def startup(
    arguments: argparse.Namespace,
    *,
    agents: Mapping[str, object] | None = None,
    assume_application: bool = True,
) -> Iterator[tuple[Given, Prepared]]:
    """Go through startup, with the config file's folder on ``sys.path`` inside the block.

    ``agents`` take the place of the file's. ``assume_application``: what the file says that the
    application provides counts as promised. Raises :class:`StartupError` with every problem.
    """
    folder = Path.cwd()
    files = find_files(arguments.config, environ=os.environ, folder=folder)
    if not (files or arguments.set or agents):
        raise StartupError([no_config(folder)])
    given = Given(
        folder=folder,
        files=files,
        environ=dict(os.environ),
        options=arguments.set,
        agents=agents or {},
        assume_application=assume_application,
        built_in=built_in_parts(),
    )
    with importable(folder, files):
        yield given, prepare(given)


@contextmanager
def importable(folder: Path, files: Sequence[str]) -> Iterator[None]:
    """Let ``use = "module:attr"`` find modules beside the first config file, else in ``folder``."""
    place = str((folder / files[0]).parent.resolve() if files else folder)
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)


def no_config(folder: Path) -> Problem:
    """Say that there is nothing to work from."""
    return Problem(
        "no-config",
        "There is no interpose.toml here, and no pyproject.toml with [tool.interpose].",
        (str(folder),),
        "Name a file with --config or INTERPOSE_CONFIG, or make an interpose.toml:\n"
        "[agent]\n"
        'use = "scripted"',
    )


def choose_agent(prepared: Prepared, wanted: str | None) -> str:
    """Return the agent that was asked for: without a name ``default``, or the only one.

    Raises :class:`UsageError` when there is no such agent.
    """
    known = sorted(prepared.plans)
    if wanted is None:
        wanted = known[0] if len(known) == 1 else "default"
    if wanted in prepared.plans:
        return wanted
    meant = nearest(wanted, known)
    raise UsageError(
        f"There is no agent {wanted}.",
        hint=f"Did you mean {meant}?" if meant else f"The agents are {', '.join(known)}.",
    )


def require_agent(prepared: Prepared, agent: str, given: Given) -> None:
    """Raise :class:`StartupError` when nothing says what answers the runs."""
    if prepared.plans[agent].agent.use == UNBOUND:
        problem = Problem(
            "no-agent",
            "The configuration names no agent.",
            tuple(given.files),
            'Add one:\n[agent]\nuse = "scripted"\n'
            '(or "module:object" for your own), or play a recording with --replay FILE.',
        )
        raise StartupError([problem])
