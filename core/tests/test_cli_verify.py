"""``interpose verify``: recordings in any format, and endpoints."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from commandline import CommandLine
from raw_server import Answering, Asked, Handler, RawServer, frames, says, serving

START = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISH = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
CONTENT = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x"}


def lines(*events: Any) -> str:
    return "".join(f"{json.dumps(event)}\n" for event in events)


FORMATS: dict[str, Callable[..., str]] = {
    "lines": lines,
    "array": lambda *events: json.dumps(events, indent=1),
    "sse": lambda *events: frames(events).decode(),
    "crlf": lambda *events: frames(events, "\r\n").decode(),
}


# -- recordings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_a_valid_recording_of_any_format_is_ok(cli: CommandLine, form: str) -> None:
    cli.write(FORMATS[form](START, *says("hi"), FINISH), "run")
    done = cli("verify", "run")
    assert (done.code, done.out, done.err) == (0, "ok: run: 5 events\n", "")


def test_each_violation_is_told_with_event_line_and_rule(cli: CommandLine) -> None:
    cli.write(
        lines(CONTENT, START, CONTENT, {"type": "FUTURE"}, {**CONTENT, "delta": 7}, FINISH, FINISH),
        "run.jsonl",
    )
    done = cli("verify", "run.jsonl")
    assert done.code == 1
    assert done.err == ""
    assert done.out == (
        "error[first-event]: event 0: The first event is TEXT_MESSAGE_CONTENT, not RUN_STARTED.\n"
        "  at run.jsonl:1\n\n"
        "error[not-open]: event 0: TEXT_MESSAGE_CONTENT: no text message 'm' is open.\n"
        "  at run.jsonl:1\n\n"
        "error[run-active]: event 1: RUN_STARTED came while a run was active.\n"
        "  at run.jsonl:2\n\n"
        "error[not-open]: event 2: TEXT_MESSAGE_CONTENT: no text message 'm' is open.\n"
        "  at run.jsonl:3\n\n"
        "warning[tolerated]: event 3: dropped an event of unknown type: FUTURE\n"
        "  at run.jsonl:4\n\n"
        "error[malformed-value]: event 4: TEXT_MESSAGE_CONTENT is malformed: "
        "delta: Input should be a valid string\n"
        "  at run.jsonl:5\n\n"
        "error[run-finished]: event 6: RUN_FINISHED came after RUN_FINISHED had ended the run.\n"
        "  at run.jsonl:7\n\n"
        "run.jsonl: 7 events, 6 violations, 1 warning\n"
    )


def test_what_cannot_be_read_is_a_violation_and_no_crash(cli: CommandLine) -> None:
    cli.write(lines(START) + "oops\n7\n{}\n" + lines(FINISH), "run.jsonl")
    done = cli("verify", "run.jsonl")
    assert done.code == 1
    assert done.out.count("error[malformed-value]: event ") == 3
    assert "event 1: This is not JSON: Expecting value (column 1).\n  at run.jsonl:2\n" in done.out
    assert "event 3: This object has no `type`, so it is no event.\n  at run.jsonl:4" in done.out
    assert done.out.endswith("run.jsonl: 5 events, 3 violations\n")


@pytest.mark.parametrize("form", FORMATS)
def test_a_recording_that_stops_is_truncated(cli: CommandLine, form: str) -> None:
    cli.write(FORMATS[form](START, *says("hi")[:2]), "run")
    done = cli("verify", "run")
    assert done.code == 1
    assert done.out == (
        "error[truncated-stream]: The stream ended without RUN_FINISHED or RUN_ERROR. "
        "Still open: text message 'm'.\n"
        "  at run\n\n"
        "run: 3 events, 1 violation\n"
    )


def test_older_forms_are_warnings(cli: CommandLine) -> None:
    cli.write(lines(START, {"type": "THINKING_START"}, {"type": "THINKING_END"}, FINISH), "old")
    done = cli("verify", "old")
    assert done.code == 0
    assert done.out.startswith("warning[tolerated]: event 1: read THINKING_* events as REASONING_*")
    assert done.out.endswith("ok: old: 4 events, 1 warning\n")


def test_standard_input_is_a_recording_too(cli: CommandLine) -> None:
    done = cli("verify", "-", stdin=lines(START, CONTENT, FINISH))
    assert done.code == 1
    assert "  at standard input:2\n" in done.out
    assert done.out.endswith("standard input: 3 events, 1 violation\n")


def test_json_is_one_document(cli: CommandLine) -> None:
    cli.write(lines(START, CONTENT, {**FINISH, "novel": 1}), "run.jsonl")
    done = cli("verify", "run.jsonl", "--json")
    assert (done.code, done.err) == (1, "")
    assert json.loads(done.out) == {
        "ok": False,
        "events": 3,
        "violations": [
            {
                "index": 1,
                "rule": "not-open",
                "message": "TEXT_MESSAGE_CONTENT: no text message 'm' is open.",
                "where": "run.jsonl:2",
            }
        ],
        "warnings": [
            {
                "index": 2,
                "message": "RUN_FINISHED: removed novel, which AG-UI does not describe",
                "where": "run.jsonl:3",
            }
        ],
        "omitted": {"violations": 0, "warnings": 0},
        "failure": None,
    }


def test_json_lists_so_many_and_counts_the_rest(cli: CommandLine) -> None:
    cli.write(lines(START, *[CONTENT] * 1500, FINISH), "run.jsonl")
    told = json.loads(cli("verify", "run.jsonl", "--json").out)
    assert len(told["violations"]) == 1000
    assert told["omitted"] == {"violations": 500, "warnings": 0}


@pytest.mark.parametrize(
    ("argv", "code", "told"),
    [
        (["none.jsonl"], 1, "The recording cannot be read: No such file or directory."),
        (["."], 1, "The recording cannot be read: Is a directory."),
        (["run", "hello"], 2, "TEXT is for an endpoint, and run is a file."),
        (["run", "--input", "x"], 2, "--input is for an endpoint, and run is a file."),
        (["run", "--header-env", "A=B"], 2, "--header-env is for an endpoint, and run is a file."),
        (["http://x/", "hello", "--input", "-"], 2, "not allowed with argument"),
        (["http://x/", "--timeout", "0"], 2, "invalid number of seconds value: '0'"),
        (["http://x/", "--timeout", "soon"], 2, "invalid number of seconds value: 'soon'"),
        (["http://a:sk-1@x/"], 2, "The URL cannot be asked: it holds a user or a password"),
        (["http://x/", "--header", "sk-1"], 2, "--header has no =."),
        (["http://x/", "--header", "x y=sk-1"], 2, "'x y' is no name of a header."),
        (["http://x/", "--header", "x=sk-1\n"], 2, "the value of x begins or ends with a space"),
        (["http://x/", "--header-env", "x=NO_SUCH"], 2, "the variable NO_SUCH is not set."),
    ],
)
def test_mistakes_of_the_user_are_told(
    cli: CommandLine, argv: list[str], code: int, told: str
) -> None:
    cli.write(lines(START, FINISH), "run")
    done = cli("verify", *argv)
    assert done.code == code
    assert told in done.err
    assert "sk-1" not in done.err


def test_a_file_without_events_is_not_valid(cli: CommandLine) -> None:
    cli.write("", "run")
    done = cli("verify", "run")
    assert done.code == 1
    assert done.out.startswith("error[malformed-value]: The recording holds no events.\n")
    assert done.out.endswith("\n\nrun: 0 events, 1 violation\n")


@pytest.mark.parametrize(
    "target", ["127.0.0.1:8000", "localhost:8000/agent", "ftp://x/", "[::1]:80"]
)
def test_an_address_without_http_is_told_to_need_it(cli: CommandLine, target: str) -> None:
    done = cli("verify", target)
    assert done.code != 0
    assert "by its whole URL, http:// or https:// included." in done.err


# -- endpoints ----------------------------------------------------------------------------------


@contextmanager
def endpoint(handler: Handler) -> Iterator[RawServer]:
    """A server in a thread, since a command owns the loop of the test's own."""
    started: Future[RawServer] = Future()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def main() -> None:
        async with serving(handler) as server:
            started.set_result(server)
            await over.wait()

    def serve() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield started.result(10)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)


def test_a_valid_endpoint_is_ok_and_is_asked_as_an_agent(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.stream(asked.whole())

    monkeypatch.setenv("TOKEN", "Bearer sk-1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with endpoint(handler) as server:
        done = cli(
            *("verify", server.url, "how are you?", "--header", "X-Tenant=acme"),
            *("--header-env", "Authorization=TOKEN"),
        )
    assert (done.code, done.out, done.err) == (0, f"ok: {server.url}: 5 events\n", "")
    [asked] = server.asked
    assert asked.input["messages"][0]["content"] == "how are you?"
    assert asked.headers["authorization"] == "Bearer sk-1"
    assert asked.headers["x-tenant"] == "acme"


def test_a_whole_input_can_be_sent(cli: CommandLine) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.stream(asked.whole())

    given = {"threadId": "mine", "runId": "own", "messages": []}
    with endpoint(handler) as server:
        done = cli("verify", server.url, "--input", "-", stdin=json.dumps({**given, "novel": 1}))
    assert done.code == 0
    assert server.asked[0].input == {**given, "protocolVersion": "1.0"}
    assert "warning[tolerated]: the input: removed novel" in done.err


def test_the_violations_of_an_endpoint_are_told_ids_included(cli: CommandLine) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        await answer.chunk(frames([{**asked.started(), "runId": "other"}]))
        await answer.chunk(b": ping\n\ndata: oops\n\ndata: [1]\n\n")
        await answer.chunk(frames([CONTENT, asked.finished()]))
        await answer.end()

    with endpoint(handler) as server:
        done = cli("verify", server.url)
    assert done.code == 1
    assert "error[identity]: event 0: RUN_STARTED has run id" in done.out
    assert (
        "error[malformed-value]: event 1: This is no JSON object: Expecting value (column 1).\n"
        "  at line 5 of the stream\n"
    ) in done.out
    assert "event 2: This is no JSON object: it is an array.\n" in done.out
    assert "error[not-open]: event 3: " in done.out
    assert "5 events" in done.out


def test_an_endpoint_that_stops_is_truncated(cli: CommandLine) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.stream(asked.whole()[:2])

    with endpoint(handler) as server:
        done = cli("verify", server.url)
    assert done.code == 1
    assert "error[truncated-stream]: " in done.out


def test_an_http_error_is_a_problem_with_what_the_endpoint_said(cli: CommandLine) -> None:
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.whole("400 Nope", "threadId is wrong for Bearer sk-123", content_type="text/x")

    with endpoint(handler) as server:
        done = cli("verify", server.url, "--header", "authorization=Bearer sk-123")
        told = json.loads(cli("verify", server.url, "--json").out)
    assert done.code == 1
    assert done.out == (
        "error[remote-failed]: The remote agent answered with HTTP 400 (Bad Request).\n\n"
        f"{server.url}: 0 events\n"
    )
    assert done.err == (
        "note[remote-agent]: HTTP 400, content-type text/x: threadId is wrong for ***\n"
    )
    assert told["ok"] is False
    assert told["failure"]["code"] == "remote-failed"


def test_nobody_at_the_url_is_a_problem(cli: CommandLine) -> None:
    async def handler(asked: Asked, answer: Answering) -> None: ...

    with endpoint(handler) as server:
        pass
    done = cli("verify", server.url)
    assert done.code == 1
    assert "error[remote-unavailable]: The remote agent could not be reached." in done.out


@pytest.mark.parametrize("ended", [False, True])
def test_the_time_is_bounded(cli: CommandLine, ended: bool) -> None:  # noqa: FBT001
    async def handler(asked: Asked, answer: Answering) -> None:
        await answer.begin()
        await answer.chunk(frames(asked.whole() if ended else asked.whole()[:3]))
        while True:
            await answer.chunk(b": ping\n\n")
            await asyncio.sleep(0.05)

    with endpoint(handler) as server:
        done = cli("verify", server.url, "--timeout", "0.5")
    assert done.code == 1
    why = "although its run had ended" if ended else "and neither did its run"
    assert (
        f"error[deadline-exceeded]: The stream did not end within 0.5 s, {why}.\n"
        "  fix: An endpoint ends its answer after the run. Give it longer with --timeout.\n"
    ) in done.out


def test_without_httpx2_only_recordings_can_be_verified(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interpose.cli.verify.find_spec", lambda name: None)
    done = cli("verify", "http://127.0.0.1/")
    assert done.code == 2
    assert 'pip install "interpose[remote]"' in done.err
    cli.write(lines(START, FINISH), "run")
    assert cli("verify", "run").code == 0
