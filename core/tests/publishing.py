"""Plugins as their authors would publish them: wheels, and projects that build them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent

README = """\
# acme-guard

Refuses what must not be said. `[middleware.guard]` switches it on.

| setting | meaning |
|---|---|
| `words` | what is refused |

It changes the events of messages, and nothing else: neither history nor state.
"""

GOOD = '''
"""Refuse words."""

from interpose import Middleware, RunContext, Settings


class GuardSettings(Settings):
    words: frozenset[str] = frozenset()
    """What is refused."""


class Guard(Middleware[GuardSettings]):
    """Refuse words."""

    def setup(self, ctx: RunContext) -> None:
        self.seen = 0
'''

FIELDS: Mapping[str, str | Sequence[str] | None] = {
    "Name": "acme-guard",
    "Version": "1.0",
    "Requires-Python": ">=3.11",
    "License-Expression": "MIT",
    "License-File": "LICENSE",
    "Description-Content-Type": "text/markdown",
    "Requires-Dist": ("interpose<1,>=0.1", "loguru>=0.7", "pydantic>=2"),
}


def wheel(
    folder: Path,
    source: str = GOOD,
    *,
    plugins: Mapping[str, str] | None = None,
    offers: Mapping[str, str] | None = None,
    commands: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    fields: Mapping[str, str | Sequence[str] | None] | None = None,
    readme: str = README,
    entry_points: str | None = None,
    without: Sequence[str] = (),
) -> Path:
    """Write the wheel of ``acme-guard``; what is not said is as it should be.

    ``fields`` replace those of its metadata (None: leaves one out), ``files`` are added,
    ``without`` are left out.
    """
    info = "acme_guard-1.0.dist-info"
    groups = {
        "interpose": {"guard": "acme_guard:Guard"} if plugins is None else plugins,
        "interpose.offers": offers or {},
        "interpose.commands": commands or {},
    }
    if entry_points is None:
        entry_points = "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in groups.items()
            if entries
        )
    contents = {
        "acme_guard/__init__.py": dedent(source),
        "acme_guard/py.typed": "",
        **{name: dedent(text) for name, text in (files or {}).items()},
        f"{info}/METADATA": metadata({**FIELDS, **(fields or {})}, readme),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
        f"{info}/licenses/LICENSE": "Do what you like.\n",
    }
    for name in without:
        del contents[name]
    contents[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*contents, f"{info}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "acme_guard-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    return path


def metadata(fields: Mapping[str, str | Sequence[str] | None], readme: str) -> str:
    """Write a METADATA file."""
    lines = ["Metadata-Version: 2.4"]
    for name, given in fields.items():
        values = [given] if isinstance(given, str) else given or ()
        lines += [f"{name}: {value}" for value in values]
    return "\n".join(lines) + f"\n\n{readme}"


PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "acme-guard"
version = "1.0"
readme = "README.md"
license = "MIT"
license-files = ["LICENSE"]
requires-python = ">=3.11"
dependencies = ["interpose>=0.1,<1"]

[project.entry-points.interpose]
guard = "acme_guard:Guard"

[tool.hatch.build.targets.wheel]
packages = ["src/acme_guard"]
"""


def project(folder: Path, source: str = GOOD, *, pyproject: str = PYPROJECT) -> Path:
    """Write the project of ``acme-guard``."""
    package = folder / "src/acme_guard"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(pyproject)
    (folder / "README.md").write_text(README)
    (folder / "LICENSE").write_text("Do what you like.\n")
    (package / "__init__.py").write_text(dedent(source))
    (package / "py.typed").touch()
    return folder
