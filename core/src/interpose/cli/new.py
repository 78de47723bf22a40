"""``interpose new``: begin a plugin that installs, passes its tests and works."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from interpose.cli.exits import OK
from interpose.cli.scaffold.kinds import KINDS
from interpose.cli.scaffold.naming import Names, name_problems
from interpose.cli.scaffold.writing import rendered, write
from interpose.errors import StartupError
from interpose.startup.discovery import discover


def main(arguments: argparse.Namespace) -> int:
    """Write the files of a new plugin, and say what to do next."""
    kind = KINDS[arguments.kind]
    is_local = kind.name == "local"
    names = Names.of(arguments.name)
    problems = list(name_problems(names, discover(), is_local=is_local))
    if problems:
        raise StartupError(problems)
    folder = Path(arguments.dir or (os.curdir if is_local else names.distribution))
    texts = rendered(names, kind)
    write(texts, folder)
    print(f"Wrote {folder}:")
    for path in sorted(texts):
        print(f"  {path}")
    print("\nNext:")
    for line in _local_steps(names) if is_local else _steps(folder):
        print(f"  {line}".rstrip())
    return OK


def _steps(folder: Path) -> Sequence[str]:
    return (
        f"cd {folder}",
        "python3 -m venv .venv && source .venv/bin/activate",
        'pip install -e ".[dev]"',
        "pytest                       # its tests, and the contract of every middleware",
        'interpose run "hello"        # try it on a recording: interpose.toml',
        "interpose check-plugin .     # is it ready to be published?",
    )


def _local_steps(names: Names) -> Sequence[str]:
    module = names.plugin.replace("-", "_")
    return (
        "add it to interpose.toml:",
        "",
        f"[middleware.{names.plugin}]",
        f'use = "{module}:{names.stem}"',
        "",
        "or to a host in code:",
        "",
        f"from {module} import {names.stem}",
        f"Host(layers=[{names.stem}], agent=...)",
    )
