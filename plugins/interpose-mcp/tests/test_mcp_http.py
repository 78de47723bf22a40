"""The HTTP client of a server: what it sends, what it takes, and how long it waits."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from ssl import CERT_REQUIRED
from typing import Any

import httpx2
import pytest

from interpose_mcp.http import Fault, PinnedClient, Refused, SseClient, StreamableClient, tls_for
from interpose_mcp.settings import ServerSettings
from interpose_mcp.streams import Endpoint, Events
from interpose_mcp.target import target_of

Write = Callable[[asyncio.StreamWriter], Awaitable[None]]
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@asynccontextmanager
async def answering(*answers: bytes | Write) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve these answers, one for each connection; yields the address, and what was asked."""
    asked: list[str] = []
    left = list(answers)
    connections: set[asyncio.Task[Any] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.current_task())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            asked.append(head.decode())
            answer = left.pop(0)
            if isinstance(answer, bytes):
                writer.write(answer)
            else:
                await answer(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}/mcp", asked
        finally:
            for connection in connections:
                if connection is not None:
                    connection.cancel()


def answer(status: str, body: bytes = b"", **headers: str) -> bytes:
    named = {"content-length": str(len(body)), "connection": "close"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def stall(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


def all_options(url: str, **more: Any) -> dict[str, Any]:
    tls = tls_for(url, trust_env=False)
    told = {"most": 1000, "tls": tls, "trust_env": False, "connecting": 5, "silence": 30}
    return {**told, **more}


def streamable(url: str, gaps: list[str] | None = None, **more: Any) -> StreamableClient:
    told = gaps if gaps is not None else []
    return StreamableClient(
        url, {"x-key": "secret"}, on_gap=lambda: told.append("gap"), **all_options(url, **more)
    )


def over_sse(url: str, lost: list[BaseException], **more: Any) -> SseClient:
    return SseClient(url, {}, on_lost=lost.append, **all_options(url, **more))


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(bounded())


def fault_in(response: httpx2.Response) -> int:
    """Return what is wrong, as the SDK reads it."""
    assert response.is_error
    return int(response.json()["error"]["code"])


@pytest.mark.parametrize(
    ("answered", "fault"),
    [
        (answer("307 Temporary Redirect", location="http://127.0.0.1:1/"), Fault.REDIRECT),
        (answer("302 Found", location="/elsewhere"), Fault.REDIRECT),
        (answer("307 Temporary Redirect", location="http://[bad"), Fault.REDIRECT),
        (answer("304 Not Modified"), Fault.REDIRECT),
        (answer("200 OK", b"x", content_encoding="gzip"), Fault.COMPRESSED),
        (answer("200 OK", b"x" * 1001), Fault.TOO_LARGE),
        (answer("500 Bad", b"x" * 1001), Fault.TOO_LARGE),
        (answer("200 OK", b"short", content_length="10"), Fault.BROKEN),
        (b"rubbish\r\n\r\n", Fault.BROKEN),
        (b"", Fault.BROKEN),
        (answer("500 Bad", b"private"), Fault.STATUS),
        (answer("401 Unauthorized", b'{"error": "no"}'), Fault.STATUS),
        (answer("400 Bad", b"[" * 900), Fault.STATUS),
    ],
)
def test_what_is_wrong_with_an_answer_is_an_error_of_the_protocol(
    answered: bytes, fault: Fault
) -> None:
    async def main() -> None:
        async with answering(answered) as (url, asked), streamable(url) as client:
            assert fault_in(await client.post(url, json=REQUEST)) == fault
            assert len(asked) == 1
            assert client.is_closed is False

    run(main)


def test_an_error_of_the_protocol_is_taken_as_it_is() -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no"}})

    async def main() -> None:
        told = answer("400 Bad", body.encode(), content_type="application/json")
        async with answering(told) as (url, _), streamable(url) as client:
            response = await client.post(url, json=REQUEST)
            assert (response.status_code, fault_in(response)) == (400, -32602)
            assert response.headers["content-type"] == "application/json"

    run(main)


def test_a_session_that_is_gone_is_known_whatever_the_server_says_to_it() -> None:
    body = json.dumps({"error": {"code": -32000, "message": "Session not found"}}).encode()

    async def main() -> None:
        told = answer("404 Not Found", body, content_type="application/json")
        async with answering(told, told) as (url, _), streamable(url) as client:
            headers = {"mcp-session-id": "1"}
            gone = await client.post(url, json=REQUEST, headers=headers)
            assert fault_in(gone) == Fault.SESSION_GONE
            assert fault_in(await client.post(url, json=REQUEST)) == -32000

    run(main)


def test_a_server_that_is_not_there_was_asked_nothing() -> None:
    async def main() -> None:
        async with answering() as (url, _):
            pass
        async with streamable(url) as client:
            assert fault_in(await client.post(url, json=REQUEST)) == Fault.NOT_SENT
            with pytest.raises(httpx2.ConnectError):
                await client.post(url, json=REQUEST, headers={"mcp-method": "server/discover"})

    run(main)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("change", ["host", "port", "scheme"])
def test_nothing_is_sent_to_another_origin(method: str, change: str) -> None:
    async def main() -> None:
        async with answering() as (url, asked), streamable(url) as client:
            own = httpx2.URL(url)
            other = {
                "host": own.copy_with(host="localhost"),
                "port": own.copy_with(port=1),
                "scheme": own.copy_with(scheme="https"),
            }[change]
            with pytest.raises(Refused, match="another origin") as caught:
                await client.request(method, other)
            assert caught.value.fault == Fault.ORIGIN
            assert "secret" not in f"{caught.value}{caught.value!r}{client!r}"
            assert asked == []

    run(main)


def test_an_origin_has_one_spelling() -> None:
    async def main() -> None:
        async with (
            answering(answer("200 OK")) as (url, asked),
            streamable(url.replace("http", "HTTP")) as client,
        ):
            await client.post(url, json=REQUEST)
        assert len(asked) == 1
        url = "https://Bücher.example:443/"
        pinned = PinnedClient(url, {}, **all_options(url))
        assert str(pinned.address.copy_with(path="/")) == "https://xn--bcher-kva.example/"

    run(main)


@pytest.mark.parametrize("how", ["silent", "no body"])
def test_a_delete_has_three_seconds_for_all_it_does(how: str) -> None:
    async def no_body(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(30)

    async def main() -> None:
        stalls = stall if how == "silent" else no_body
        async with answering(stalls) as (url, _), streamable(url) as client:
            begun = time.monotonic()
            if how == "silent":
                with pytest.raises(httpx2.ReadTimeout, match="the DELETE took too long"):
                    await client.delete(url)
                assert 2.9 < time.monotonic() - begun < 8
            else:  # what it says does not matter
                assert (await client.delete(url)).status_code == 200
                assert time.monotonic() - begun < 2.9

    run(main)


def test_certificates_are_checked_and_read_once_for_all_sessions() -> None:
    secure = tls_for("https://example.org/", trust_env=False)
    assert (secure.verify_mode, secure.check_hostname) == (CERT_REQUIRED, True)
    assert secure.cert_store_stats()["x509_ca"] > 0
    plain = tls_for("http://example.org/", trust_env=False)
    assert (plain.verify_mode, plain.check_hostname) == (CERT_REQUIRED, True)
    assert plain.cert_store_stats()["x509_ca"] == 0
    assert tls_for("http://h/", trust_env=True).cert_store_stats()["x509_ca"] > 0
    target = target_of("s", ServerSettings(url="https://example.org/"), Path())
    assert target.tls is not None


# Streams -------------------------------------------------------------------------------------
def test_a_stream_on_which_the_server_tells_of_changes_is_known() -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def stream(writer: asyncio.StreamWriter) -> None:
            writer.write(STREAM + b"data: {}\n\n")
            await writer.drain()
            await go.wait()

        begin = answer("200 OK", b"{}", mcp_session_id="1", content_type="application/json")
        gaps: list[str] = []
        async with answering(begin, stream) as (url, _), streamable(url, gaps) as client:
            await client.listen()  # no session, no stream
            await client.post(url, json=REQUEST)
            listening = asyncio.create_task(client.listen())
            await asyncio.sleep(0)
            assert not listening.done()
            request = client.build_request("GET", url)
            response = await client.send(request, stream=True)
            await listening
            assert (client.hears, gaps) == (True, ["gap"])
            go.set()
            assert b"".join([chunk async for chunk in response.aiter_bytes()]) == b"data: {}\n\n"
            await response.aclose()
            assert (client.hears, gaps) == (False, ["gap", "gap"])

    run(main)


def test_a_server_may_refuse_to_tell_of_changes() -> None:
    async def main() -> None:
        begin = answer("200 OK", b"{}", mcp_session_id="1", content_type="application/json")
        moved = answer("307 Temporary Redirect", location="/there")
        async with answering(begin, moved) as (url, _), streamable(url) as client:
            await client.post(url, json=REQUEST)
            response = await client.send(client.build_request("GET", url), stream=True)
            assert response.status_code == 405
            await client.listen()
            assert not client.hears

    run(main)


def events(chunks: list[bytes], *, most: int = 20, check: Any = None) -> list[Any]:
    """Read a stream to its end; returns what came, and how it ended."""
    came: list[Any] = []

    class Body(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

    async def main() -> None:
        first = None if check is None else Endpoint(check)
        stream = Events(
            httpx2.Response(200, stream=Body()),
            most,
            first,
            ended=lambda error: came.append(type(error)),
        )
        try:
            async for chunk in stream:
                came.append(chunk)  # noqa: PERF401 - what came before an error counts
        except httpx2.ReadError as error:
            came.append(str(error))
        await stream.aclose()

    run(main)
    return came


@pytest.mark.parametrize("blank", [b"\n\n", b"\r\r", b"\r\n\r\n"])
def test_an_event_has_its_largest_size_and_a_stream_has_none(blank: bytes) -> None:
    whole = (b"data: 123456" + blank) * 10
    for size in (1, 2, 3, 7, 1000):
        parts = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert events(parts) == [*parts, type(None)]
    told = "an event is larger than 20 bytes"
    assert events([b"data: 1" + blank, b"data: " + b"x" * 30])[1:] == [httpx2.ReadError, told]
    assert events([b"x"] * 30)[-2:] == [httpx2.ReadError, told]


@pytest.mark.parametrize("line", [b"\n", b"\r", b"\r\n"])
def test_the_endpoint_is_seen_however_it_comes(line: bytes) -> None:
    whole = line.join([b": hi", b"event: endpoint", b"data: /messages?a=1", b"", b"data: /2", b""])
    for size in (1, 5, 1000):
        seen: list[str] = []
        parts = [whole[at : at + size] for at in range(0, len(whole), size)]
        events(parts, most=1000, check=seen.append)
        assert seen == ["/messages?a=1"]


@pytest.mark.parametrize(
    ("named", "refused"),
    [
        (b"/messages", False),
        (b"messages?x=//other", False),
        (b"http://127.0.0.1:1/messages", True),
        (b"//other.example/messages", True),
        (b"https://127.0.0.1/messages", True),
        (b"http://user:pw@other.example/", True),
    ],
)
def test_an_endpoint_of_another_origin_is_refused(named: bytes, *, refused: bool) -> None:
    async def main() -> None:
        lost: list[BaseException] = []
        told = STREAM + b"event: endpoint\ndata: " + named + b"\n\n"
        async with answering(told) as (url, _), over_sse(url, lost) as client:
            response = await client.send(client.build_request("GET", url), stream=True)
            if refused:
                with pytest.raises(Refused, match="endpoint of another origin"):
                    await response.aread()
            else:
                await response.aread()
            await response.aclose()
            assert [type(error) for error in lost] == [Refused] * refused

    run(main)


@pytest.mark.parametrize(
    "answered",
    [
        answer("500 Bad"),
        answer("404 Not Found"),
        answer("307 Temporary Redirect", location="/x"),
        answer("202 Accepted", b"x" * 2000),
        b"",
    ],
)
def test_a_message_of_sse_that_is_not_taken_ends_the_session(answered: bytes) -> None:
    async def main() -> None:
        lost: list[BaseException] = []
        async with answering(answered) as (url, _), over_sse(url, lost) as client:
            with pytest.raises(httpx2.TransportError):
                await client.post(url, json=REQUEST)
            assert len(lost) == 1

    run(main)
