"""Two plugins of two publishers: built, installed from wheels, activated by a file, run.

Each test of the installed pair runs in an environment that sees what is installed here, offline,
and, as a packaging test, in a clean one whose dependencies come from an index.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import acme_limits
import pytest
import umbra_quota
from repository import ROOT, Distribution, fenced, parsed, read_distribution, runtime_imports
from snippets import Following, environment, shell

from interpose import Settings

FOLDER = ROOT / "examples/third-party"
BOTH = ("acme-limits", "umbra-quota")
EACH = pytest.mark.parametrize("name", BOTH)
OUR_PYTHON = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
Shell = Mapping[str, str]
"""The variables of a shell in which an environment is active."""

ASKED = 'interpose run "Where is my order?"'


def third_party(name: str) -> Distribution:
    return read_distribution(FOLDER / name)


def build(folder: Path, into: Path) -> Path:
    """Build a wheel as pip would, with the build tools that are here; return it."""
    copy = shutil.copytree(folder, into / folder.name)
    command = (sys.executable, "-m", "hatchling", "build", "--target", "wheel")
    subprocess.run(command, cwd=copy, check=True, capture_output=True)  # noqa: S603
    [wheel] = copy.glob("dist/*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    into = tmp_path_factory.mktemp("wheels")
    return {name: build(FOLDER / name, into) for name in BOTH}


def install(active: Shell, *what: object) -> None:
    status, _, errors = shell(f"pip install --quiet {' '.join(map(str, what))}", ROOT, active)
    assert status == 0, errors


def clean(folder: Path) -> Shell:
    """Make an environment that has core and a first-party layer as wheels, and pip's index."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)  # noqa: S603
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("INTERPOSE", "PYTHON"))}
    active = {**inherited, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    ours = (build(ROOT / each, folder) for each in ("core", "plugins/interpose-logging"))
    install(active, "--no-compile", *ours)
    return active


@pytest.fixture(
    scope="module", params=["seeing", pytest.param("clean", marks=pytest.mark.packaging)]
)
def installed(
    request: pytest.FixtureRequest,
    wheels: Mapping[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Shell:
    """Return the shell of an environment in which both wheels are installed."""
    folder = tmp_path_factory.mktemp("third-party") / "venv"
    active = clean(folder) if request.param == "clean" else environment(folder)
    install(active, *wheels.values())
    return active


@pytest.fixture(scope="module")
def lonely(wheels: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Return the shell of an environment that has the consumer's wheel alone."""
    active = environment(tmp_path_factory.mktemp("lonely") / "venv")
    install(active, wheels["acme-limits"])
    return active


def endless(file: Path) -> None:
    """Give the quota of a file a period whose end no test meets."""
    text = re.sub(
        r"^\[providers\.quota\].*$",
        r"\g<0>\nperiod = 1e12",
        file.read_text("utf-8"),
        flags=re.MULTILINE,
    )
    file.write_text(text, "utf-8")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return an operator's folder, with the file of the example."""
    endless(Path(shutil.copy(FOLDER / "interpose.toml", tmp_path)))
    return tmp_path


def without_provider(here: Path) -> None:
    alone = '[agent]\nuse = "scripted"\n\n[middleware.limits]\n'
    (here / "interpose.toml").write_text(alone, encoding="utf-8")


@EACH
def test_neither_imports_the_other_nor_depends_on_it(name: str) -> None:
    [other] = (third_party(each) for each in BOTH if each != name)
    imported = {
        module.partition(".")[0]
        for path in (FOLDER / name).rglob("*.py")
        for module in runtime_imports(parsed(path), for_types_too=True)
    }
    assert third_party(name).package.name in imported
    assert other.package.name not in imported
    assert other.name not in {need.name for need in third_party(name).requirements}


@EACH
def test_it_imports_of_interpose_what_is_public(name: str) -> None:
    imported = {
        module for _, tree in third_party(name).modules() for module in runtime_imports(tree)
    }
    assert {each for each in imported if each.partition(".")[0] == "interpose"} == {"interpose"}
    assert [str(need) for need in third_party(name).requirements if need.name == "interpose"] == [
        "interpose<1,>=0.1"
    ]


def test_what_one_provides_is_what_the_other_requires() -> None:
    required, provided = acme_limits.QUOTA, umbra_quota.QUOTA
    assert required is not provided
    assert required == provided
    # mypy finds the types fit, too: neither side has seen the other's Protocol.
    quota: acme_limits.Quota = umbra_quota.Ledger(None, limit=1, period=1.0, now=lambda: 0.0)
    assert isinstance(quota, umbra_quota.Ledger)
    assert required.missing_members(quota) == ()
    quota.close()


@EACH
def test_the_wheel_has_what_a_publisher_owes(name: str, wheels: Mapping[str, Path]) -> None:
    package = third_party(name).package.name
    with zipfile.ZipFile(wheels[name]) as archive:
        held = {each.partition(".dist-info/")[2] or each for each in archive.namelist()}
        [metadata] = (each for each in archive.namelist() if each.endswith("/METADATA"))
        page = archive.read(metadata).decode()
    assert {f"{package}/py.typed", "entry_points.txt", "licenses/LICENSE"} <= held
    assert not [each for each in held if "tests" in each]
    assert "Requires-Dist: interpose<1,>=0.1" in page
    assert "## What it changes" in page


@pytest.mark.parametrize(
    ("name", "settings"),
    [("acme-limits", acme_limits.LimitsSettings), ("umbra-quota", umbra_quota.QuotaSettings)],
)
def test_the_table_of_a_page_lists_each_setting(name: str, settings: type[Settings]) -> None:
    page = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .*? \| .*? \| .*? \|$", page, re.MULTILINE)
    assert rows == list(settings.model_fields)
    assert all(field.description for field in settings.model_fields.values())


@EACH
def test_the_code_of_a_page_does_what_the_page_says(name: str, tmp_path: Path) -> None:
    blocks = list(fenced((FOLDER / name / "README.md").read_text(encoding="utf-8")))
    programs = [block for block in blocks if block[0] in ("python", "text")]
    assert programs != []
    paths = os.pathsep.join(str(third_party(each).package.parent) for each in BOTH)
    Following(tmp_path, {**os.environ, **OUR_PYTHON, "PYTHONPATH": paths}).follow(programs)


def test_the_file_activates_both(installed: Shell, here: Path) -> None:
    status, output, errors = shell("interpose check", here, installed)
    assert (status, output) == (0, "ok: interpose.toml: agent default with 2 layers\n"), errors


def test_the_plan_says_who_provides_what_to_whom(installed: Shell, here: Path) -> None:
    _, output, errors = shell("interpose plan --format json", here, installed)
    assert errors == ""
    plan = json.loads(output)
    layer, _ = plan["layers"]
    [needed] = layer["requires"]
    assert (layer["id"], layer["distribution"]) == ("limits", "acme-limits")
    assert (needed["name"], needed["version"]) == ("umbra-quota/quota", 1)
    assert needed["parts"] == [{"kind": "provider", "id": "quota"}]


def test_why_tells_where_the_limits_stand(installed: Shell, here: Path) -> None:
    _, output, errors = shell("interpose why limits logging", here, installed)
    assert "limits (1.) is outside logging (2.)" in output, errors
    assert "stage edge is outside stage observe" in output


def test_runs_are_answered_until_the_quota_is_used_up(installed: Shell, here: Path) -> None:
    for _ in range(2):
        status, output, errors = shell(ASKED, here, installed)
        assert status == 0, errors
        assert output.startswith("Your order A-1815 has shipped.")
    status, output, errors = shell(ASKED, here, installed)
    assert (status, output) == (1, "")
    assert errors == "error[quota]: Your quota is used up. Please try again later.\n"
    assert (here / "quota.sqlite").is_file()


def test_a_provider_that_is_not_active_is_suggested(installed: Shell, here: Path) -> None:
    without_provider(here)
    status, output, _ = shell("interpose check", here, installed)
    assert status == 1
    assert output == (
        "error[missing-capability]: layer limits (acme-limits 0.1.0) requires the capability umbra-quota/quota (version 1), which nothing active provides\n"
        "  active parts provide: none\n"
        "  installed and not active, but could provide it: quota (umbra-quota)\n"
        "  at interpose.toml:4\n"
        "  fix: add to the file\n"
        "       [providers.quota]\n"
        "       or, if quota provides it as a middleware, [middleware.quota]\n"
        "\n"
        "1 problem at startup.\n"
    )
    status, _, errors = shell("interpose run Hello", here, installed)
    assert status == 1
    assert "error[missing-capability]: layer limits" in errors


def test_a_provider_that_is_not_installed_is_not_suggested(lonely: Shell, here: Path) -> None:
    without_provider(here)
    status, output, _ = shell("interpose check", here, lonely)
    assert status == 1
    assert "requires the capability umbra-quota/quota (version 1), which nothing" in output
    assert "installed and not active" not in output
    assert "activate a plugin that provides it" in output


def test_a_table_of_a_plugin_that_is_not_installed_is_an_error(lonely: Shell, here: Path) -> None:
    status, output, _ = shell("interpose check", here, lonely)
    assert status == 1
    assert (
        'error[unknown-use]: The provider "quota" has no use, and no plugin has its name.' in output
    )


def test_the_page_of_the_example_can_be_followed(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "third-party")
    endless(folder / "interpose.toml")
    page = (folder / "README.md").read_text(encoding="utf-8")
    Following(folder, environment(tmp_path / "venv")).follow(fenced(page))
