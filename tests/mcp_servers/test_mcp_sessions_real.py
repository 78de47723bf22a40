"""Sessions with real servers: what is shared, what is cancelled, what is left when one dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp_parts import (
    Served,
    everything_command,
    odd_server,
    python_server,
    stdio_command,
)
from mcp_sessions import (
    Odd,
    Run,
    cancelled,
    clean,
    hub_of,
    logged,
    names,
    run_of,
    started,
    target,
    text,
    until,
)

from interpose.testing.clocks import FakeClock
from interpose_mcp.failures import ConnectFailed, McpFailure
from interpose_mcp.hub import Hub

SLOW = ("slow", {"seconds": 600, "key": "k"})
MODES = pytest.mark.parametrize("protocol", ["auto", "legacy"])
OVER = pytest.mark.parametrize("over", ["http", "sse"])


# Calls ---------------------------------------------------------------------------------------
@MODES
def test_a_run_lists_calls_and_reads(apps: Served, protocol: str) -> None:
    async def main() -> None:
        async with hub_of(target(url=apps.url, protocol=protocol)) as hub:
            assert "add" in names(await hub.tools("s"))
            async with Run(hub) as run:
                assert text(await run.call("s", "add", {"a": 1, "b": 2})) == "3"
                page = await (await run.session("s")).read_resource("notes://today")
                assert page.contents[0].uri == "notes://today"
                await (await run.session("s")).ping()

    clean(main)
    ended = apps.requests(method="DELETE")
    assert [each["status"] for each in ended] == ([200, 200] if protocol == "legacy" else [])


def test_an_older_server_is_spoken_to_as_it_wants(everything_server: Served) -> None:
    async def main() -> None:
        async with hub_of(target(url=everything_server.url)) as hub:
            assert "get-sum" in names(await hub.tools("s"))
            async with Run(hub) as run:
                said = text(await run.call("s", "get-sum", {"a": 1, "b": 2}))
                assert "3" in said
                assert (await run.session("s")).protocol == "2025-11-25"

    clean(main)


def test_an_older_server_is_spoken_to_over_standard_input_and_output(node_parts: None) -> None:
    command, *args = everything_command()

    async def main() -> None:
        async with hub_of(target(command=command, args=args)) as hub, Run(hub) as run:
            assert "hi" in text(await run.call("s", "echo", {"message": "hi"}))

    clean(main)


@pytest.mark.parametrize("session", ["run", "host"])
def test_fifty_runs_at_once(apps: Served, session: str) -> None:
    server = target(url=apps.url, protocol="legacy", session=session)

    async def main() -> None:
        async with hub_of(server) as hub:

            async def one(number: int) -> str:
                await hub.tools("s")
                async with Run(hub) as run:
                    return text(await run.call("s", "add", {"a": number, "b": 0}))

            answers = await asyncio.gather(*(one(number) for number in range(50)))
            assert answers == [str(number) for number in range(50)]

    clean(main)
    sessions = len(apps.requests("initialize"))
    assert sessions == len(apps.requests(method="DELETE")) == (51 if session == "run" else 1)
    assert len(apps.requests("tools/list")) == 1


@MODES
@OVER
def test_a_call_that_is_cancelled_is_cancelled_at_the_server(
    apps: Served, apps_over_sse: Served, over: str, protocol: str
) -> None:
    server = apps if over == "http" else apps_over_sse

    async def main() -> None:
        async with run_of(target(url=server.url, type=over, protocol=protocol)) as run:
            call = asyncio.create_task(run.call("s", *SLOW))
            await started(server)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await cancelled(server)
            assert text(await run.call("s", "add", {"a": 1, "b": 1})) == "2"

    clean(main)


@MODES
def test_a_call_over_standard_input_and_output_is_cancelled_at_the_server(
    tmp_path: Path, protocol: str
) -> None:
    log = tmp_path / "log"
    log.touch()
    command, *args = stdio_command("--log", str(log))

    async def main() -> None:
        async with run_of(target(command=command, args=args, protocol=protocol)) as run:
            call = asyncio.create_task(run.call("s", *SLOW))
            await until(lambda: '"started"' in log.read_text())
            call.cancel()
            await asyncio.wait([call])
            await until(lambda: '"cancelled"' in log.read_text())
            assert text(await run.call("s", "add", {"a": 1, "b": 1})) == "2"

    clean(main)


@MODES
@OVER
def test_a_call_that_takes_too_long_is_cancelled_at_the_server(
    apps: Served, apps_over_sse: Served, over: str, protocol: str
) -> None:
    server = apps if over == "http" else apps_over_sse

    async def main() -> None:
        async with run_of(target(url=server.url, type=over, protocol=protocol, timeout=1)) as run:
            with pytest.raises(McpFailure, match="took longer than 1 s") as caught:
                await run.call("s", *SLOW)
            assert caught.value.executed
            await cancelled(server)
            assert text(await run.call("s", "add", {"a": 1, "b": 1})) == "2"

    clean(main)


def test_arguments_that_cannot_be_written_end_nothing(apps: Served) -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]

    async def main() -> None:
        async with hub_of(target(url=apps.url, session="host")) as hub, Run(hub) as run:
            session = await run.session("s")
            for odd in ("\ud800", float("nan"), deep, object()):
                with pytest.raises(McpFailure, match="cannot be written") as caught:
                    await run.call("s", "say", {"parts": [odd]})
                assert not caught.value.executed
            with pytest.raises(McpFailure, match="cannot be written"):
                await session.read_resource("notes://\ud800")
            assert text(await run.call("s", "add", {"a": 1, "b": 1})) == "2"
            assert await run.session("s") is session

    clean(main)


# Cancelling, ending --------------------------------------------------------------------------
@pytest.mark.parametrize("session", ["run", "host"])
def test_a_run_that_is_cancelled_while_it_opens_a_session_leaves_nothing(
    odd: Odd, session: str
) -> None:
    with odd("slow-handshake") as server:
        server_target = target(url=server.url, session=session, connect_timeout=30)

        async def main() -> None:
            async with hub_of(server_target) as hub, Run(hub) as run:
                call = asyncio.create_task(run.call("s", "echo", {}))
                listing = asyncio.create_task(hub.tools("s"))
                await server.awaited(lambda log: log)
                call.cancel()
                listing.cancel()
                await asyncio.wait([call, listing])
                assert call.cancelled()
                assert listing.cancelled()

        begun = time.monotonic()
        clean(main)
        assert time.monotonic() - begun < 15


@MODES
def test_a_host_that_ends_while_calls_are_open_leaves_nothing(apps: Served, protocol: str) -> None:
    async def main() -> None:
        async with hub_of(target(url=apps.url, protocol=protocol, session="host")) as hub:
            run = Run(hub).sessions
            calls = [asyncio.create_task(run.call("s", *SLOW)) for _ in range(3)]
            await started(apps)
        await asyncio.wait(calls)
        assert {type(call.exception()) for call in calls} == {McpFailure}
        with pytest.raises(ConnectFailed, match="the host ends"):
            await hub.open("s")

    clean(main)


def test_a_stalled_delete_delays_nothing_but_the_end(odd: Odd) -> None:
    with odd("stalls-on-delete") as server, logged() as log:

        async def main() -> None:
            async with hub_of(target(url=server.url, protocol="legacy")) as hub:
                run = Run(hub)
                begun = time.monotonic()
                assert text(await run.sessions.call("s", "echo", {"text": "hi"})) == "hi"
                assert time.monotonic() - begun < 2.5
                begun = time.monotonic()
                await run.__aexit__()
            assert 2.5 < time.monotonic() - begun < 6

        clean(main)
        assert [each["method"] for each in server.requests(method="DELETE")] == ["DELETE"]
        assert not [line for line in log if "ERROR" in line]


def test_closing_twice_at_once_and_giving_up_closing_is_fine(apps: Served) -> None:
    async def main() -> None:
        async with hub_of(target(url=apps.url, protocol="legacy")) as hub:
            first, second = await hub.open("s"), await hub.open("s")
            await asyncio.gather(first.close(), first.close())
            await first.close()
            assert not first.is_open
            closing = asyncio.create_task(second.close())
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait([closing])

    clean(main)
    assert len(apps.requests(method="DELETE")) == 2


def test_the_session_of_a_handshake_that_fails_is_ended(odd: Odd) -> None:
    with odd("bad-json", where="initialize") as server:

        async def main() -> None:
            async with hub_of(target(url=server.url, protocol="legacy")) as hub:
                with pytest.raises(ConnectFailed, match="could not be reached"):
                    await hub.open("s")

        clean(main)
        assert [each["status"] for each in server.requests(method="DELETE")] == [200]


# Servers that die ----------------------------------------------------------------------------
@OVER
def test_a_server_that_dies_in_a_call_fails_it_at_once(over: str) -> None:
    with odd_server("dies-in-call") as server:
        url = server.url if over == "http" else server.sse_url
        mine = target(url=url, type=over, session="host", connect_timeout=2)

        async def main() -> None:
            async with hub_of(mine) as hub, Run(hub) as run:
                with pytest.raises(McpFailure, match="ended during the call") as caught:
                    await run.call("s", "echo", {})
                assert caught.value.executed
                await asyncio.to_thread(server.process.wait, 20)
                with pytest.raises(McpFailure, match="could not be reached") as caught:
                    await run.call("s", "echo", {})
                assert not caught.value.executed

        begun = time.monotonic()
        clean(main)
        assert time.monotonic() - begun < 15


@pytest.mark.parametrize("how", ["clean", "abrupt", "resumable"])
def test_a_call_whose_answer_is_cut_harms_no_other(odd: Odd, how: str) -> None:
    with odd("drops-connection", how=how) as server:

        async def main() -> None:
            async with hub_of(target(url=server.url, session="host")) as hub, Run(hub) as run:
                session = await run.session("s")
                with pytest.raises(McpFailure, match="ended during the call") as caught:
                    await run.call("s", "echo", {})
                assert caught.value.executed
                assert (await session.read_resource("ui://clock/app.html")).contents
                assert await run.session("s") is session

        clean(main)
        assert len(server.requests("tools/call")) == 1


def test_a_stream_of_sse_that_is_cut_ends_its_session_and_the_next_call_opens_another(
    odd: Odd,
) -> None:
    with odd("drops-connection") as server:
        mine = target(url=server.sse_url, type="sse", session="host", protocol="legacy")

        async def main() -> None:
            async with hub_of(mine) as hub, Run(hub) as run:
                session = await run.session("s")
                with pytest.raises(McpFailure, match="ended during the call"):
                    await run.call("s", "echo", {})
                assert not session.is_open
                assert (await (await run.session("s")).tools())[0].name == "echo"

        clean(main)
        assert len(server.requests("initialize")) == 2
        assert len(server.requests("tools/call")) == 1


def test_a_post_of_sse_that_fails_ends_its_session_at_once() -> None:
    with odd_server("redirect", after=2) as server:
        mine = target(url=server.sse_url, type="sse", session="host", protocol="legacy")

        async def main() -> None:
            async with hub_of(mine) as hub, Run(hub) as run:
                with pytest.raises(McpFailure, match="ended during the call"):
                    await run.call("s", "echo", {})

        begun = time.monotonic()
        clean(main)
        assert time.monotonic() - begun < 15


def test_a_call_is_tried_again_when_the_server_has_forgotten_the_session() -> None:
    with odd_server("no-session-after", after=4) as server:
        mine = target(url=server.url, protocol="legacy", session="host")

        async def main() -> None:
            async with hub_of(mine) as hub, Run(hub) as run:
                for word in ("one", "two", "three", "four"):
                    assert text(await run.call("s", "echo", {"text": word})) == word

        clean(main)
        said = [each["params"]["arguments"]["text"] for each in server.requests("tools/call")]
        assert said == ["one", "two", "three", "three", "four"]
        assert len(server.requests("initialize")) == 2


def test_a_listing_is_tried_again_when_the_server_has_forgotten_the_session() -> None:
    with odd_server("no-session-after", after=3) as server:
        clock = FakeClock()
        mine = target(url=server.url, protocol="legacy", session="host")

        async def main() -> None:
            async with hub_of(mine, clock=clock) as hub:
                assert names(await hub.tools("s")) == ["echo", "clock"]
                await clock.advance(301)
                assert names(await hub.tools("s")) == ["echo", "clock"]

        clean(main)
        assert len(server.requests("initialize")) == 2


# Listings ------------------------------------------------------------------------------------
@MODES
@pytest.mark.parametrize(
    ("transport", "session"),
    [("http", "run"), ("sse", "run"), ("http", "host"), ("sse", "host"), ("stdio", "host")],
)
def test_a_listing_is_kept_until_the_server_says_that_it_has_changed(
    changing: Mapping[str, Mapping[str, Any]], transport: str, session: str, protocol: str
) -> None:
    clock, later = FakeClock(), f"{transport}-{session}-{protocol}"

    async def main() -> None:
        mine = target(protocol=protocol, session=session, **changing[transport])
        async with hub_of(mine, clock=clock) as hub, Run(hub) as run:
            before = await hub.tools("s")
            await clock.advance(100_000)
            assert await hub.tools("s") is before
            await run.call("s", "grow", {"name": later})
            await until(lambda: is_there(hub, later))
            after = await hub.tools("s")
            await clock.advance(100_000)
            assert await hub.tools("s") is after

    clean(main)


@pytest.mark.parametrize("session", ["run", "host"])
def test_a_promise_to_tell_of_changes_is_not_believed_without_a_stream(
    odd: Odd, session: str
) -> None:
    with odd("promises-changes") as server:
        clock = FakeClock()

        async def main() -> None:
            async with hub_of(target(url=server.url, session=session), clock=clock) as hub:
                first = await hub.tools("s")
                await clock.advance(299)
                assert await hub.tools("s") is first
                await clock.advance(2)
                await hub.tools("s")

        clean(main)
        assert len(server.requests("tools/list")) == 2


async def is_there(hub: Hub, tool: str) -> bool:
    return tool in names(await hub.tools("s"))


@pytest.fixture(scope="module")
def changing() -> Iterator[Mapping[str, Mapping[str, Any]]]:
    """Servers whose tools may change, by the way in which they speak."""
    command, *args = stdio_command()
    with python_server() as http, python_server("--transport", "sse") as sse:
        yield {
            "http": {"url": http.url},
            "sse": {"url": sse.url, "type": "sse"},
            "stdio": {"command": command, "args": args},
        }
