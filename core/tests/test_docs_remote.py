"""docs/remote.md: its code runs, and its tables are the code's."""

from __future__ import annotations

import asyncio
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from raw_server import Answering, Asked, serving
from relaying import once
from repository import fenced

import interpose
from interpose import Host
from interpose.agents.http_failures import MAY_PASS
from interpose.agents.remote import RemoteSettings

PAGE = (Path(__file__).parents[2] / "docs" / "remote.md").read_text(encoding="utf-8")
BLOCKS = list(fenced(PAGE))
PYTHON = [code for kind, code in BLOCKS if kind == "python"]
URL = "https://billing.internal/agent"


async def answers(asked: Asked, answer: Answering) -> None:
    await answer.stream(asked.whole())


def test_the_file_of_the_page_is_valid_and_its_agents_are_asked(tmp_path: Path) -> None:
    [(_, text)] = [block for block in BLOCKS if block[0].startswith("toml")]

    async def main() -> list[Asked]:
        async with serving(answers) as server:
            config = tmp_path / "interpose.toml"
            config.write_text(re.sub(r"https://[a-z]+\.internal/agent", server.url, text))
            host = Host.from_config(config, environ={"BILLING_AUTH": "Bearer 1"})
            async with host:
                for agent in tomllib.loads(text)["agents"]:
                    assert (await host.run("hi", agent=agent)).outcome == "success"
            return server.asked

    authorizations = [asked.headers.get("authorization") for asked in asyncio.run(main())]
    assert authorizations == ["Bearer 1", None]


def test_the_code_of_the_page_asks_with_the_configured_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BILLING_AUTH", "Bearer 1")

    async def main() -> list[Asked]:
        async with serving(answers) as server:
            names = evaluated(PYTHON[0].replace(URL, server.url))
            async with names["host"] as host:
                assert (await host.run("hi")).outcome == "success"
            return server.asked

    [asked] = asyncio.run(main())
    assert asked.headers["authorization"] == "Bearer 1"


def test_the_code_of_the_page_asks_in_the_name_of_the_user() -> None:
    async def main() -> list[Asked]:
        async with serving(answers) as server:
            names = evaluated(PYTHON[1].replace(URL, server.url))
            async with names["host"] as host:
                assert await names["ask"](host, "users-own", "hi") == "hello"
            return server.asked

    [asked] = asyncio.run(main())
    assert asked.headers["authorization"] == "Bearer users-own"


def evaluated(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "docs_remote"}
    exec(compile(code, "docs/remote.md", "exec", dont_inherit=True), names)  # noqa: S102 - our own page
    return names


def test_every_block_of_the_page_is_tried() -> None:
    assert [kind for kind, _ in BLOCKS] == ["toml interpose.toml", "python", "python"]


def test_the_table_of_settings_is_that_of_the_code() -> None:
    table = PAGE.partition("## Settings")[2].partition("\n## ")[0]
    documented = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", table, re.MULTILINE))
    assert documented == {
        name: "required"
        if info.is_required()
        else written(info.get_default(call_default_factory=True))
        for name, info in RemoteSettings.model_fields.items()
    }


def written(default: Any) -> str:
    return "none" if default is None else f"`{str(default).lower()}`"


def test_the_table_of_failures_names_what_may_pass() -> None:
    table = PAGE.partition("## Failures")[2]
    rows = re.findall(r"^\| ([^|]+) \| `(\w+)`[^|]* \|$", table, re.MULTILINE)
    assert all(issubclass(getattr(interpose, name), interpose.RunError) for _, name in rows)
    [statuses] = [what for what, name in rows if what.startswith("HTTP")]
    assert {int(status) for status in re.findall(r"\d+", statuses)} == MAY_PASS


@pytest.mark.parametrize("status", sorted({401, 403, 404, 500, *MAY_PASS}))
def test_a_status_is_the_exception_that_the_table_says(status: int) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.whole(f"{status} No")

    error = once(handler)[0].error
    expected = interpose.RemoteUnavailable if status in MAY_PASS else interpose.RemoteFailed
    assert type(error) is expected
