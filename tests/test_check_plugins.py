"""``interpose check-plugin`` has nothing to say about what this repository publishes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT, Distribution, distributions

PLUGINS = tuple(each for each in distributions() if each.name != "interpose")
EXAMPLES = tuple(
    path.parent
    for path in sorted((ROOT / "examples").rglob("pyproject.toml"))
    if "entry-points.interpose]" in path.read_text(encoding="utf-8")
)
SETTINGS = {
    "interpose-mcp": [
        "--set",
        'middleware.mcp-tools.servers.shop.command="shop-mcp"',
        "--set",
        'middleware.mcp-apps.servers.shop.command="shop-mcp"',
    ],
    "interpose-models": ["--set", "models.models.name=acme:model"],
    "interpose-tool-filter": ["--set", "middleware.tool-filter.deny=[]"],
}


def check(*arguments: str | Path) -> dict[str, Any]:
    done = subprocess.run(  # noqa: S603 - the command line of this environment
        [sys.executable, "-m", "interpose", "check-plugin", "--json", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def wrong(told: dict[str, Any]) -> list[str]:
    return [
        f"{check['check']}: {problem['message']}"
        for check in told["checks"]
        for problem in check["problems"]
        if problem["severity"] != "note"
    ]


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda each: each.name)
def test_an_installed_plugin_passes(plugin: Distribution) -> None:
    told = check(plugin.name, *SETTINGS.get(plugin.name, ()))
    assert wrong(told) == []
    skipped = [each["check"] for each in told["checks"] if each["outcome"] == "skipped"]
    assert skipped == ["install"]


def test_there_are_examples() -> None:
    assert "plugin" in [folder.name for folder in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_an_example_has_no_error(example: Path) -> None:
    told = check("--no-install", example)
    assert told["ok"], wrong(told)


@pytest.mark.packaging
@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda each: each.name)
def test_the_wheel_of_a_plugin_passes_in_a_clean_environment(plugin: Distribution) -> None:
    told = check(plugin.folder, *SETTINGS.get(plugin.name, ()))
    assert wrong(told) == []
    assert {each["outcome"] for each in told["checks"]} == {"ok"}
