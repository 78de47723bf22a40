"""docs/plugins.md: its code is installed, activated and run, and its tables are the code's."""

from __future__ import annotations

import asyncio
import inspect
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commandline import CommandLine
from repository import fenced

from interpose import Host, StartupError, hookspecs
from interpose.startup.hook_checks import HOOKS
from interpose.startup.part import LAYER_KEYS

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
BLOCKS = list(fenced(PAGE))
TOML = [code for kind, code in BLOCKS if kind == "toml"]
PYTHON = [code for kind, code in BLOCKS if kind == "python"]


@pytest.fixture
def guard(install: Callable[..., Path]) -> None:
    """Install the plugin of the page, by the entry points that it shows."""
    groups = tomllib.loads(TOML[0])["project"]["entry-points"]
    install(
        "acme-guard",
        plugins=groups["interpose"],
        offers=groups["interpose.offers"],
        modules={"acme_guard": PYTHON[0]},
    )


@pytest.fixture
def guard_command(install: Callable[..., Path], guard: None) -> None:
    """Install the command of the page."""
    [table] = [tomllib.loads(code) for code in TOML if '"interpose.commands"' in code]
    commands = table["project"]["entry-points"]["interpose.commands"]
    install("acme-command", commands=commands, modules={"acme_guard_command": PYTHON[-1]})


@pytest.mark.usefixtures("guard_command")
def test_the_command_of_the_page_answers_from_the_file_of_the_page(cli: CommandLine) -> None:
    cli.write(TOML[1])
    outcome = cli("guard")
    assert (outcome.code, outcome.out, outcome.err) == (0, "ada\n", "")
    assert cli("guard", "--require", "ada").code == 0
    assert cli("guard", "--require", "eve").code == 1
    assert cli("--set", "middleware.guard.subject=eve", "guard").out == "eve\n"
    assert "\nStarts nothing.\n" in cli("guard", "--help").out


def run(config: Path) -> Any:
    async def main() -> Any:
        async with Host.from_config(config, environ={}) as host:
            assert host.plan().order == ("guard", "audit")
            return await host.run("hi")

    return asyncio.run(main())


@pytest.mark.usefixtures("guard")
def test_the_plugin_of_the_page_runs_with_the_file_of_the_page(tmp_path: Path) -> None:
    config = tmp_path / "interpose.toml"
    config.write_text(TOML[1])
    assert run(config).outcome == "success"
    config.write_text(TOML[1].replace('subject = "ada"', 'subject = "eve"'))
    assert run(config).error.code == "denied"


@pytest.mark.usefixtures("guard")
def test_the_plugin_of_the_page_vetoes_and_offers(tmp_path: Path) -> None:
    config = tmp_path / "interpose.toml"
    config.write_text(TOML[1] + 'layer = { before = ["guard"] }\n')
    with pytest.raises(StartupError, match="guard must be the outermost layer, and audit is"):
        Host.from_config(config, environ={})
    config.write_text(TOML[1].replace('[providers.guard]\ndeny = ["eve"]\n', ""))
    with pytest.raises(StartupError, match=r"\[providers\.guard\]"):
        Host.from_config(config, environ={})


def test_the_agent_of_the_page_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "echo_of_the_page.py").write_text(PYTHON[1])
    monkeypatch.syspath_prepend(str(tmp_path))
    config = tmp_path / "interpose.toml"
    config.write_text('[agent]\nuse = "echo_of_the_page:Echoes"\nwords = "hello"\n')

    async def main() -> Any:
        async with Host.from_config(config, environ={}) as host:
            return await host.run("hi")

    assert asyncio.run(main()).result == "hello"


def test_every_hook_of_a_plugin_and_every_key_of_layer_is_on_the_page() -> None:
    documented = set(re.findall(r"^\| `(interpose_\w+)\((\w*)\)` \|", PAGE, re.MULTILINE))
    assert documented == {(name, "".join(arguments)) for name, arguments in HOOKS.items()}
    assert all(inspect.getdoc(getattr(hookspecs, name)) for name in HOOKS)
    table = PAGE.partition("## What the operator says")[2]
    assert set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)))
    ) == set(LAYER_KEYS)
