from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from commandline import CommandLine
from loguru import logger


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for installed packages, on ``sys.path``; what is imported from it is forgotten."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def install(site: Path) -> Callable[..., Path]:
    """Write a distribution as an installer would leave it; returns its dist-info folder."""

    def write(
        name: str,
        version: str = "1.0",
        *,
        plugins: Mapping[str, str] | None = None,
        offers: Mapping[str, str] | None = None,
        commands: Mapping[str, str] | None = None,
        modules: Mapping[str, str] | None = None,
        requires: Sequence[str] = (),
        metadata: str | None = None,
        entry_points: str | None = None,
        folder: Path | None = None,
    ) -> Path:
        target = folder or site
        info = target / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        if metadata is None:
            lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
            lines += [f"Requires-Dist: {requirement}" for requirement in requires]
            metadata = "\n".join(lines) + "\n"
        if metadata:
            (info / "METADATA").write_text(metadata)
        if entry_points is None:
            groups = {
                "interpose": plugins or {},
                "interpose.offers": offers or {},
                "interpose.commands": commands or {},
            }
            entry_points = "".join(
                f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
                for group, entries in groups.items()
                if entries
            )
        if entry_points:
            (info / "entry_points.txt").write_text(entry_points)
        for module, source in (modules or {}).items():
            (target / f"{module}.py").write_text(source)
        return info

    return write


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    """The command line in an empty folder, without anybody's INTERPOSE variables."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in list(os.environ):
        if name.upper().startswith("INTERPOSE"):
            monkeypatch.delenv(name)
    before = set(sys.modules)
    yield CommandLine(folder, capsys, monkeypatch)
    # The command line owns its process: it decides who logs, and modules beside its file stay.
    logger.remove()
    logger.disable("interpose")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What the operator is told: a line each, that begins with the level."""
    lines: list[str] = []
    logger.enable("interpose")
    sink = logger.add(lambda line: lines.append(str(line)), format="{level} {message}", level=0)
    yield lines
    logger.remove(sink)
    logger.disable("interpose")
