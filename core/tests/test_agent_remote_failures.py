"""The remote agent, against real servers that answer badly, late or never."""

from __future__ import annotations

import asyncio
import html
import json
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
)
from raw_server import Answering, Asked, Handler, frames, says, serving
from relaying import SECRET, TEXT, answers, failed, once, relayed

from interpose import (
    Host,
    InvalidStream,
    RemoteFailed,
    RemoteUnavailable,
    RunResult,
    Transient,
    TruncatedStream,
    middleware,
)
from interpose.agents.masking import masked

BODY = f"the database of {SECRET} is down\nat line 7"


def answering(status: str, body: str = BODY, **headers: str) -> Handler:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.whole(status, body, **headers)

    return handler


@pytest.mark.parametrize(
    ("status", "told", "transient"),
    [
        ("400 Nope", "400 (Bad Request)", False),
        ("401 Nope", "401 (Unauthorized)", False),
        ("403 Nope", "403 (Forbidden)", False),
        ("404 Nope", "404 (Not Found)", False),
        ("429 Nope", "429 (Too Many Requests)", True),
        ("500 Nope", "500 (Internal Server Error)", False),
        ("502 Nope", "502 (Bad Gateway)", True),
        ("503 Nope", "503 (Service Unavailable)", True),
        ("504 Nope", "504 (Gateway Timeout)", True),
        ("599 Nope", "599", False),
        ("202 Nope", "202 (Accepted)", False),
    ],
)
def test_a_status_is_a_failure_and_the_body_is_the_operator_s(
    status: str,
    told: str,
    transient: bool,  # noqa: FBT001 - a parameter of the test
    logged: list[str],
) -> None:
    error = failed(answering(status), {"headers": {"authorization": SECRET}})
    assert error.message == f"The remote agent answered with HTTP {told}."
    assert error.status == int(status[:3])
    assert isinstance(error, Transient) is transient
    assert error.code == ("remote-unavailable" if transient else "remote-failed")
    [line] = [line for line in logged if "the database" in line]
    assert line.startswith("WARNING HTTP ")
    assert "the database of *** is down at line 7" in line
    assert "sk-0123456789" not in "".join(logged)


def test_the_consumer_is_told_status_and_code_alone() -> None:
    async def main() -> list[BaseEvent]:
        async with relayed(answering("503 Nope")) as (host, _):
            return [event async for event in host.run("hi")]

    [event] = [event.model_dump() for event in asyncio.run(main()) if event.type == "RUN_ERROR"]
    assert event["code"] == "remote-unavailable"
    assert event["message"] == "The remote agent answered with HTTP 503 (Service Unavailable)."


def test_only_the_beginning_of_a_long_body_is_logged(logged: list[str]) -> None:
    failed(answering("500 Nope", "x" * 1_000_000))
    [line] = [line for line in logged if "xxx" in line]
    assert 1900 < len(line) < 2200


@pytest.mark.parametrize("times", [1, 1000])
@pytest.mark.parametrize("at", range(12))
def test_a_secret_that_the_body_echoes_is_not_cut_in_two(
    at: int, times: int, logged: list[str]
) -> None:
    odd = f'key="{SECRET.removeprefix("Bearer ")}"'
    body = "x" * at + json.dumps({"sent": odd}) * times
    failed(answering("500 Nope", body), {"headers": {"x-key": odd}})
    assert any("HTTP 500" in line for line in logged)
    assert "sk-" not in "".join(logged)


def test_a_body_that_never_comes_does_not_hold_the_failure_back() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.raw("HTTP/1.1 500 Nope\r\nContent-Length: 100\r\n\r\nhalf")
        await answer.closed()

    begun = time.monotonic()
    assert failed(handler).status == 500
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("value", "expected"),
    [("7", 7.0), (" 0 ", 0.0), ("soon", None), ("-1", None), ("", None), ("1e9", None)],
)
def test_retry_after_in_seconds_is_passed_on(value: str, expected: float | None) -> None:
    error = failed(answering("429 Nope", retry_after=value))
    assert isinstance(error, RemoteUnavailable)
    assert error.retry_after == expected


def test_retry_after_may_be_a_date() -> None:
    stamp = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 100))
    error = failed(answering("503 Nope", retry_after=stamp))
    assert isinstance(error, RemoteUnavailable)
    assert error.retry_after is not None
    assert 80 < error.retry_after < 101
    error = failed(answering("503 Nope", retry_after="Sun, 06 Nov 1994 08:49:37 GMT"))
    assert isinstance(error, RemoteUnavailable)
    assert error.retry_after == 0.0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused(status: int, logged: list[str]) -> None:
    hits: list[str] = []

    async def elsewhere(asked: Asked, answer: Answering) -> None:
        hits.append(asked.line)
        await answers(asked, answer)

    async def main() -> RunResult:
        async with serving(elsewhere) as other:
            handler = answering(f"{status} Moved", location=other.url)
            async with relayed(handler, settings={"headers": {"x-key": SECRET}}) as (host, _):
                return await host.run("hi")

    error = asyncio.run(main()).error
    assert isinstance(error, RemoteFailed)
    assert not isinstance(error, Transient)
    assert error.message == (
        f"The remote agent redirects (HTTP {status}), and redirects are not followed."
    )
    assert hits == []
    assert any("location http://127.0.0.1" in line for line in logged), "the operator sees where to"


@pytest.mark.parametrize("kind", ["application/json", "text/html; charset=utf-8", ""])
def test_an_answer_that_is_no_stream_of_events_is_a_failure(kind: str) -> None:
    error = failed(answering("200 OK", content_type=kind))
    assert error.message == (
        "The remote agent answered, but not with a stream of events (text/event-stream)."
    )
    assert not isinstance(error, Transient)


def test_parameters_and_case_of_the_content_type_do_not_matter() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        body = frames(asked.whole()).decode()
        await answer.whole("200 OK", body, content_type="Text/Event-Stream;charset=UTF-8")

    assert once(handler)[0].text == "hello"


def test_a_host_that_does_not_answer_is_a_transient_failure(logged: list[str]) -> None:
    async def main() -> RunResult:
        async with serving(answers) as server:
            url = server.url
        async with Host(overrides={"agent": {"use": "remote", "url": url}}) as host:
            return await host.run("hi")

    error = asyncio.run(main()).error
    assert isinstance(error, RemoteUnavailable)
    assert error.message == "The remote agent could not be reached."
    assert any("ConnectError" in line for line in logged)


def test_a_host_that_is_silent_is_a_transient_failure() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.closed()

    error = failed(handler, {"idle_timeout": 0.1})
    assert isinstance(error, RemoteUnavailable)
    assert error.message == "The remote agent was silent for too long."


def test_silence_in_the_middle_is_too_and_heartbeats_are_no_silence() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        await answer.chunk(frames([asked.started()]))
        for _ in range(6):
            await asyncio.sleep(0.25)
            await answer.chunk(b": ping\n\n")
        if asked.input["messages"][0]["content"] == "stop":
            await answer.closed()
        await answer.chunk(frames([asked.finished()]))
        await answer.end()

    settings = {"idle_timeout": 1.0}
    assert once(handler, "go on", settings)[0].outcome == "success"
    error = once(handler, "stop", settings)[0].error
    assert isinstance(error, RemoteUnavailable)
    assert error.message == "The remote agent was silent for too long."


def test_a_connection_that_breaks_in_the_middle_is_a_transient_failure() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        await answer.chunk(frames([asked.started(), *says("hal")[:2]]))
        raise StopAsyncIteration

    async def main() -> tuple[list[str], RunResult]:
        async with relayed(handler) as (host, _):
            run = host.run("hi")
            types = [event.type.value async for event in run]
            return types, await run

    types, result = asyncio.run(main())
    assert types == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_ERROR",
    ]
    assert isinstance(result.error, RemoteUnavailable)
    assert result.error.message == (
        "The connection to the remote agent broke in the middle of the run."
    )


def test_a_stream_that_ends_without_a_terminal_is_truncated(logged: list[str]) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        await answer.chunk(frames(asked.whole())[:-1])  # the last event lacks its blank line
        await answer.end()

    assert isinstance(once(handler)[0].error, TruncatedStream)
    assert any("no blank line followed it" in line for line in logged)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            b'data: {"type": oops}\n\n',
            "Event 1 of the stream is no JSON object: Expecting value (column 10).",
        ),
        (b"data: [1]\n\n", "Event 1 of the stream is no JSON object: it is an array."),
        (b"data: null\n\n", "Event 1 of the stream is no JSON object: it is null."),
        (b"data\n\n", "Event 1 of the stream is no JSON object: Expecting value (column 1)."),
        (b'data: {"type": NaN}\n\n', "Event 1 of the stream is no JSON object: it has no NaN."),
        (
            b"data: " + b"[" * 100_000 + b"\n\n",
            "Event 1 of the stream is no JSON object: it is nested too deeply.",
        ),
    ],
)
def test_what_is_no_event_is_malformed(data: bytes, told: str) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        await answer.chunk(frames([asked.started()]) + data + frames([asked.finished()]))
        await answer.end()

    error = once(handler)[0].error
    assert isinstance(error, InvalidStream)
    assert (error.message, error.rule) == (told, "malformed-value")


def test_an_event_is_bounded() -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        await answer.chunk(frames([asked.started(), *says("x" * 5000)]))
        await answer.closed()

    error = once(handler, settings={"max_event_bytes": 1000})[0].error
    assert isinstance(error, InvalidStream)
    assert error.rule == "event-too-long"


def test_a_layer_can_try_again_after_a_transient_failure() -> None:
    @middleware
    async def retry(ctx: Any, run_input: RunAgentInput, call_next: Any) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        except Transient as error:
            waits.append(error.retry_after)
            async for event in call_next(run_input):
                yield event

    retry.may_repeat = True
    waits: list[float | None] = []
    tries = 0

    async def handler(asked: Asked, answer: Answering) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            await answer.whole("503 Nope", retry_after="1")
        else:
            await answers(asked, answer)

    assert once(handler, layers=[retry])[0].text == TEXT
    assert waits == [1.0]


ODD = "pa/ss\"word'&<x> +9=%25\\é"


@pytest.mark.parametrize(
    "form",
    [
        ODD,
        ODD.upper(),
        json.dumps(ODD)[1:-1],
        json.dumps(ODD)[1:-1].replace("/", "\\/"),
        "".join(f"\\u{ord(each):04X}" for each in ODD),
        quote(ODD),
        quote(ODD, safe="").lower(),
        quote_plus(ODD),
        html.escape(ODD),
        html.escape(ODD, quote=False),
        html.escape(ODD).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
        html.escape(json.dumps(ODD)[1:-1]).replace("&#x27;", "'"),
        b64encode(ODD.encode()).decode().rstrip("="),
        urlsafe_b64encode(ODD.encode()).decode().rstrip("="),
    ],
)
def test_a_secret_is_masked_in_whatever_form_an_answer_repeats_it(form: str) -> None:
    assert masked(f"you sent {form}, friend", [ODD]) == "you sent ***, friend"
    assert masked(f"you sent {form[:-1]}", [ODD]) == "you sent ***"


def test_the_beginning_of_a_secret_is_masked_and_each_of_its_words() -> None:
    value = "Token abcdefghijkl"
    inner = b64encode(b"abcdefghijkl").decode()
    assert masked("abcdefgh... was sent", [value]) == "***... was sent"
    assert masked("abcdefg... was sent", [value]) == "abcdefg... was sent"
    assert masked(f"a {inner}, b", [value]) == "a ***, b"
    assert masked("it ends in abcd", [value]) == "it ends in ***"


def test_a_failure_that_says_nothing_is_logged_by_its_name(logged: list[str]) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.closed()

    failed(handler, {"idle_timeout": 0.2})
    assert any(line.startswith("WARNING ReadTimeout") for line in logged)
    assert not any("ReadTimeout:" in line for line in logged)
