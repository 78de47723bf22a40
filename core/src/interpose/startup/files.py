"""Reading configuration files: which ones, and each as a tree that knows its lines.

Naming files (``--config``, ``Host.from_config``, ``INTERPOSE_CONFIG``) names all of them: the
first is the base, the others lie over it in order. With none named, ``interpose.toml`` in the
working folder is read, else a ``pyproject.toml`` there that has ``[tool.interpose]``.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interpose.errors import Problem, nearest
from interpose.startup.positions import Positions, scan
from interpose.startup.tree import KeyPath, Origin, Table, annotate_table

FILE_NAME = "interpose.toml"
PYPROJECT = "pyproject.toml"
VARIABLE = "INTERPOSE_CONFIG"
_TABLE: KeyPath = ("tool", "interpose")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Source:
    """One source of configuration as people know it, and what it says."""

    name: str
    tree: Table


def find_files(
    named: Sequence[str | os.PathLike[str]] = (),
    *,
    environ: Mapping[str, str],
    folder: Path,
) -> tuple[str, ...]:
    """Return the files to read, weakest first, by the names to show; () when there are none.

    Raises nothing: a named file that is missing is reported by :func:`read_file`.
    """
    if named:
        return tuple(os.fspath(name) for name in named)
    listed = environ.get(VARIABLE, "")
    if listed:
        return tuple(name for name in listed.split(os.pathsep) if name)
    if os.path.lexists(folder / FILE_NAME):
        return (FILE_NAME,)
    if _has_table(folder / PYPROJECT):
        return (PYPROJECT,)
    return ()


def _has_table(path: Path) -> bool:
    """Say whether a pyproject.toml is meant for us; one that cannot be read is not."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError:
        # Broken, but meant for us: reading it says where.
        return f"[{'.'.join(map(str, _TABLE))}" in path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    tool = data.get("tool")
    return isinstance(tool, dict) and "interpose" in tool


def read_files(names: Sequence[str], *, folder: Path) -> tuple[list[Source], list[Problem]]:
    """Read each file; relative names are looked up in ``folder``. One bad file hides no other."""
    sources: list[Source] = []
    problems: list[Problem] = []
    for name in names:
        found = read_file(name, folder=folder)
        if isinstance(found, Source):
            sources.append(found)
        else:
            problems.append(found)
    return sources, problems


def read_file(name: str, *, folder: Path) -> Source | Problem:
    """Read one file, or say why that is not possible."""
    path = folder / name
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return _missing(name, path)
    except OSError as error:
        return Problem(
            "unreadable-config",
            f"The config file {name} cannot be read: {error.strerror or error}.",
            (name,),
            "Name a readable TOML file.",
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return Problem(
            "invalid-toml",
            f"The config file {name} is not UTF-8: "
            f"byte 0x{content[error.start]:02x} cannot be decoded.",
            (f"{name}:{line}",),
            "Save the file as UTF-8.",
        )
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return _syntax_error(name, text, error)
    if path.name == PYPROJECT:
        return _from_pyproject(name, path, text, data)
    return Source(name, _tree(name, path, data, scan(text), ()))


def _from_pyproject(name: str, path: Path, text: str, data: Mapping[str, Any]) -> Source | Problem:
    tool = data.get("tool")
    table = tool.get("interpose") if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        return Problem(
            "missing-config",
            f"{name} has no table [tool.interpose].",
            (name,),
            f"Add [tool.interpose.middleware.<id>] tables, or name an {FILE_NAME}.",
        )
    return Source(name, _tree(name, path, table, scan(text), _TABLE))


def _tree(
    name: str, path: Path, data: Mapping[str, Any], positions: Positions, prefix: KeyPath
) -> Table:
    return annotate_table(
        data, lambda inner: Origin(name, positions.line((*prefix, *inner))), path.parent
    )


def _missing(name: str, path: Path) -> Problem:
    try:
        beside = [entry.name for entry in path.parent.iterdir() if entry.suffix == ".toml"]
    except OSError:
        beside = []
    meant = nearest(path.name, beside)
    return Problem(
        "missing-config",
        f"The config file {name} does not exist.",
        (str(path.absolute()),),
        f'Did you mean "{meant}"?' if meant else "Create it, or name the file that you mean.",
    )


def _syntax_error(name: str, text: str, error: tomllib.TOMLDecodeError) -> Problem:
    """Place a syntax error. Before Python 3.14 the position stands in the message alone."""
    message = str(error)
    found = _PLACE.search(message)
    where = name
    if found is not None:
        message = message[: found.start()]
        if found.group(1):
            where = f"{name}:{found.group(1)}:{found.group(2)}"
        else:
            lines = text.splitlines() or [""]
            where = f"{name}:{len(lines)}:{len(lines[-1]) + 1}"
    return Problem(
        "invalid-toml",
        f"The config file {name} is not valid TOML: {message}.",
        (where,),
        "Correct the syntax there; https://toml.io/en/v1.0.0 describes it.",
    )
