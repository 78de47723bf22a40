"""Where a plugin is loaded: a clean environment with its wheel in it, or what is installed here."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interpose.cli.plugin_check.processes import Ran, run
from interpose.errors import Problem

_LEADING: Final = ("PYTHON", "VIRTUAL_ENV", "INTERPOSE")
_UNREACHED: Final = (
    "NewConnectionError",
    "name resolution",
    "No matching distribution",
    "timed out",
)


@dataclass(frozen=True, slots=True)
class Place:
    """How to start the Python that has the plugin. ``root``: where its modules must come from."""

    command: tuple[str, ...]
    root: Path
    environ: Mapping[str, str] = field(repr=False)

    def python(self, *arguments: str, cwd: Path, deadline: float) -> Ran:
        """Run Python there."""
        return run([*self.command, *arguments], cwd=cwd, environ=self.environ, deadline=deadline)


def outside() -> dict[str, str]:
    """Return this process's variables without those that would lead another Python astray."""
    return {k: v for k, v in os.environ.items() if not k.upper().startswith(_LEADING)}


def here(root: Path, *, first: Sequence[Path] = ()) -> Place:
    """Return the running environment; ``first``: folders whose modules go before all others."""
    entries = [*map(str, first), *(str(Path(entry).absolute()) for entry in sys.path if entry)]
    environ = outside() | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(entries))}
    return Place((sys.executable, "-P", "-B"), root, environ)


def make_environment(folder: Path, *, deadline: float) -> Ran:
    """Make an environment that has nothing but pip."""
    command = [sys.executable, "-m", "venv", str(folder)]
    return run(command, cwd=folder.parent, environ=outside(), deadline=deadline)


def clean(folder: Path, wheels: Sequence[Path | str], *, deadline: float) -> Place | Problem:
    """Make an empty environment in ``folder`` and install wheels into it, with what they need."""
    made = make_environment(folder, deadline=deadline)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if made.code != 0:
        return Problem(
            "plugin-install",
            f"No clean environment could be made, so the wheel was not installed:\n{made.tail}",
            (sys.executable,),
            "Install the module venv with ensurepip (on Debian: apt install python3-venv), or "
            "check with what is installed here: --no-install.",
        )
    place = Place((str(python), "-I"), folder, outside())
    # Most of what is installed is never imported; what is, Python compiles when it does.
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check")
    ran = place.python(
        "-m",
        "pip",
        "install",
        "--no-compile",
        *quiet,
        *map(str, wheels),
        cwd=folder,
        deadline=deadline,
    )
    if ran.code == 0:
        return place
    why = f"it was not done after {deadline:g} seconds" if ran.code is None else ran.tail
    lost = ran.code is None or any(sign in ran.output for sign in _UNREACHED)
    return Problem(
        "plugin-install",
        f"The wheel could not be installed into a clean environment:\n{why}",
        (),
        "What it depends on comes from an index. Where none can be reached, --no-install checks "
        "with what is installed here."
        if lost
        else "Correct its dependencies, so that `pip install` of the wheel works.",
    )
