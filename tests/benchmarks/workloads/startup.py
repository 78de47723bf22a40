"""Startup: fresh processes in an environment of 10, 100 and 500 plugins, of which 10 are active."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from ..measuring import Ratio, Samples, Timed, compare, ratio_of
from ..results import Curve, Plot, Result, Row, Size, Table

SUMMARY: Final = "fresh processes with 10, 100 and 500 plugins: to a ready host, and to --help"

_INSTALLED: Final = (10, 100, 500)
_HELD: Final = 100
"""The number of plugins whose discovery is held against the target."""

_ACTIVE: Final = 10
_UNRELATED: Final = 100
_TIMEOUT: Final = 120.0
"""Seconds that one process may take."""

_CHILD: Final = Path(__file__).parents[1] / "starting.py"
_COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "ready": (str(_CHILD), "ready"),
    "protocol": (str(_CHILD), "protocol"),
    "help": ("-m", "interpose", "--help"),
}
_BARE: Final = ", without bytecode"

_MODULE: Final = """\
from interpose import Middleware, Settings


class {name}Settings(Settings):
    size: int = 10


class {name}(Middleware[{name}Settings]):
    def on_event(self, ctx, event):
        return None
"""


@dataclass(frozen=True, slots=True)
class _Site:
    """A folder of installed distributions, and the folder of a project that uses some of them."""

    packages: Path
    project: Path


def run(size: Size) -> Result:
    """Start processes, one after another."""
    installed = (_HELD,) if size.quick else _INSTALLED
    with TemporaryDirectory(prefix="interpose-startup-") as folder:
        sites = {number: _site(Path(folder) / str(number), number) for number in installed}
        return _measure(sites, Path(folder) / "bytecode", size)


def _measure(sites: Mapping[int, _Site], bytecode: Path, size: Size) -> Result:
    found: dict[str, list[dict[str, float]]] = {}
    variants: dict[str, Timed] = {}
    for number, site in sites.items():
        for what in _COMMANDS:
            name = f"{what} {number}"
            kept = None if size.quick else bytecode
            variants[name] = _process(site, what, kept, found.setdefault(name, []))
            if number == _HELD and not size.quick:
                name += _BARE
                variants[name] = _process(site, what, None, found.setdefault(name, []), bare=True)
    samples = compare(variants, rounds=size.pick(5, 2))
    rounds = {name: phases[-samples.rounds :] for name, phases in found.items()}
    return Result(
        tables=[
            _totals(samples, sites, quick=size.quick),
            *(_phases(rounds, number) for number in sites),
        ],
        figures={"discovery": _share(rounds, _HELD, "discovery")},
        plots=[] if size.quick else [_plot(samples, sites)],
    )


def _process(
    site: _Site,
    what: str,
    bytecode: Path | None,
    found: list[dict[str, float]],
    *,
    bare: bool = False,
) -> Timed:
    """Return what runs one process and takes the time that passes; its phases go to ``found``."""
    environment = {key: value for key, value in os.environ.items() if "INTERPOSE" not in key}
    path = [str(site.packages), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(path)
    if bytecode is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    elif bare:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["PYTHONPYCACHEPREFIX"] = str(site.project / "no-bytecode")
    command = [sys.executable, "-P", *_COMMANDS[what]]

    def timed() -> float:
        since = perf_counter()
        done = subprocess.run(  # noqa: S603 - our own interpreter
            command,
            cwd=site.project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=True,
        )
        taken = perf_counter() - since
        found.append({} if what == "help" else json.loads(done.stdout))
        return taken

    return timed


def _totals(samples: Samples, sites: Mapping[int, _Site], *, quick: bool) -> Table:
    rows: list[Row] = []
    for number in sites:
        for suffix in ("", _BARE) if number == _HELD and not quick else ("",):
            base = f"protocol {number}{suffix}"
            for what, name in (("ready", "a ready host"), ("help", "interpose --help")):
                variant = f"{what} {number}{suffix}"
                rows.append(
                    Row(
                        f"{name}, {number} plugins{suffix}",
                        "import ag_ui.core",
                        samples.ratio(variant, base),
                        samples.median(variant) * 1000,
                    )
                )
    return Table(
        "startup of a process, from its start to its end",
        "ms",
        rows,
        [
            f"Of the plugins {_ACTIVE} are active, each with settings and a hook.",
            f"Beside them are {_UNRELATED} unrelated distributions, and those of this environment.",
            "The baseline is a process that only imports ag_ui.core, in the same environment.",
            "Without bytecode, every module of both is compiled, the standard library's too."
            if not quick
            else "The bytecode is what this environment has of it.",
        ],
    )


def _phases(rounds: Mapping[str, list[dict[str, float]]], number: int) -> Table:
    phases = list(dict.fromkeys(phase for each in rounds[f"ready {number}"] for phase in each))
    return Table(
        f"a ready host by phase, {number} plugins",
        "ms of processor time",
        [
            Row(
                phase,
                "import ag_ui.core",
                _share(rounds, number, phase),
                median(each.get(phase, 0.0) for each in rounds[f"ready {number}"]) * 1000,
            )
            for phase in phases
        ],
        [
            "The imports are those of interpose, ag_ui.core and asyncio.",
            "The interpreter's own start is left out; garbage collection is a phase of its own.",
        ],
    )


def _share(rounds: Mapping[str, list[dict[str, float]]], number: int, phase: str) -> Ratio:
    pairs = zip(rounds[f"ready {number}"], rounds[f"protocol {number}"], strict=True)
    return ratio_of([ours.get(phase, 0.0) / theirs["imports"] for ours, theirs in pairs])


def _plot(samples: Samples, sites: Mapping[int, _Site]) -> Plot:
    named = {"ready": "a ready host", "protocol": "import ag_ui.core", "help": "interpose --help"}
    return Plot(
        "startup",
        "Startup: time by number of installed plugins",
        "installed plugins",
        "milliseconds",
        [
            Curve(
                name,
                [(number, samples.median(f"{what} {number}") * 1000) for number in sites],
            )
            for what, name in named.items()
        ],
    )


# The environment ---------------------------------------------------------------------------------
def _site(folder: Path, plugins: int) -> _Site:
    """Install plugins and other distributions, as far as metadata and imports can tell."""
    packages, project = folder / "packages", folder / "project"
    packages.mkdir(parents=True)
    project.mkdir()
    for number in range(plugins):
        module = f"bench_plugin_{number}"
        _distribution(
            packages,
            f"bench-plugin-{number}",
            {"interpose": [f"bench-{number} = {module}:Bench{number}"]},
            ["interpose>=0.1"],
        )
        text = _MODULE.format(name=f"Bench{number}")
        (packages / f"{module}.py").write_text(text, encoding="utf-8")
    for number in range(_UNRELATED):
        scripts = {"console_scripts": [f"other-{number} = other_{number}:main"]}
        needs = ["typing-extensions>=4", 'colorama; sys_platform == "win32"']
        _distribution(packages, f"other-{number}", scripts if number % 2 else {}, needs)
    tables = [f"[middleware.bench-{number}]\nsize = {number}\n" for number in range(_ACTIVE)]
    config = "\n".join(['[agent]\nuse = "scripted"\n', *tables])
    (project / "interpose.toml").write_text(config, encoding="utf-8")
    return _Site(packages, project)


def _distribution(
    packages: Path, name: str, entry_points: Mapping[str, Sequence[str]], needs: Sequence[str]
) -> None:
    folder = packages / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir()
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", "Summary: A fake."]
    metadata += [f"Requires-Dist: {need}" for need in needs]
    described = "\n".join([*metadata, "", "A distribution for a measurement.", ""])
    (folder / "METADATA").write_text(described, encoding="utf-8")
    (folder / "RECORD").write_text(f"{folder.name}/METADATA,,\n", encoding="utf-8")
    (folder / "INSTALLER").write_text("pip\n", encoding="utf-8")
    if entry_points:
        groups = [f"[{group}]\n" + "\n".join(lines) for group, lines in entry_points.items()]
        (folder / "entry_points.txt").write_text("\n\n".join(groups) + "\n", encoding="utf-8")
