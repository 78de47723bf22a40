"""The remote agent, against real servers: what is read, sent, cancelled and configured."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ag_ui.core import (
    PROTOCOL_VERSION,
    ActivityMessage,
    BaseEvent,
    RunAgentInput,
    UserMessage,
)
from raw_server import Answering, Asked, RawServer, frames, says, serving
from relaying import SECRET, TEXT, answers, failed, once, relayed

from interpose import (
    CREDENTIALS,
    Host,
    RemoteFailed,
    RemoteUnavailable,
    RunResult,
    middleware,
)


@dataclass(frozen=True)
class Token:
    scheme: str
    token: str


@pytest.mark.parametrize("size", [1, 2, 7, 100_000])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_stream_is_read_however_its_bytes_are_split(size: int, newline: str) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        head = f"\ufeff: hello{newline}{newline}event: message{newline}id: 1{newline}".encode()
        data = head + frames(asked.whole(TEXT), newline)
        await answer.begin()
        for at in range(0, len(data), size):
            await answer.chunk(data[at : at + size])
            if not at % 50:
                await asyncio.sleep(0)
        await answer.end()

    result, _ = once(handler)
    assert (result.outcome, result.text) == ("success", TEXT)


def test_pieces_that_come_apart_in_time_are_put_together() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        data = frames(asked.whole("ü"), "\r\n")
        at = data.index("ü".encode()) + 1  # inside the character
        for piece in (data[:at], data[at:-3], data[-3:]):  # and between CR and LF
            await answer.chunk(piece)
            await asyncio.sleep(0.02)
        await answer.end()

    assert once(handler)[0].text == "ü"


def test_data_over_several_lines_is_one_event() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        lines = json.dumps(asked.started(), indent=1).splitlines()
        await answer.begin()
        await answer.chunk(("\n".join(f"data: {line}" for line in lines) + "\n\n").encode())
        await answer.chunk(frames([*says("hello"), asked.finished()]))
        await answer.end()

    assert once(handler)[0].text == "hello"


def test_unknown_content_is_stripped_and_older_forms_are_read(logged: list[str]) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.stream(
            [
                {**asked.started(), "novel": 1},
                {"type": "NOVEL"},
                {"type": "THINKING_START"},
                {"type": "THINKING_END"},
                *says("hello"),
                asked.finished(),
            ]
        )

    result, _ = once(handler)
    assert (result.outcome, result.text) == ("success", "hello")
    told = "".join(logged)
    assert "RUN_STARTED: removed novel" in told
    assert "dropped an event of unknown type: NOVEL" in told
    assert "THINKING" in told


def test_layers_see_whole_events_of_the_remote_agent() -> None:
    @middleware
    async def shout(ctx: Any, run_input: RunAgentInput, call_next: Any) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            loud = {"delta": event.delta.upper()} if hasattr(event, "delta") else {}
            yield event.model_copy(update=loud)

    async def handler(asked: Asked, answer: Answering) -> None:
        chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "hello"}
        await answer.stream([asked.started(), chunk, asked.finished()])

    assert once(handler, layers=[shout])[0].text == "HELLO"


# -- what is sent -------------------------------------------------------------------------------


def test_the_input_is_sent_as_it_is_but_for_version_and_activities() -> None:
    forwarded = {"a": None, "snake_case": [1, {"deep": None}]}
    given = RunAgentInput(
        thread_id="t",
        run_id="r",
        state={"x": None},
        messages=[
            UserMessage(id="1", content="hi"),
            ActivityMessage(id="2", activity_type="plan", content={"x": 1}),
        ],
        forwarded_props=forwarded,
    )
    result, server = once(answers, given, {"headers": {"X-Tenant": "acme"}})
    assert result.outcome == "success"
    [asked] = server.asked
    assert asked.line == "POST /agent HTTP/1.1"
    assert asked.input == {
        "threadId": "t",
        "runId": "r",
        "protocolVersion": PROTOCOL_VERSION,
        "state": {"x": None},
        "messages": [{"id": "1", "role": "user", "content": "hi"}],
        "forwardedProps": forwarded,
    }
    assert asked.headers["accept"] == "text/event-stream"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.headers["x-tenant"] == "acme"
    assert len(given.messages) == 2, "the input itself is not changed"


def test_the_version_of_an_older_client_is_passed_on() -> None:
    given = {"threadId": "t", "runId": "r", "messages": [], "protocolVersion": "0.9"}
    _, server = once(answers, given)
    assert server.asked[0].input["protocolVersion"] == "0.9"


def test_an_input_that_is_no_json_is_not_sent() -> None:
    given = RunAgentInput(thread_id="t", run_id="r", messages=[], state={"x": object()})
    result, server = once(answers, given)
    assert isinstance(result.error, RemoteFailed)
    assert result.error.message == (
        "The input of the run holds a value that cannot be written as JSON."
    )
    assert server.asked == []


def test_cookies_do_not_go_from_one_run_to_another() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.raw(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nSet-Cookie: session=ada\r\n"
            "Transfer-Encoding: chunked\r\n\r\n"
        )
        await answer.chunk(frames(asked.whole()))
        await answer.end()

    async def main() -> RawServer:
        async with relayed(handler) as (host, server):
            await host.run("one")
            await host.run("two")
            return server

    assert [asked.headers.get("cookie") for asked in asyncio.run(main()).asked] == [None, None]


def test_the_credentials_of_the_run_take_the_place_of_the_host_s(logged: list[str]) -> None:
    async def main() -> list[str | None]:
        settings = {"headers": {"Authorization": SECRET}}
        async with relayed(answers, settings=settings, provides=[CREDENTIALS]) as (host, server):
            await host.run("hi", provide={CREDENTIALS: Token("Bearer", "users-own-token")})
            return [asked.headers.get("authorization") for asked in server.asked]

    assert asyncio.run(main()) == ["Bearer users-own-token"]
    assert "users-own-token" not in "".join(logged)


def test_without_credentials_the_configured_header_is_sent() -> None:
    _, server = once(answers, settings={"headers": {"authorization": SECRET}})
    assert server.asked[0].headers["authorization"] == SECRET


@pytest.mark.parametrize(
    "credentials",
    [Token("Bearer", "a\r\nX-Admin: 1"), Token("Two words", "x"), Token("Bearer", "")],
)
def test_credentials_that_would_break_out_of_their_header_are_not_sent(credentials: Token) -> None:
    result, server = once(
        answers, provides=[CREDENTIALS], run={"provide": {CREDENTIALS: credentials}}
    )
    assert isinstance(result.error, RemoteFailed)
    assert result.error.message == "The credentials of the run cannot be sent as an HTTP header."
    assert server.asked == []


def test_the_proxy_of_the_environment_is_used_only_if_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    assert once(answers)[0].text == TEXT
    assert isinstance(failed(answers, {"trust_env": True}), RemoteUnavailable)


# -- cancellation and the pool ------------------------------------------------------------------


@pytest.mark.parametrize("begun", [False, True], ids=["before the answer", "in the middle"])
def test_a_cancelled_run_closes_the_connection_at_once(begun: bool) -> None:  # noqa: FBT001
    reached = asyncio.Event()

    async def handler(asked: Asked, answer: Answering) -> None:
        if begun:
            await answer.begin()
            await answer.chunk(frames([asked.started()]))
        reached.set()
        await answer.closed()
        raise StopAsyncIteration

    async def main() -> tuple[RunResult, float]:
        async with relayed(handler) as (host, server):
            others = asyncio.all_tasks()
            run = host.run("hi")
            playing = asyncio.ensure_future(_all(run))
            await reached.wait()
            await asyncio.sleep(0.05)
            cancelled = time.monotonic()
            run.cancel("enough")
            await server.gone.wait()
            took = time.monotonic() - cancelled
            await playing
            await asyncio.sleep(0)
            assert asyncio.all_tasks() - others <= set(_own(server))
            return await run, took

    result, took = asyncio.run(main())
    assert result.outcome == "cancelled"
    assert took < 1.0


async def _all(run: Any) -> list[BaseEvent]:
    return [event async for event in run]


def _own(_server: RawServer) -> Iterator[asyncio.Task[Any]]:
    """The tasks of the server's own connections."""
    return (task for task in asyncio.all_tasks() if "connection" in repr(task.get_coro()))


def test_a_task_that_is_cancelled_closes_the_connection_too() -> None:
    reached = asyncio.Event()

    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        await answer.chunk(frames([asked.started()]))
        reached.set()
        await answer.closed()
        raise StopAsyncIteration

    async def main() -> None:
        async with relayed(handler) as (host, server):
            playing = asyncio.ensure_future(_all(host.run("hi")))
            await reached.wait()
            await asyncio.sleep(0.05)
            playing.cancel()
            await asyncio.wait([playing])
            await asyncio.wait_for(server.gone.wait(), 1)

    asyncio.run(main())


def test_a_server_that_goes_on_after_a_cancellation_holds_nothing_up() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        await answer.chunk(frames([asked.started(), *says("x")[:1]]))
        while True:
            await answer.chunk(frames(says("x")[1:2]))
            await asyncio.sleep(0.001)

    async def main() -> RunResult:
        async with relayed(handler) as (host, server):
            run = host.run("hi")
            seen = 0
            async for _ in run:
                seen += 1
                if seen == 10:
                    run.cancel("enough")
            await asyncio.wait_for(server.gone.wait(), 5)
            return await run

    assert asyncio.run(main()).outcome == "cancelled"


def test_many_runs_at_once_do_not_mix() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        name = asked.input["messages"][0]["content"]
        await answer.begin()
        for event in asked.whole(f"hello {name}"):
            await answer.chunk(frames([event]))
            await asyncio.sleep(0.001)
        await answer.end()

    async def main() -> tuple[list[str], RawServer]:
        async with relayed(handler) as (host, server):
            names = [str(number) for number in range(20)]
            results = await asyncio.gather(*(host.run(name) for name in names))
            assert all(result.outcome == "success" for result in results)
            return [str(result.text) for result in results], server

    texts, _ = asyncio.run(main())
    assert texts == [f"hello {number}" for number in range(20)]


def test_runs_one_after_the_other_share_a_connection_that_the_host_closes() -> None:
    async def main() -> None:
        async with serving(answers) as server:
            overrides = {"agent": {"use": "remote", "url": server.url}}
            async with Host(overrides=overrides) as host:
                for _ in range(3):
                    assert (await host.run("hi")).text == TEXT
                assert (server.connections, server.open) == (1, 1)
            await asyncio.wait_for(server.gone.wait(), 1)
            assert server.open == 0
            async with Host(overrides=overrides) as again:
                assert (await again.run("hi")).text == TEXT

    asyncio.run(main())
    gc.collect()  # a socket that was left open would warn now, and warnings are errors


def test_a_stream_that_goes_on_after_its_terminal_is_left() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        await answer.chunk(frames(asked.whole()))
        await answer.closed()
        raise StopAsyncIteration

    async def main() -> float:
        async with relayed(handler) as (host, server):
            begun = time.monotonic()
            assert (await host.run("hi")).text == "hello"
            await server.gone.wait()
            return time.monotonic() - begun

    assert asyncio.run(main()) < 2.0


def test_a_connection_that_breaks_after_the_terminal_is_no_failure(logged: list[str]) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        await answer.chunk(frames(asked.whole()))
        raise StopAsyncIteration

    assert once(handler)[0].outcome == "success"
    assert not [line for line in logged if line.startswith("ERROR")]


def test_a_compressed_stream_is_read_although_none_is_asked_for() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        packed = gzip.compress(frames(asked.whole(TEXT)))
        await answer.raw(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"
            f"Content-Length: {len(packed)}\r\n\r\n"
        )
        await answer.raw(packed)

    assert once(handler)[0].text == TEXT


def test_events_after_the_terminal_are_told_to_the_operator(logged: list[str]) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.stream([*asked.whole(), *asked.whole()])

    assert once(handler)[0].text == "hello"
    assert any("5 events came after the terminal" in line for line in logged)


def test_runs_wait_for_a_free_connection_and_not_for_ever() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        if asked.input["messages"][0]["content"] == "stay":
            reached.set()
            await answer.closed()
        await answers(asked, answer)

    reached = asyncio.Event()
    settings = {"max_connections": 1, "connect_timeout": 0.5}

    async def main() -> RunResult:
        async with relayed(handler, settings=settings) as (host, _):
            run = host.run("stay")
            staying = asyncio.ensure_future(_all(run))
            await reached.wait()
            second = await host.run("hi")
            run.cancel()
            await staying
            return second

    error = asyncio.run(main()).error
    assert isinstance(error, RemoteUnavailable)
    assert error.message == "No connection to the remote agent became free in time."
