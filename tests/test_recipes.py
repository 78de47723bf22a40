"""The middlewares of docs/recipes keep the contract, with the excuses that their pages tell."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT, fenced

from interpose import CREDENTIALS, Middleware
from interpose.testing import contract
from interpose.testing.contracts.subject import Token

RECIPES = ROOT / "docs" / "recipes"
FILES = {
    info.removeprefix("python "): code
    for page in sorted(RECIPES.glob("*.md"))
    for info, code in fenced(page.read_text("utf-8"))
    if info.startswith("python ") and not info.startswith("python try_")
}
IT_HOLDS = "it holds a message, up to MOST"
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "Login": {"settings": {"accounts": [{"subject": "ada", "token": "made-up-token"}]}},
    "HideTools": {
        "settings": {"tools": ["lookup_order"]},
        "excuse": {"stays-hidden": "snapshots are left as they are"},
    },
    "hide_lookups": {"excuse": {"stays-hidden": "snapshots are left as they are"}},
    "Friendly": {"excuse": {"exceptions": "it is what the layer is for"}},
    "friendly": {"excuse": {"exceptions": "it is what the layer is for"}},
    "Sentences": {"excuse": {"bounded-memory": IT_HOLDS}},
    "ShowNoNotes": {"excuse": {"bounded-memory": "it holds the arguments of a call"}},
    "Judge": {"settings": {"model": "scripted"}},
}


class Anything:
    """Stands for a metrics client and an analytics service."""

    def count(self, *_: Any) -> None: ...
    def gauge(self, *_: Any) -> None: ...
    def time(self, *_: Any) -> None: ...
    async def send(self, *_: Any) -> None: ...


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("recipes")
    for name, code in FILES.items():
        (folder / name).write_text(code, "utf-8")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.mark.parametrize("file", FILES)
def test_the_middlewares_of_a_recipe_keep_the_contract(
    file: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    module = importlib.import_module(file.removesuffix(".py"))
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Middleware)
        and value.__module__ == module.__name__
    ]
    assert found
    for cls in found:
        provide = {each: Anything() for each in cls.requires if each.name.startswith("acme-")}
        if CREDENTIALS in cls.requires:
            provide[CREDENTIALS] = Token()  # type: ignore[assignment]
        report = contract(cls, provide=provide, **OPTIONS.get(cls.__name__, {})).run()
        assert report, str(report)


def test_every_excuse_is_told_on_its_page() -> None:
    pages = "\n".join(page.read_text("utf-8") for page in RECIPES.glob("*.md"))
    for options in OPTIONS.values():
        for check, reason in options.get("excuse", {}).items():
            assert f'"{check}": "{reason}"' in pages


def test_recipes_are_typed_strictly(folder: Path, tmp_path: Path) -> None:
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, *map(str, FILES)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
