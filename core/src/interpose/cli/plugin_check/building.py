"""From a project's folder to its wheel: what is published is checked, not what lies around it."""

from __future__ import annotations

import sys
import tempfile
import tomllib
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from interpose.cli.plugin_check.places import outside
from interpose.cli.plugin_check.processes import run
from interpose.cli.plugin_check.results import Check
from interpose.cli.plugin_check.subject import installed_distributions
from interpose.errors import Problem
from interpose.startup.discovery import canonical


def build(
    project: Path, folder: Path, *, alone: bool, deadline: float
) -> tuple[Check, Path | None]:
    """Build the wheel of ``project`` into ``folder``.

    ``alone``: with what its ``[build-system]`` asks for, which an index has; otherwise with what is
    installed here, if that is enough.
    """
    isolated = alone or not _can_build_here(project)
    command = _command(project, folder, isolated=isolated)
    if isinstance(command, Problem):
        return Check("build", problems=(command,)), None
    with tempfile.TemporaryDirectory() as elsewhere:
        ran = run(command, cwd=Path(elsewhere), environ=outside(), deadline=deadline)
    wheels = sorted(folder.glob("*.whl"))
    if ran.code == 0 and len(wheels) == 1:
        return Check("build", wheels[0].name), wheels[0]
    if ran.code is None:
        why = f"it was not done after {deadline:g} seconds"
    elif ran.code:
        why = f"{command[3]} ended with {ran.code}:\n{ran.tail}"
    else:
        why = f"it made {len(wheels)} wheels, and one is due"
    hint = (
        "Correct the project. What builds it comes from an index; without one, install that here, "
        "and use\n--no-install."
        if isolated
        else "Correct the project. With --no-install it was built with what is installed here; "
        "without,\nit is built with what it asks for."
    )
    problem = Problem("plugin-build", f"No wheel could be built: {why}", (str(project),), hint)
    return Check("build", problems=(problem,)), None


def _can_build_here(project: Path) -> bool:
    """Say whether what the project's ``[build-system]`` requires is installed."""
    try:
        table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
        needs = [Requirement(each).name for each in table["build-system"]["requires"]]
    except (OSError, ValueError, KeyError, TypeError):
        needs = ["setuptools", "wheel"]  # what pip takes for a project that does not say
    return {canonical(name) for name in needs} <= installed_distributions().keys()


def _command(project: Path, folder: Path, *, isolated: bool) -> list[str | Path] | Problem:
    python: list[str | Path] = [sys.executable, "-P", "-m"]
    if _is_installed("build"):
        here: list[str | Path] = [] if isolated else ["--no-isolation"]
        return [*python, "build", "--wheel", *here, "--outdir", folder, project]
    if _is_installed("pip"):
        here = [] if isolated else ["--no-build-isolation"]
        return [*python, "pip", "wheel", "--no-deps", *here, "--wheel-dir", folder, project]
    return Problem(
        "plugin-build",
        "No wheel can be built here: neither the package build nor pip is installed.",
        (sys.executable,),
        "pip install build, or name a wheel.",
    )


def _is_installed(module: str) -> bool:
    """Say whether a module can be run; a folder that happens to have its name is none."""
    spec = find_spec(module)
    return spec is not None and spec.origin is not None
