"""The hash of a server is that of the TypeScript middleware, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from interpose_mcp import ServerSettings, server_hash
from interpose_mcp.target import Target


@pytest.mark.parametrize(
    ("kind", "url", "digest"),
    [
        ("http", "http://localhost:3001/mcp", "2637fef21d2e2f89aa11b1d288fbe14d"),
        ("sse", "http://localhost:3001/mcp", "c8a751bcdebf173bef8ced14d6b1cedf"),
    ],
)
def test_known_hashes(kind: str, url: str, digest: str) -> None:
    assert server_hash(kind, url) == digest


def test_what_is_not_ascii_is_not_escaped_and_nothing_is_normalised() -> None:
    urls = ["http://bücher.example/", "http://xn--bcher-kva.example/", "HTTP://bücher.example/"]
    assert len({server_hash("http", url) for url in urls}) == 3
    # node -e 'crypto.createHash("md5").update(JSON.stringify({type:"http",url})).digest("hex")'
    assert server_hash("http", urls[0]) == "3fa4adf51a3b6ae03602e2075bab38c8"
    assert server_hash("http", 'http://h/?q="\u2028') == "1850e0a863256c700b9a28ccb2ca4043"


def test_headers_do_not_count() -> None:
    url = "http://localhost:3001/mcp"
    plain = Target("a", ServerSettings(url=url), Path())
    secret = Target(
        "b", ServerSettings.model_validate({"url": url, "headers": {"x": "secret"}}), Path()
    )
    assert plain.digest == secret.digest == "2637fef21d2e2f89aa11b1d288fbe14d"
    over_sse = Target("c", ServerSettings(url=url, type="sse"), Path())
    assert over_sse.digest == "c8a751bcdebf173bef8ced14d6b1cedf"


def test_a_server_without_an_address_is_named_by_its_id() -> None:
    program = Target("a", ServerSettings(command="x"), Path())
    assert program.digest == server_hash("stdio", "a")
    assert Target("b", ServerSettings(command="x"), Path()).digest != program.digest
