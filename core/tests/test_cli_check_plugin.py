"""``interpose check-plugin`` as a command: what it takes, what it prints, and what it leaves."""

from __future__ import annotations

import json
import os
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import CommandLine
from publishing import GOOD, PYPROJECT, project, wheel

from interpose._version import __version__
from interpose.cli.plugin_check import building, own_wheel, places, trying
from interpose.cli.plugin_check.processes import Ran


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, in which nothing may be left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip find nothing, wherever it looks."""
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def supplied(offline: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clean environments see what is installed here, as if an index had given it to them."""
    monkeypatch.setenv("PIP_NO_DEPS", "1")
    make = places.make_environment

    def make_supplied(folder: Path, *, deadline: float) -> Ran:
        made = make(folder, deadline=deadline)
        [site] = folder.glob("lib/python*/site-packages")
        here = sysconfig.get_path("purelib")
        (site / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
        return made

    monkeypatch.setattr(places, "make_environment", make_supplied)


@pytest.mark.usefixtures("supplied")
def test_a_wheel_is_installed_into_a_clean_environment_and_loaded_there(
    cli: CommandLine, tmp_path: Path, temporary: Path
) -> None:
    done = cli("check-plugin", str(wheel(tmp_path / "dist")))
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "ok       wheel         2 files"
    assert "ok       install       acme_guard-1.0-py3-none-any.whl in a clean environment" in lines
    assert "ok       load          guard" in lines
    assert "ok       plan          guard" in lines
    assert "ok       listed        guard" in lines
    assert lines[-1] == "ok: acme-guard 1.0: 21 of 21 checks are fine."


@pytest.mark.usefixtures("offline")
def test_a_wheel_that_cannot_be_installed_is_an_error_that_says_what_helps(
    cli: CommandLine, tmp_path: Path, temporary: Path
) -> None:
    done = cli("check-plugin", str(wheel(tmp_path / "dist")))
    assert done.code == 1
    assert "error    install" in done.out
    assert "error[plugin-install]: The wheel could not be installed into a clean env" in done.out
    assert "No matching distribution found" in done.out
    assert "--no-install checks" in done.out
    assert "skipped  load          it could not be installed" in done.out


def test_an_environment_that_cannot_be_made_is_told(
    cli: CommandLine, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Ran(1, "Error: no ensurepip")
    monkeypatch.setattr(places, "make_environment", lambda folder, *, deadline: broken)
    done = cli("check-plugin", str(wheel(tmp_path / "dist")))
    assert done.code == 1
    assert "error[plugin-install]: No clean environment could be made" in done.out
    assert "Error: no ensurepip" in done.out


def test_a_project_is_built_and_its_wheel_is_checked(
    cli: CommandLine, tmp_path: Path, temporary: Path
) -> None:
    folder = project(tmp_path / "guard")
    before = sorted(folder.rglob("*"))
    done = cli("check-plugin", "--no-install", str(folder))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("ok       build         acme_guard-1.0-py3-none-any.whl\n")
    assert done.out.endswith("\nok: acme-guard 1.0: 21 of 22 checks are fine, 1 skipped.\n")
    assert sorted(folder.rglob("*")) == before


def test_a_module_that_the_build_leaves_out_is_found(
    cli: CommandLine, tmp_path: Path, temporary: Path
) -> None:
    pyproject = PYPROJECT.replace('guard = "acme_guard:Guard"', 'guard = "acme_guard_layer:Guard"')
    folder = project(tmp_path / "guard", pyproject=pyproject)
    (folder / "src/acme_guard_layer.py").write_text(GOOD)
    done = cli("check-plugin", "--no-install", str(folder))
    assert done.code == 1
    said = 'The plugin "guard" names the module acme_guard_layer, which is not in the wheel.'
    assert said in done.out
    assert "cannot be imported: ModuleNotFoundError" in done.out


def test_a_project_that_cannot_be_built_is_told(
    cli: CommandLine, tmp_path: Path, temporary: Path
) -> None:
    folder = project(tmp_path / "guard", pyproject=PYPROJECT.replace("1.0", "one"))
    done = cli("check-plugin", "--no-install", str(folder))
    assert done.code == 1
    assert "error[plugin-build]: No wheel could be built: build ended with 1:" in done.out
    assert "Invalid version" in done.out
    assert done.out.splitlines()[-1].endswith("0 of 1 checks are fine, 1 error.")


def test_pip_builds_where_there_is_nothing_better(
    cli: CommandLine, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_is_installed", lambda module: module == "pip")
    done = cli("check-plugin", "--no-install", str(project(tmp_path / "guard")))
    assert done.code == 0, done.out
    monkeypatch.setattr(building, "_is_installed", lambda module: False)
    done = cli("check-plugin", "--no-install", str(tmp_path / "guard"))
    assert done.code == 1
    assert "neither the package build nor pip is installed" in done.out


def test_what_is_installed_is_checked_where_it_is(cli: CommandLine, temporary: Path) -> None:
    done = cli("check-plugin", "Interpose_Redact", "--strict")
    assert (done.code, done.err) == (0, "")
    assert "skipped  install       it is installed already" in done.out
    assert "ok       load          redact" in done.out
    assert done.out.splitlines()[-1].startswith("ok: interpose-redact ")


def test_the_json_form_has_everything(cli: CommandLine, tmp_path: Path, temporary: Path) -> None:
    path = wheel(tmp_path / "dist", fields={"License-File": None, "License-Expression": None})
    done = cli("check-plugin", "--no-install", "--json", str(path))
    told = json.loads(done.out)
    assert done.code == 1
    checks = {check.pop("check"): check for check in told.pop("checks")}
    assert told.pop("python").startswith("3.")
    assert told == {
        "schema": 1,
        "ok": False,
        "interpose": __version__,
        "target": str(path),
        "kind": "wheel",
        "distribution": "acme-guard",
        "version": "1.0",
        "plugins": ["guard"],
    }
    assert list(checks) == [
        *("wheel", "name", "range", "python", "readme", "licence", "entry-points", "offers"),
        *("package", "typed", "public-names", "install", *trying.CHECKS, "listed"),
    ]
    assert checks["licence"] == {
        "outcome": "error",
        "message": "",
        "problems": [
            {
                "code": "plugin-licence",
                "message": "It has no licence, so nobody may use it.",
                "where": ["[project] license"],
                "hint": 'license = "MIT" (or another SPDX expression), and a file LICENSE.',
                "severity": "error",
            }
        ],
    }
    assert checks["install"]["outcome"] == "skipped"
    assert checks["install"]["message"].startswith("--no-install: ")


def test_a_warning_fails_only_when_it_is_asked_to(
    cli: CommandLine, tmp_path: Path, temporary: Path
) -> None:
    path = str(wheel(tmp_path / "dist", without=["acme_guard/py.typed"]))
    done = cli("check-plugin", "--no-install", path)
    assert done.code == 0
    assert "warning  typed\n    warning[plugin-typed]: acme_guard has no py.typed" in done.out
    assert done.out.splitlines()[-1].startswith("ok: acme-guard 1.0: ")
    done = cli("check-plugin", "--no-install", "--strict", path)
    assert done.code == 1
    assert done.out.splitlines()[-1].startswith("acme-guard 1.0: ")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"Requires-Dist": "interpose<3,>=2"}, "it is for another version of Interpose"),
        ({"Requires-Python": ">=4"}, "it is not for this Python"),
    ],
)
def test_what_cannot_run_here_is_not_installed(
    cli: CommandLine, tmp_path: Path, temporary: Path, fields: dict[str, str], why: str
) -> None:
    done = cli("check-plugin", str(wheel(tmp_path / "dist", fields=fields)))
    assert done.code == 1
    assert f"skipped  install       {why}\n" in done.out
    assert f"skipped  listed        {why}\n" in done.out


def test_what_has_no_plugin_is_not_installed(
    cli: CommandLine, tmp_path: Path, temporary: Path
) -> None:
    done = cli("check-plugin", str(wheel(tmp_path / "dist", plugins={})))
    assert done.code == 1
    assert "skipped  install       there is no plugin in it\n" in done.out


def test_a_distribution_without_a_plugin_is_told(cli: CommandLine, temporary: Path) -> None:
    done = cli("check-plugin", "packaging")
    assert done.code == 1
    assert 'It has no entry point of the group "interpose"' in done.out


def test_a_broken_wheel_ends_the_check(cli: CommandLine, tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "broken.whl").write_text("")
    done = cli("check-plugin", str(tmp_path / "broken.whl"))
    assert (done.code, done.err) == (1, "")
    assert "error[plugin-wheel]: broken.whl is no sound wheel" in done.out


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere/at-all", "There is no nowhere/at-all."),
        ("gone.whl", "There is no gone.whl."),
        ("./empty", "./empty is a folder without a pyproject.toml."),
        ("notes.txt", "notes.txt is a file, and no wheel."),
        ("interpose-redcat", "No distribution interpose-redcat is installed here"),
    ],
)
def test_what_is_nothing_to_check_is_a_mistake_of_the_command_line(
    cli: CommandLine, target: str, said: str
) -> None:
    (cli.folder / "empty").mkdir()
    cli.write("", "notes.txt")
    done = cli("check-plugin", target)
    assert (done.code, done.out) == (2, "")
    assert f"error[usage]: {said}" in done.err
    assert "fix: " in done.err


def test_a_misspelt_distribution_is_suggested(cli: CommandLine) -> None:
    assert "fix: Did you mean interpose-redact?" in cli("check-plugin", "interpose-redcat").err


def test_a_plugin_may_not_steer_the_terminal(
    cli: CommandLine, tmp_path: Path, temporary: Path
) -> None:
    path = wheel(tmp_path / "dist", "raise RuntimeError('\\x1b[2J')")
    done = cli("check-plugin", "--no-install", str(path))
    assert "\x1b" not in done.out
    assert "RuntimeError: \\x1b[2J" in done.out


def test_the_wheel_of_interpose_is_what_runs_here(tmp_path: Path) -> None:
    import zipfile

    packed = own_wheel.pack(tmp_path)
    assert isinstance(packed, Path)
    with zipfile.ZipFile(packed) as archive:
        names = archive.namelist()
        record = archive.read(f"interpose-{__version__}.dist-info/RECORD").decode()
    assert "interpose/cli/check_plugin.py" in names
    assert "interpose/py.typed" in names
    assert f"interpose-{__version__}.dist-info/METADATA" in names
    assert [name for name in names if "__pycache__" in name or name.endswith(".pth")] == []
    assert sorted(line.partition(",")[0] for line in record.splitlines()) == sorted(names)


@pytest.mark.packaging
def test_a_wheel_passes_with_what_an_index_has(cli: CommandLine, tmp_path: Path) -> None:
    done = cli("check-plugin", "--strict", str(project(tmp_path / "guard")))
    assert done.code == 0, done.out
    assert done.out.endswith("\nok: acme-guard 1.0: 22 of 22 checks are fine.\n")


@pytest.mark.packaging
def test_a_dependency_that_is_not_declared_is_missing_in_a_clean_environment(
    cli: CommandLine, tmp_path: Path
) -> None:
    done = cli("check-plugin", str(wheel(tmp_path / "dist", f"import regex\n{GOOD}")))
    assert done.code == 1
    assert "It imports regex and does not declare it." in done.out
    assert "cannot be imported: ModuleNotFoundError: No module named 'regex'" in done.out
