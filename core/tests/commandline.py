"""Calling the command line in this process, in a folder of its own."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from interpose.cli import main


@dataclass(frozen=True)
class Outcome:
    """What one command came to."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class CommandLine:
    """The command line, called in ``folder``."""

    folder: Path
    captured: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def __call__(self, *argv: str, stdin: str | None = None) -> Outcome:
        if stdin is not None:
            raw = io.BytesIO(stdin.encode())
            self.patch.setattr(sys, "stdin", io.TextIOWrapper(raw, encoding="utf-8"))
        self.captured.readouterr()
        try:
            code = main(argv)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        out, err = self.captured.readouterr()
        return Outcome(code, out, err)

    def write(self, text: str, name: str = "interpose.toml") -> Path:
        """Write a file into the folder, without the indentation of the test around it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).removeprefix("\n"), encoding="utf-8")
        return path
