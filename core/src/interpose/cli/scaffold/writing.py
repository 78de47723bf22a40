"""From templates to files: all of them, or none."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from interpose._version import __version__
from interpose.cli.scaffold.kinds import Kind
from interpose.cli.scaffold.naming import Names
from interpose.errors import Problem, StartupError

_SUFFIX: Final = ".tmpl"
_OFFERED: Final = """
# What it could provide, said without importing it: errors suggest it by this.
[project.entry-points."interpose.offers"]
@offers@
"""
_TOKEN: Final = re.compile(r"@([a-zA-Z]+)@")


def core_range() -> str:
    """Return the range of Interpose that a plugin begun today depends on."""
    major, minor, *_ = __version__.split(".")
    return f"{major}.{minor},<{int(major) + 1}"


def rendered(names: Names, kind: Kind) -> Mapping[str, str]:
    """Return the files of a plugin: their text, by path."""
    extra = kind.values.get("extra", "")
    values = {
        "distribution": names.distribution,
        "plugin": names.plugin,
        "package": names.package,
        "module": names.plugin.replace("-", "_"),
        "Stem": names.stem,
        "core": f"interpose{extra}>={core_range()}",
        "offered": _OFFERED if kind.values.get("offers") else "",
        **kind.values,
    }
    folders = ["local"] if kind.name == "local" else ["common", kind.name]
    root = files("interpose.cli.scaffold") / "templates"
    found: dict[str, str] = {}
    for folder in folders:
        for path, template in _templates(root / folder, ""):
            found[_filled(path, values)] = _filled(template, values)
    return found


def write(texts: Mapping[str, str], folder: Path) -> None:
    """Write the files into a new folder, or into one that lacks them; nothing half-done stays.

    Raises :class:`StartupError` when a file is there already, or the folder cannot be written.
    """
    there = sorted(path for path in texts if (folder / path).exists())
    if there:
        raise StartupError(
            [
                Problem(
                    "file-exists",
                    f"{folder / path} exists, and would be overwritten.",
                    hint="Choose another --dir, or move it away.",
                )
                for path in there
            ]
        )
    made: list[Path] = []
    try:
        with tempfile.TemporaryDirectory() as staging:
            for path, text in texts.items():
                staged = Path(staging) / path
                staged.parent.mkdir(parents=True, exist_ok=True)
                staged.write_text(text, encoding="utf-8", newline="\n")
            for path in texts:
                _make_parents(folder / path, made)
                made.append(folder / path)
                shutil.copyfile(Path(staging) / path, folder / path)
    except OSError as error:
        _undo(made)
        problem = Problem(
            "cannot-write",
            f"{folder} cannot be written: {error.strerror or error}.",
            hint="Nothing was left there. Choose another --dir.",
        )
        raise StartupError([problem]) from None


def _make_parents(path: Path, made: list[Path]) -> None:
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir()
        made.append(parent)


def _undo(made: list[Path]) -> None:
    for path in reversed(made):
        try:
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
        except OSError:
            continue


def _templates(folder: Traversable, above: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for item in sorted(folder.iterdir(), key=lambda each: each.name):
        path = f"{above}{item.name}"
        if item.is_dir():
            found += _templates(item, f"{path}/")
        elif path.endswith(_SUFFIX):
            found.append((path.removesuffix(_SUFFIX), item.read_text(encoding="utf-8")))
    return found


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Fill in the tokens; a value may hold tokens of its own."""

    def value(token: re.Match[str]) -> str:
        return _filled(values[token[1]], values) if token[1] in values else token[0]

    return _TOKEN.sub(value, text)
