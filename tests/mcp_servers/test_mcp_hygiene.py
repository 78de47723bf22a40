"""What a server gets to see and to do: one origin, no secrets elsewhere, no more than was asked."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_parts import Served
from mcp_sessions import Odd, Run, clean, hub_of, logged, names, run_of, target, text

from interpose_mcp.calling import RunSessions
from interpose_mcp.failures import ConnectFailed, McpFailure, story
from interpose_mcp.hub import Hub

SECRET = "s3cret"
HEADERS = {"Authorization": f"Bearer {SECRET}", "X-Key": f"key-{SECRET}"}
MODES = pytest.mark.parametrize("protocol", ["auto", "legacy"])
OVER = pytest.mark.parametrize("over", ["http", "sse"])


def at(server: Served, over: str = "http", **settings: Any) -> Any:
    """Return the target that a server is, with secrets in its headers."""
    url = server.url if over == "http" else server.sse_url
    return target(url=url, type=over, headers=HEADERS, **settings)


def ports(server: Served) -> set[int]:
    """Return the ports that were asked anything."""
    return {each["port"] for each in server.requests()}


def port_of(origin: str) -> int:
    return int(origin.rpartition(":")[2])


# Redirects and origins -----------------------------------------------------------------------
@MODES
@OVER
@pytest.mark.parametrize("kind", ["redirect", "redirect-away"])
def test_a_redirect_of_the_first_request_is_not_followed(
    odd: Odd, kind: str, over: str, protocol: str
) -> None:
    with odd(kind) as server, logged() as log:

        async def main() -> None:
            async with hub_of(at(server, over, protocol=protocol)) as hub:
                with pytest.raises(ConnectFailed, match="could not be reached"):
                    await hub.open("s")

        clean(main)
        assert [(each["path"], each["status"]) for each in server.requests()] == [
            ("/mcp" if over == "http" else "/sse", 307)
        ]
        assert ports(server) == {port_of(server.origin)}
        [line] = [line for line in log if line.startswith("ERROR")]
        assert "a redirect to http://127.0.0.1:" in line
        assert SECRET not in line


@pytest.mark.parametrize("kind", ["redirect", "redirect-away"])
def test_a_redirect_of_a_call_fails_that_call_alone(odd: Odd, kind: str) -> None:
    with odd(kind, after=2) as server:

        async def main() -> None:
            async with run_of(at(server, protocol="legacy")) as run:
                session = await run.session("s")
                with pytest.raises(McpFailure, match="answered with a redirect"):
                    await run.call("s", "echo", {})
                assert session.is_open

        clean(main)
        assert ports(server) == {port_of(server.origin)}
        assert {each["path"] for each in server.requests()} == {"/mcp"}
        assert [each["status"] for each in server.requests("tools/call")] == [307]
        assert [each["status"] for each in server.requests(method="DELETE")] == [200]


def test_an_endpoint_of_another_origin_is_refused_at_once(odd: Odd) -> None:
    with odd("changes-origin") as server, logged() as log:

        async def main() -> None:
            async with hub_of(at(server, "sse", connect_timeout=30)) as hub:
                with pytest.raises(ConnectFailed, match="could not be reached"):
                    await hub.open("s")

        begun = time.monotonic()
        clean(main)
        assert time.monotonic() - begun < 15
        assert ports(server) == {port_of(server.origin)}
        assert any("names an endpoint of another origin" in line for line in log)


def test_a_server_that_names_another_origin_to_log_in_is_not_followed_there(odd: Odd) -> None:
    with odd("changes-origin") as server, logged() as log:

        async def main() -> None:
            async with hub_of(at(server)) as hub:
                with pytest.raises(ConnectFailed):
                    await hub.open("s")

        clean(main)
        assert ports(server) == {port_of(server.origin)}
        assert any("HTTP status 401" in line for line in log)


# The environment -----------------------------------------------------------------------------
@OVER
def test_proxies_of_the_environment_are_used_when_asked_only(
    odd: Odd, over: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    with odd("plain") as server:

        async def main() -> None:
            async with run_of(at(server, over)) as run:
                assert text(await run.call("s", "echo", {"text": "hi"})) == "hi"
            async with hub_of(at(server, over, trust_env=True, connect_timeout=5)) as hub:
                with pytest.raises(ConnectFailed):
                    await hub.open("s")

        clean(main)


def test_no_password_of_a_netrc_file_is_sent(
    odd: Odd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login ann password hidden\ndefault login ann password x\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    with odd("plain") as server:

        async def main() -> None:
            for trust_env in (False, True):
                async with run_of(target(url=server.url, trust_env=trust_env)) as run:
                    await run.call("s", "echo", {"text": "hi"})

        clean(main)
        assert [each for each in server.requests() if "authorization" in each["headers"]] == []


@OVER
def test_headers_are_on_every_request(odd: Odd, over: str) -> None:
    with odd("plain") as server:

        async def main() -> None:
            async with run_of(at(server, over)) as run:
                await run.call("s", "echo", {"text": "hi"})

        clean(main)
        sent = [each["headers"] for each in server.requests()]
        assert {each.get("authorization") for each in sent} == {f"Bearer {SECRET}"}
        assert {each.get("x-key") for each in sent} == {f"key-{SECRET}"}
        assert {each.get("accept-encoding") for each in sent} == {"identity"}
        kinds = {each["method"] for each in server.requests()}
        assert {"GET", "POST"} <= kinds
        assert ("DELETE" in kinds) is (over == "http")


# Secrets -------------------------------------------------------------------------------------
class Kept(logging.Handler):
    """Keeps what is logged, with the traces."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self.texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.name}: {self.format(record)}")


@contextmanager
def every_log() -> Iterator[list[str]]:
    """Keep all that any logger says, at the finest level."""
    with logged() as texts:
        root, kept = logging.getLogger(), Kept(texts)
        before = root.level
        root.addHandler(kept)
        root.setLevel(logging.DEBUG)
        try:
            yield texts
        finally:
            root.removeHandler(kept)
            root.setLevel(before)


@OVER
@pytest.mark.parametrize(
    ("where", "how"),
    [("initialize", "rpc"), ("initialize", "http"), ("tools/list", "rpc"), ("tools/call", "rpc")],
)
def test_secrets_are_in_no_log_and_no_error_even_if_the_server_repeats_them(
    odd: Odd, where: str, how: str, over: str
) -> None:
    with odd("private-errors", where=where, how=how) as server, every_log() as log:

        async def main() -> None:
            async def use(hub: Hub, run: RunSessions) -> None:
                await hub.tools("s")
                await run.call("s", "echo", {})

            async with hub_of(at(server, over)) as hub, Run(hub) as run:
                with pytest.raises(McpFailure) as caught:
                    await use(hub, run)
                assert SECRET not in f"{caught.value}{caught.value.message}{caught.value!r}"
                assert "private" not in caught.value.message

        clean(main)
        assert any(line.startswith("ERROR") for line in log)
        assert [line for line in log if SECRET in line] == []


@pytest.mark.parametrize(("where", "answers"), [("initialize", "json"), ("tools/call", "sse")])
def test_secrets_in_an_answer_that_is_none_are_in_no_log(
    odd: Odd, where: str, answers: str
) -> None:
    with odd("bad-json", where=where, answers=answers) as server, every_log() as log:

        async def main() -> None:
            async with run_of(at(server)) as run:
                with pytest.raises(McpFailure):
                    await run.call("s", "echo", {})

        clean(main)
        assert [line for line in log if SECRET in line] == []


def test_secrets_of_a_program_are_in_no_log() -> None:
    shout = "import os, sys; print(os.environ['KEY']); sys.exit(os.environ['KEY'])"
    program = target(command=sys.executable, args=["-c", shout], env={"KEY": f"key-{SECRET}"})
    with every_log() as log:

        async def main() -> None:
            async with hub_of(program) as hub:
                with pytest.raises(ConnectFailed):
                    await hub.open("s")

        clean(main)
        assert [line for line in log if SECRET in line] == []


def test_a_story_of_a_failure_has_no_secrets() -> None:
    error = ExceptionGroup("all", [ValueError(f"Bearer {SECRET} is bad"), KeyError(SECRET)])
    told = story(error, target(url="http://h/", headers=HEADERS).secrets)
    assert told == "ValueError: *** is bad; caused by KeyError: '***'"


# Sizes ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("where", "answers"),
    [("tools/list", "json"), ("tools/call", "sse"), ("resources/read", "json")],
)
def test_an_answer_that_is_too_large_is_not_read(odd: Odd, where: str, answers: str) -> None:
    with odd("huge", where=where, answers=answers) as server:

        async def main() -> None:
            async with run_of(at(server, max_response_bytes=100_000)) as run:
                session = await run.session("s")
                asked: Any = {
                    "tools/list": session.tools,
                    "tools/call": lambda: run.call("s", "echo", {}),
                    "resources/read": lambda: session.read_resource("ui://clock/app.html"),
                }[where]
                with pytest.raises(McpFailure, match="is too large"):
                    await asked()
                assert session.is_open

        clean(main)
        server.until(lambda log: any(each["kind"] == "huge" for each in log))
        [sent] = server.log("huge")
        assert sent["bytes"] < 32 * 1024 * 1024


def test_an_event_of_sse_that_is_too_large_ends_the_session(odd: Odd) -> None:
    with odd("huge") as server:

        async def main() -> None:
            async with run_of(at(server, "sse", max_response_bytes=100_000)) as run:
                session = await run.session("s")
                with pytest.raises(McpFailure, match="ended during the call"):
                    await run.call("s", "echo", {})
                assert not session.is_open
                assert names(await (await run.session("s")).tools()) == ["echo", "clock"]

        clean(main)


@pytest.mark.parametrize("answers", ["json", "sse"])
def test_a_compressed_answer_is_not_taken(odd: Odd, answers: str) -> None:
    with odd("compressed", answers=answers) as server:

        async def main() -> None:
            async with run_of(at(server, protocol="legacy")) as run:
                session = await run.session("s")
                with pytest.raises(McpFailure, match="gave a compressed answer"):
                    await run.call("s", "echo", {})
                assert session.is_open

        clean(main)


# Listings ------------------------------------------------------------------------------------
def test_five_hundred_tools_over_pages_are_all_there(odd: Odd) -> None:
    with odd("many") as server:

        async def main() -> None:
            async with hub_of(at(server)) as hub:
                assert names(await hub.tools("s")) == [f"tool_{number:03}" for number in range(500)]

        clean(main)
        assert len(server.requests("tools/list")) == 10


@pytest.mark.parametrize(
    ("kind", "why", "pages"),
    [("endless-cursor", "repeats a cursor", 2), ("growing-cursor", "never ends", 11)],
)
def test_a_listing_without_an_end_is_given_up(
    odd: Odd, kind: str, why: str, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interpose_mcp.session.MOST_PAGES", 10)
    with odd(kind) as server:

        async def main() -> None:
            async with hub_of(at(server)) as hub:
                with pytest.raises(McpFailure, match=why):
                    await hub.tools("s")

        clean(main)
        assert len(server.requests("tools/list")) == pages


def test_a_listing_with_too_many_tools_is_given_up(odd: Odd) -> None:
    with odd("many", total=50_000, page=2_000) as server:

        async def main() -> None:
            async with hub_of(at(server)) as hub:
                with pytest.raises(McpFailure, match="never ends"):
                    await hub.tools("s")

        clean(main)
        assert len(server.requests("tools/list")) == 3


def test_connecting_to_a_server_that_never_answers_is_given_up_in_time(odd: Odd) -> None:
    with odd("slow-handshake") as server:

        async def main() -> None:
            async with hub_of(at(server, connect_timeout=1)) as hub:
                begun = asyncio.get_running_loop().time()
                with pytest.raises(ConnectFailed, match="could not be reached within 1 s"):
                    await hub.open("s")
                assert asyncio.get_running_loop().time() - begun < 5

        clean(main)
