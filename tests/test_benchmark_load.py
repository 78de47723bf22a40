"""The load benchmark, small: it passes, and it finds what is broken on purpose."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT

FAULTS = ("memory", "tasks", "generators", "handles", "hooks", "text")
SMALL = ("--clients", "20", "--seconds", "2", "--interval", "0.02")


def load(report: Path, *options: str) -> tuple[int, str, dict[str, Any]]:
    """Run it from the folder where its users do; returns exit status, output and report."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc, to look at the memory and the handles of another process")
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "benchmarks", "load", "--json", str(report), *options],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout, json.loads(report.read_text())


def test_a_small_load_leaves_nothing_behind_and_all_of_it_comes_out_as_meant(
    tmp_path: Path,
) -> None:
    status, output, report = load(tmp_path / "load.json", *SMALL)
    assert [each for each in report["properties"] if not each["holds"]] == []
    assert status == 0
    assert output.endswith("All properties hold.\n")
    assert report["figures"]["runs"] > 20
    [clients] = [each["said"] for each in report["properties"] if each["name"] == "clients"]
    assert all(kind in clients for kind in ("finish", "leave", "fail"))


def test_what_is_broken_on_purpose_is_found(tmp_path: Path) -> None:
    broken = [word for fault in FAULTS for word in ("--break", fault)]
    status, output, report = load(tmp_path / "load.json", *SMALL, *broken)
    violated = {each["name"] for each in report["properties"] if not each["holds"]}
    assert violated >= {
        "clients",
        "terminal hooks, innermost",
        "terminal hooks, outermost",
        "asyncio tasks",
        "async generators",
        "file handles",
        "objects",
        "allocated blocks",
        "memory",
    }
    assert status == 1
    assert "VIOLATED" in output


def test_an_unknown_benchmark_is_an_error_that_names_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nothing"],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "load" in done.stderr
