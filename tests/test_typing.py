"""The public interface type-checks: what authors write passes, what is wrong does not."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT

import interpose

EXAMPLES = sorted((ROOT / "tests/typing").glob("*.py"))
WRONG = ROOT / "tests/typing/refused/wrong.py"
STRICT = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    # The environment's own programs come first, so that type checkers find what is installed in it.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(  # noqa: S603 - tools of the development environment
        [sys.executable, "-m", *map(str, command)],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody else's project, with the examples and the mistakes as its files."""
    folder = tmp_path_factory.mktemp("project")
    for file in (*EXAMPLES, WRONG):
        shutil.copy(file, folder)
    (folder / "pyrightconfig.json").write_text(json.dumps(STRICT))
    return folder


@pytest.fixture(scope="module")
def mypy(project: Path) -> set[tuple[str, int]]:
    """Return (file, line) of each error of mypy --strict."""
    options = ("--strict", "--python-version", "3.11", "--config-file=", "--cache-dir=.cache")
    ran = run("mypy", *options, *sorted(project.glob("*.py")), cwd=project)
    assert "checked 6 source files" in ran.stdout, ran.stdout + ran.stderr
    found = re.findall(r"^(\w+\.py):(\d+): error", ran.stdout, re.MULTILINE)
    return {(file, int(line)) for file, line in found}


@pytest.fixture(scope="module")
def pyright(project: Path) -> set[tuple[str, int]]:
    """Return (file, line) of each error of pyright strict."""
    ran = run("pyright", "--outputjson", "--pythonpath", sys.executable, cwd=project)
    if not ran.stdout.startswith("{"):
        pytest.skip(f"pyright does not run here: {(ran.stderr or ran.stdout)[-300:]}")
    report = json.loads(ran.stdout)
    assert report["summary"]["filesAnalyzed"] == len(EXAMPLES) + 1
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in report["generalDiagnostics"]
    }


def marked() -> set[tuple[str, int]]:
    lines = enumerate(WRONG.read_text().splitlines(), 1)
    return {(WRONG.name, number) for number, line in lines if line.endswith("# refused")}


def test_mypy_strict_accepts_what_authors_write_and_refuses_each_mistake(
    mypy: set[tuple[str, int]],
) -> None:
    assert mypy == marked()


def test_pyright_strict_accepts_what_authors_write_and_refuses_each_mistake(
    pyright: set[tuple[str, int]],
) -> None:
    assert pyright == marked()


def test_every_public_name_has_a_type_that_needs_no_guessing(tmp_path: Path) -> None:
    if os.environ.get("INTERPOSE_REQUIRE_ALL", "0") == "0":
        pytest.skip("reads the types of the whole package; set INTERPOSE_REQUIRE_ALL=1 to run it")
    ran = run(
        "pyright", "--verifytypes", "interpose", "--ignoreexternal", "--outputjson", cwd=tmp_path
    )
    symbols = json.loads(ran.stdout)["typeCompleteness"]["symbols"]
    public = [symbol for symbol in symbols if is_public(symbol["name"])]
    faults = {
        symbol["name"]: messages
        for symbol in public
        # "Partially unknown" follows from a fault elsewhere, in a class that no author names.
        if (messages := [m for m in said(symbol) if "partially unknown" not in m])
    }
    assert len(public) > len(interpose.__all__)
    assert faults == {}


def is_public(name: str) -> bool:
    homes = interpose._HOME
    return any(
        name in (public, f"interpose.{public.rpartition('.')[2]}") or name.startswith(f"{public}.")
        for public in (f"{home}.{each}" for each, home in homes.items())
    )


def said(symbol: dict[str, Any]) -> list[str]:
    return [each["message"] for each in symbol["diagnostics"]]
