"""What a command does not import: told by ``sys.modules`` in a process of its own, not by time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"pydantic", "ag_ui", "asyncio", "loguru", "rich", "pluggy", "importlib_metadata"}
COMMANDS = [
    "demo",
    "run",
    "verify",
    "plugins",
    "plan",
    "why",
    "check",
    "lock",
    "config",
    "schema",
    "doctor",
    "check-plugin",
    "version",
]
SCRIPT = """
import sys
before = set(sys.modules)
try:
    from interpose.cli import main
    main(sys.argv[1:])
except SystemExit:
    pass
print("IMPORTED", *sorted(set(sys.modules) - before))
"""


def imported(folder: Path, *argv: str) -> set[str]:
    done = subprocess.run(  # noqa: S603 - this Python, with this test's arguments
        [sys.executable, "-c", SCRIPT, *argv],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "argv",
    [["--version"], ["version"], *([command, "--help"] for command in COMMANDS)],
    ids=" ".join,
)
def test_the_help_of_a_command_and_the_version_import_nothing_but_the_grammar(
    tmp_path: Path, argv: list[str]
) -> None:
    names = imported(tmp_path, *argv)
    assert not names & HEAVY
    assert {name for name in names if name.startswith("interpose")} <= {
        "interpose",
        "interpose._version",
        "interpose.cli",
        "interpose.cli.common",
        "interpose.cli.exits",
        "interpose.cli.parser",
        "interpose.cli.terminal",
        "interpose.cli.version",
    }


@pytest.mark.parametrize("command", ["plugins", "doctor", "--help", "no-command"])
def test_looking_at_the_installation_imports_metadata_alone(tmp_path: Path, command: str) -> None:
    names = imported(tmp_path, command)
    assert names & HEAVY == {"importlib_metadata"}
    assert not {name for name in names if name.startswith("interpose_")}


@pytest.mark.parametrize(
    "command", [["plugins"], ["plan"], ["check", "--locked"], ["lock"], ["run", "hello"]]
)
def test_no_command_imports_an_inactive_plugin(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "interpose.toml").write_text('[agent]\nuse = "scripted"\n')
    names = imported(tmp_path, *command)
    assert not {name for name in names if name.startswith("interpose_")}
    assert "rich" not in names
