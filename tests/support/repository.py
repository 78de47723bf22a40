"""What the repository is made of, read from its files: for the tests that hold it together."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def root_table(*keys: str) -> Any:
    """Return a table of the root's pyproject.toml."""
    table: Any = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for key in keys:
        table = table[key]
    return table


@dataclass(frozen=True, slots=True)
class Distribution:
    """One distribution of the repository; ``project`` is the table of its pyproject.toml."""

    folder: Path
    project: Mapping[str, Any] = field(repr=False)
    tool: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        """The name it is installed by."""
        return str(self.project["name"])

    @property
    def package(self) -> Path:
        """The folder of the one package that it installs."""
        [package] = (path.parent for path in self.folder.glob("src/*/__init__.py"))
        return package

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """What it declares to need."""
        return tuple(Requirement(each) for each in self.project["dependencies"])

    @property
    def extras(self) -> tuple[Requirement, ...]:
        """What it needs for its extras, each of which a user may leave out."""
        tables = self.project.get("optional-dependencies", {})
        return tuple(Requirement(each) for table in tables.values() for each in table)

    @property
    def plugins(self) -> Mapping[str, str]:
        """Its entry points of the group ``interpose``."""
        return dict(self.project.get("entry-points", {}).get("interpose", {}))

    def modules(self) -> Iterator[tuple[Path, ast.Module]]:
        """Yield each of its source files, parsed."""
        for path in sorted(self.package.rglob("*.py")):
            yield path, parsed(path)


@cache
def parsed(path: Path) -> ast.Module:
    """Return a source file, parsed. The tree is shared: read it, and change nothing."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def distributions() -> tuple[Distribution, ...]:
    """Return core and the plugins, by name."""
    paths = sorted([ROOT / "core/pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")])
    return tuple(read_distribution(path.parent) for path in paths)


def read_distribution(folder: Path) -> Distribution:
    """Return the distribution in a folder."""
    table = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    return Distribution(folder, table["project"], table["tool"])


def runtime_imports(tree: ast.AST, *, for_types_too: bool = False) -> Iterator[str]:
    """Yield the modules that a file imports, those for type checking alone only if asked."""
    for node in ast.iter_child_nodes(tree):
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if for_types and not for_types_too:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
        yield from runtime_imports(node, for_types_too=for_types_too)


def is_standard(module: str) -> bool:
    """Say whether a module comes with Python."""
    return module.partition(".")[0] in sys.stdlib_module_names


def canonical(name: str) -> str:
    """Return a distribution's name as it is compared."""
    return str(canonicalize_name(name))


@cache
def files() -> tuple[Path, ...]:
    """Return the files of the repository: those under version control, and those that may be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return tuple(path for path in paths if path.is_file())


def fenced(text: str) -> Iterator[tuple[str, str]]:
    """Yield (info string, code) of each fenced block of a Markdown text."""
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield match[1].strip(), match[2]
