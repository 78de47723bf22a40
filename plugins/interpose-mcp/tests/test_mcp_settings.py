"""What a server's settings may be, and that what is wrong with them is said with its remedy."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from interpose import Host, Layer, StartupError
from interpose.testing import scripted
from interpose_mcp import McpApps, McpTools, McpToolsSettings, ServerSettings
from interpose_mcp.target import Target

SECRET = "t0p-s3cret-value"


def faults(**settings: Any) -> str:
    """Return what is wrong with the settings of a server."""
    with pytest.raises(ValidationError) as caught:
        ServerSettings.model_validate(settings)
    text = str(caught.value)
    assert SECRET not in text
    return text


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:3001/mcp",
        "HTTPS://Example.org",
        "https://example.org:8443/a%20b?tenant=1",
        "http://[::1]:8000/mcp",
        "https://bücher.example/mcp",
        "https://xn--bcher-kva.example/mcp",
        "http://127.0.0.1:65535/",
    ],
)
def test_addresses_of_http(url: str) -> None:
    assert ServerSettings(url=url).url == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://example.org/", "begins with http"),
        ("file://host/mcp", "begins with http"),
        ("javascript:alert(1)", "begins with http"),
        ("example.org/mcp", "begins with http"),
        ("//example.org/mcp", "begins with http"),
        ("http:///mcp", "begins with http"),
        ("http://", "begins with http"),
        ("", "begins with http"),
        (f"http://ann:{SECRET}@example.org/", "no name and no password"),
        ("http://ann@example.org/", "no name and no password"),
        ("http://@example.org/", "no name and no password"),
        ("http://good.example\\@evil.example/", "a backslash"),
        ("http://good.example\\.evil.example/", "a backslash"),
        ("http://example.org/#top", "fragment"),
        ("http://example.org/#", "fragment"),
        (" http://example.org/", "space"),
        ("http://example.org/a b", "space"),
        ("http://exa\tmple.org/", "control character"),
        ("http://example.org/\n", "control character"),
        ("http://example.org/\x00", "control character"),
        ("http://example.org:0/", "begins with http"),
        ("http://example.org:99999/", "is not an address"),
        ("http://example.org:http/", "is not an address"),
        ("http://[::1/", "is not an address"),
        ("http://[nothing]/", "is not an address"),
    ],
)
def test_other_addresses_are_refused(url: str, said: str) -> None:
    assert said in faults(url=url)


def test_an_address_is_kept_as_it_is_written() -> None:
    settings = ServerSettings(url="HTTP://LocalHost:80/mcp/?b=2&a=1")
    assert settings.url == "HTTP://LocalHost:80/mcp/?b=2&a=1"


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"bad name": "x"}, "'bad name' is not the name of a header"),
        ({"": "x"}, "'' is not the name of a header"),
        ({"x:y": "x"}, "'x:y' is not the name of a header"),
        ({"Host": "x"}, "the header Host is the protocol's own"),
        ({"Mcp-Session-Id": "x"}, "the protocol's own"),
        ({"MCP-Protocol-Version": "x"}, "the protocol's own"),
        ({"Accept": "x"}, "the protocol's own"),
        ({"x": f"{SECRET}\r\nInjected: 1"}, "the value of the header x is not printable ASCII"),
        ({"x": f"{SECRET}\n"}, "the value of the header x is not printable ASCII"),
        ({"x": f" {SECRET}"}, "has spaces around"),
        ({"x": f"{SECRET}é"}, "the value of the header x is not printable ASCII"),
        ({"X-A": "1", "x-a": "2"}, "the header x-a is there twice"),
        ({"x": 1}, "headers.x"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused(headers: dict[str, Any], said: str) -> None:
    assert said in faults(url="http://localhost/", headers=headers)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"command": " "}, "`command` names a program"),
        ({"command": "a\0b"}, "`command` names a program"),
        ({"command": "a", "args": ["\0"]}, "a NUL in it"),
        ({"command": "a", "env": {"A=B": SECRET}}, "'A=B' is not the name of a variable"),
        ({"command": "a", "env": {"": SECRET}}, "'' is not the name of a variable"),
        ({"command": "a", "env": {"A": f"{SECRET}\0"}}, "the value of the variable A has a NUL"),
        ({"python": "shop"}, "module:attr"),
        ({"python": "shop:a b"}, "module:attr"),
    ],
)
def test_programs_and_objects_that_cannot_be_are_refused(
    settings: dict[str, Any], said: str
) -> None:
    assert said in faults(**settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "exactly one of `url`, `command` and `python`; given: none"),
        ({"url": "http://h/", "command": "a"}, "given: `url` and `command`"),
        ({"command": "a", "headers": {"a": SECRET}}, "`headers` belongs to `url`"),
        ({"python": "a:b", "env": {"a": SECRET}}, "`env` belongs to `command`"),
        ({"url": "http://h/", "cwd": "x"}, "`cwd` belongs to `command`"),
        ({"url": "http://h/", "allow": ["a"], "deny": []}, "at most one of `allow` and `deny`"),
        ({"url": "http://h/", "type": "ws"}, "type"),
        ({"url": "http://h/", "timeout": 0}, "timeout"),
        ({"url": "http://h/", "timeout": "inf"}, "timeout"),
        ({"url": "http://h/", "max_response_bytes": 1}, "max_response_bytes"),
        ({"url": "http://h/", "header": {}}, "header"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], said: str) -> None:
    assert said in faults(**settings)


def test_a_server_has_an_id_that_can_be_part_of_a_name() -> None:
    with pytest.raises(ValidationError, match="'a b' is not a server's id"):
        McpToolsSettings.model_validate({"servers": {"a b": {"url": "http://h/"}}})
    with pytest.raises(ValidationError, match="servers"):
        McpToolsSettings.model_validate({"servers": {}})


def test_allow_and_deny_decide_which_tools_exist() -> None:
    assert ServerSettings(python="a:b").allows("x")
    only = ServerSettings(python="a:b", allow=frozenset({"x"}))
    assert (only.allows("x"), only.allows("y")) == (True, False)
    others = ServerSettings(python="a:b", deny=frozenset({"x"}))
    assert (others.allows("x"), others.allows("y")) == (False, True)
    assert not ServerSettings(python="a:b", allow=frozenset()).allows("x")


def test_secrets_are_in_no_repr() -> None:
    here = Path()
    http = ServerSettings.model_validate({"url": "http://h/", "headers": {"x": SECRET}})
    program = ServerSettings.model_validate({"command": "a", "env": {"X": SECRET}})
    told = [repr(http), str(http), repr(program), str(http.model_dump()), http.model_dump_json()]
    told += [repr(Target("s", each, here)) for each in (http, program)]
    assert [text for text in told if SECRET in text] == []


# What is wrong is said when the host starts ---------------------------------------------------
def problems_of(*layers: Layer) -> str:
    """Return what the start of a host says, with everything that is wrong."""

    async def start() -> None:
        async with Host(list(layers), agent=scripted("hi")):
            pass

    with pytest.raises(StartupError) as caught:
        asyncio.run(start())
    text = str(caught.value)
    assert SECRET not in text
    return text


def test_several_bad_settings_are_said_at_once() -> None:
    servers = {
        "one": {"url": f"http://ann:{SECRET}@h/"},
        "two": {"command": "a", "headers": {"x": SECRET}},
        "three": {"url": "http://h/", "headers": {"x": f"{SECRET}\n"}},
    }
    text = problems_of(Layer(McpTools, {"servers": servers}))
    for part in ("one", "no name and no password", "two", "`headers` belongs to `url`", "three"):
        assert part in text


def test_objects_that_are_no_servers_are_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcp_odd_objects.py").write_text("text = 'x'\n")
    (tmp_path / "mcp_exits.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    servers = {
        "absent": {"python": "mcp_no_such_module:server"},
        "without": {"python": "mcp_odd_objects:server"},
        "other": {"python": "mcp_odd_objects:text"},
        "exits": {"python": "mcp_exits:server"},
    }
    text = problems_of(Layer(McpApps, {"servers": servers}))
    sys.modules.pop("mcp_odd_objects", None)
    for id_ in servers:
        assert f"servers.{id_}.python" in text
    for part in (
        "mcp_no_such_module:server could not be imported: ModuleNotFoundError",
        "has no attribute 'server'",
        "mcp_odd_objects:text is a str, not an MCP server",
        "mcp_exits:server could not be imported: SystemExit: 3",
        "name an instance of mcp.server.MCPServer",
        "importable from here",
        "layer 'mcp-apps'",
    ):
        assert part in text
