"""What ``interpose new`` writes installs, passes its tests, works, and is fit to be published."""

from __future__ import annotations

import os
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest
from repository import ROOT
from snippets import environment, shell

KINDS = ("stream", "loop", "provider", "agent", "several")
SAYS = {
    "stream": "I will look that up, **** it.\nYour order has shipped. That took darned long.",
    "loop": "The tools said: Order example was shipped",
    "provider": "This is visit 1.",
    "agent": "I heard: hello",
    "several": "I will look that up, darn it.\nYour order has shipped. That took darned long.",
}


def tried(command: str, folder: Path, variables: Mapping[str, str]) -> str:
    status, out, err = shell(command, folder, variables)
    assert status == 0, f"{command}\n{out[-6000:]}\n{err[-3000:]}"
    return out


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    return environment(tmp_path_factory.mktemp("scaffold") / "venv")


@pytest.mark.parametrize("kind", KINDS)
def test_a_scaffold_installs_passes_its_tests_and_works(
    kind: str, variables: Mapping[str, str], tmp_path: Path
) -> None:
    name = f"interpose-trial-{kind}"
    tried(f"interpose new {name} --kind {kind}", tmp_path, variables)
    folder = tmp_path / name
    tried("pip install --quiet -e .", folder, variables)
    tested = tried("python -m pytest -q -p no:cacheprovider", folder, variables)
    assert " passed" in tested
    assert "skipped" not in tested
    assert tried('interpose run "hello"', folder, variables).strip() == SAYS[kind]
    tried("interpose check", folder, variables)
    assert name in tried("interpose plugins", folder, variables)
    tried("python -m ruff format --check . && python -m ruff check .", folder, variables)
    tried(f"python -m mypy --cache-dir {tmp_path}/mypy", folder, variables)
    tried("interpose check-plugin --no-install .", folder, variables)


def test_a_local_middleware_passes_its_contract(
    variables: Mapping[str, str], tmp_path: Path
) -> None:
    tried("interpose new word-mask --kind local", tmp_path, variables)
    assert "0 of" in tried("python word_mask.py", tmp_path, variables)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """An environment with nothing but Interpose; what a scaffold needs, it has to say."""
    place = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(place, with_pip=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("INTERPOSE", "PYTHON"))}
    kept.pop("VIRTUAL_ENV", None)
    found = {**kept, "PATH": f"{place / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    tried(f"pip install --quiet '{ROOT / 'core'}'", place.parent, found)
    return found


# Loops last: only they may use what the extra of Interpose brings.
@pytest.mark.packaging
@pytest.mark.parametrize("kind", sorted(KINDS, key=lambda kind: kind == "loop"))
def test_a_scaffold_passes_in_a_clean_environment(
    kind: str, clean: Mapping[str, str], tmp_path: Path
) -> None:
    name = f"interpose-trial-{kind}"
    folder = tmp_path / name
    tried(f"interpose new {name} --kind {kind}", tmp_path, clean)
    if kind == "loop":
        tried(f"pip install --quiet '{ROOT / 'core'}[loop]'", tmp_path, clean)
    tried('pip install --quiet -e ".[dev]"', folder, clean)
    assert " passed" in tried("pytest -q", folder, clean)
    assert tried('interpose run "hello"', folder, clean).strip() == SAYS[kind]
    tried("mypy && pyright", folder, clean)
    tried("interpose check-plugin .", folder, clean)
    tried(f"pip uninstall --quiet --yes {name}", folder, clean)
