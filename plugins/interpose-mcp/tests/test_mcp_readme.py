"""The README is true: its programs print what it shows, its tables name each key, its commands work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from repository import fenced
from snippets import Following, environment

from interpose.commands import configuration
from interpose_mcp import McpAppsSettings, McpToolsSettings, ServerSettings
from interpose_mcp.answering import AT_ONCE, PROGRESS
from interpose_mcp.proxied import KEY, METHODS

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(README)
[SERVERS] = re.findall(r"^```toml\n(.*?)```", README, re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    [found] = re.findall(rf"^##+ {title}\n(.*?)(?=^## )", README, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_readme_has_two_programs() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("code", "output"), EXAMPLES, ids=["tools", "apps"])
def test_a_program_of_the_readme_prints_what_it_says(code: str, output: str) -> None:
    ran = subprocess.run(  # noqa: S603 - the README's own code
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == (output, "")


def test_the_configuration_can_be_followed(tmp_path: Path) -> None:
    blocks = list(fenced(section("In a configuration")))
    assert [info for info, _ in blocks] == ["python shop.py", "toml interpose.toml", "console"]
    Following(tmp_path, environment(tmp_path / "venv")).follow(blocks)


def rows(after: str) -> dict[str, str]:
    """Return the keys of the table after a line, with their defaults."""
    _, _, rest = README.partition(after)
    table = rest.strip().partition("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| [^|]* \| (.*?) \|", table, re.MULTILINE))


def default_of(model: type[BaseModel], key: str) -> str:
    field = model.model_fields[key]
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value is None:
        return "not given"
    return f"`{json.dumps(value)}`"


def test_the_readme_lists_each_key_with_its_default() -> None:
    layer = rows("Settings of a layer, the same for both middlewares:\n")
    server = rows("Settings of a server; exactly one of `url`, `command` and `python`:\n")
    assert McpToolsSettings.model_fields.keys() == McpAppsSettings.model_fields.keys()
    for told, model in ((layer, McpToolsSettings), (server, ServerSettings)):
        assert told.keys() == model.model_fields.keys()
        defaults = {key: default_of(model, key) for key in told} | {"cwd": told.get("cwd")}
        assert told == {key: default for key, default in defaults.items() if key in told}


def test_the_servers_of_the_readme_are_valid() -> None:
    given = re.sub(r'\{ "\$env" = "\w+" \}', '"from the environment"', SERVERS)
    layer = tomllib.loads(given)["middleware"]["mcp"]
    assert layer.pop("use") == "mcp.tools"
    servers = McpToolsSettings.model_validate(layer).servers
    assert [each.transport for each in servers.values()] == ["http", "sse", "stdio", "python"]


def test_its_variables_set_headers_and_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = section("Secrets and variables")
    one, several, allow = re.findall(r"^\| `(INTERPOSE__\w+)`", table, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "interpose.toml"
    file.write_text('[agent]\nuse = "scripted"\n' + SERVERS, encoding="utf-8")
    for name in ("DOCS_AUTHORIZATION", "LOG_TOKEN"):
        monkeypatch.setenv(name, "from the file")

    def docs() -> ServerSettings:
        with configuration(Namespace(config=[], set=[], debug=False)) as found:
            [layer] = found.layers
        assert isinstance(layer.settings, McpToolsSettings)
        return layer.settings.servers["docs"]

    def headers() -> dict[str, str]:
        return {name: value.get_secret_value() for name, value in docs().headers.items()}

    assert headers() == {"authorization": "from the file"}
    monkeypatch.setenv(one, "Bearer one")
    assert headers() == {"authorization": "Bearer one"}
    with monkeypatch.context() as patch:
        patch.setenv(several, '{"x-api-key": "two"}')
        assert headers() == {"authorization": "Bearer one", "x-api-key": "two"}
    monkeypatch.setenv(f"{several}__X_API_KEY", "three")
    assert headers() == {"authorization": "Bearer one", "x_api_key": "three"}
    more = SERVERS.replace("headers = { auth", 'headers = { x-api-key = "", auth')
    file.write_text('[agent]\nuse = "scripted"\n' + more, encoding="utf-8")
    assert headers() == {"authorization": "Bearer one", "x-api-key": "three"}
    assert docs().allow == frozenset({"search", "read"})
    monkeypatch.setenv(allow, '["search"]')
    assert docs().allow == frozenset({"search"})


def test_the_readme_says_what_the_code_says() -> None:
    assert f"`CUSTOM` with the name `{PROGRESS}`" in README
    assert AT_ONCE == 10
    assert f"`forwardedProps` have `{KEY}`" in README
    assert [method for method in METHODS if f"`{method}`" not in section("MCP Apps")] == []
    [told] = re.findall(r"^```json\n(.*?)```", README, re.MULTILINE | re.DOTALL)
    assert json.loads(told).keys() == {"toolCallId", "value"}
