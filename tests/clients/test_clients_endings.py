"""How runs end for the real clients: interrupts, cancellation from both sides, errors, refusals."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from driving import CLIENTS, SECONDS, Answer, Client, Server, Talk, said, serving

RESOLVED = {"interruptId": "i1", "status": "resolved", "payload": {"ok": True}}
CANCELLED = {"interruptId": "i2", "status": "cancelled"}


def only(talk: Talk) -> Any:
    [step] = talk.steps
    return step


def test_an_interrupt_is_resumed(server: Server, client: Client) -> None:
    talk = client.talk(server.url, "interrupt", {"resume": [RESOLVED, CANCELLED]})
    asked, resumed = talk.steps
    assert (asked.error, resumed.error, talk.said) == ({}, {}, [])
    [told] = asked.told("onRunFinishedEvent")
    assert told["outcome"] == "interrupt"
    first, second = asked.pending_interrupts
    assert first == {"id": "i1", "reason": "tool_call", "toolCallId": "c1", "message": "Pay?"}
    assert second["responseSchema"] == {"type": "object"}
    assert resumed.messages[-1]["content"] == "i1 resolved {'ok': True}, i2 cancelled None"
    assert resumed.pending_interrupts == []


def test_the_client_refuses_a_run_that_leaves_an_interrupt_open(
    server: Server, client: Client
) -> None:
    talk = client.talk(server.url, "interrupt", {"resume": [RESOLVED]})
    _, refused = talk.steps
    assert "not addressed by resume: i2" in refused.error["message"]
    assert refused.events == []
    notes = server.seen(talk.thread)
    assert notes.count("agent started") == 1


def test_a_run_that_the_agent_cancelled(server: Server, client: Client) -> None:
    """0.0.59 refuses the cancelled outcome, and gets a RUN_ERROR in its place."""
    talk = client.talk(server.url, "cancelled")
    step = only(talk)
    assert step.error == {}
    assert step.answers == [{"id": "m1", "role": "assistant", "content": "Half a"}]
    if client.is_old:
        [error] = step.of("RUN_ERROR")
        assert error["code"] == "cancelled"
        assert step.of("RUN_FINISHED") == []
    else:
        [told] = step.told("onRunFinishedEvent")
        assert told["outcome"] == "cancelled"
        assert step.of("RUN_ERROR") == []


@pytest.mark.parametrize("agent", ["", "filtered", "redacted"])
@pytest.mark.parametrize(
    ("scenario", "upon"), [("silent", "TEXT_MESSAGE_START"), ("chatty", "TEXT_MESSAGE_CONTENT")]
)
def test_a_client_that_aborts_stops_the_agent(
    server: Server, client: Client, scenario: str, upon: str, agent: str
) -> None:
    talk = client.talk(server.address(agent), said(scenario, abortAfter=upon))
    step = only(talk)
    assert step.error == {}
    assert 0 <= step.settled < 5
    assert server.await_seen(talk.thread, "run ended: abort") == [
        "agent started",
        "agent closed",
        "run ended: abort",
    ]


def test_a_client_may_abort_before_it_has_heard_anything(server: Server, client: Client) -> None:
    """No header has been sent yet, and the agent is stopped all the same."""
    step = only(talk := client.talk(server.url, said("mute", abortIn=300)))
    assert step.events == [] or step.types == ["RUN_ERROR"]
    assert 0 <= step.settled < 5
    assert server.await_seen(talk.thread, "run ended: abort") == [
        "agent started",
        "agent closed",
        "run ended: abort",
    ]


def test_a_client_that_only_detaches_lets_the_agent_go_on(server: Server, client: Client) -> None:
    """The client's own contract: its connection stays open, so the run goes on."""
    talk = client.talk(server.url, said("pausing", detachAfter="TEXT_MESSAGE_CONTENT"))
    step = only(talk)
    assert (step.error, step.of("RUN_FINISHED")) == ({}, [])
    assert "run ended: finish" in server.await_seen(talk.thread, "run ended: finish")


def test_a_thread_goes_on_after_an_abort(server: Server, client: Client) -> None:
    talk = client.talk(
        server.url, said("silent", abortAfter="TEXT_MESSAGE_CONTENT"), said("text chunks", "u2")
    )
    _, after = talk.steps
    assert after.error == {}
    assert after.messages[-1]["content"] == "Second."


@pytest.mark.parametrize(
    ("scenario", "code", "content"),
    [
        ("fails", "agent-failed", "So far"),
        ("fails at once", "agent-failed", None),
        ("says that it failed", "model-gone", ""),
        ("stops short", "truncated-stream", "So far"),
        ("breaks the rules", "invalid-stream", ""),
    ],
)
def test_a_failure_is_a_valid_stream_that_tells_no_secret(
    server: Server, client: Client, scenario: str, code: str, content: str | None
) -> None:
    talk = client.talk(server.url, scenario)
    step = only(talk)
    assert (step.error, talk.said) == ({}, [])
    assert [event["code"] for event in step.of("RUN_ERROR")] == [code]
    assert step.types[-1] == "RUN_ERROR"
    assert "hunter2" not in str(step.report)
    assert [message.get("content") for message in step.answers if message["id"] == "m1"] == (
        [] if content is None else [content]
    )
    # What was open is closed before the end.
    for kind in ("TEXT_MESSAGE", "TOOL_CALL"):
        assert len(step.of(f"{kind}_START")) == len(step.of(f"{kind}_END"))


def test_nothing_comes_after_the_end(server: Server, client: Client) -> None:
    step = client.run(server.url, "goes on after the end")
    assert step.types[-1] == "RUN_FINISHED"
    assert [message["id"] for message in step.answers] == ["m1"]


@pytest.mark.parametrize(("asked", "status"), [("refused", 403), ("busy", 429)])
def test_a_refusal_before_the_start_is_an_http_status(
    server: Server, client: Client, asked: str, status: int
) -> None:
    step = only(client.talk(server.address("guarded"), asked))
    assert step.error["status"] == status
    assert step.events == []
    assert len(step.told("onRunFailed")) == 1
    code = "not-for-you" if status == 403 else "quota"
    assert code in str(step.error["payload"])


def test_a_refusal_tells_when_to_come_back(server: Server) -> None:
    answer = server.post("busy", agent="guarded")
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")


def test_a_refusal_in_the_middle_is_an_error_of_the_run(server: Server, client: Client) -> None:
    talk = client.talk(server.address("guarded"), "refused late")
    step = only(talk)
    assert (step.error, talk.said) == ({}, [])
    [error] = step.of("RUN_ERROR")
    assert (error["code"], error["message"]) == ("bad-word", "That was a bad word.")
    assert step.answers[0]["content"] == "Good so far, "


def test_an_agent_that_is_not_served_is_an_http_status(server: Server, client: Client) -> None:
    step = only(client.talk(server.address("nobody"), "text"))
    assert step.error["status"] == 404
    assert step.events == []


def test_a_message_without_content_is_refused_with_its_path(
    server: Server, old_client: Client
) -> None:
    """1.0 refuses to send it; 0.0.59 sends what it is given."""
    step = only(old_client.talk(server.url, {"add": [{"id": "u1", "role": "user"}]}))
    assert step.error["status"] == 400
    assert "messages[0].content" in str(step.error["payload"])


def test_a_run_id_that_is_open_is_refused(server: Server, client: Client) -> None:
    thread, run_id = str(uuid4()), str(uuid4())
    asked: list[Answer] = []
    first = Thread(target=lambda: asked.append(server.post("pausing", thread=thread, runId=run_id)))
    first.start()
    server.await_seen(thread, "agent started")
    step = only(client.talk(server.url, said("text", runId=run_id)))
    first.join()
    assert (step.error["status"], step.events) == (409, [])
    assert asked[0].types[-1] == "RUN_FINISHED"


def test_a_page_that_forgot_its_interrupts_may_begin_anew(server: Server, client: Client) -> None:
    """The server keeps no threads: what is pending, the client has to know."""
    talk = client.talk(server.url, "interrupt")
    assert len(only(talk).pending_interrupts) == 2
    step = client.run(server.url, "text", threadId=talk.thread)
    assert step.types[-1] == "RUN_FINISHED"


def stop_when_started(server: Server, thread: str) -> None:
    server.await_seen(thread, "agent started")
    server.process.send_signal(signal.SIGTERM)


def test_a_server_that_stops_ends_the_runs_of_its_clients(client: Client, tmp_path: Path) -> None:
    with serving(CLIENTS / "agent/interpose.toml", tmp_path / "stderr.txt") as server:
        stopping = Thread(target=stop_when_started, args=(server, thread := str(uuid4())))
        stopping.start()
        step = only(client.talk(server.url, "silent", threadId=thread))
        stopping.join()
        assert server.process.wait(SECONDS) == 0
    assert step.error == {}
    assert step.answers == [{"id": "m1", "role": "assistant", "content": "Thinking"}]
    if client.is_old:
        assert [event["code"] for event in step.of("RUN_ERROR")] == ["cancelled"]
    else:
        assert [told["outcome"] for told in step.told("onRunFinishedEvent")] == ["cancelled"]


# The client's own verification is on, or all of the above would say little ----------------------
START = '{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}'
END = '{"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}'
OPEN = '{"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}'


@contextmanager
def answering(*events: str, separator: str = "\n\n") -> Iterator[str]:
    """Serve one fixed stream, good or bad, without Interpose."""
    body = "".join(f"data: {event}{separator}" for event in events).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_valid_stream_from_elsewhere_is_accepted(client: Client) -> None:
    with answering(START, END) as url:
        assert only(client.talk(url, "hi")).error == {}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([OPEN, END], "First event must be 'RUN_STARTED'"),
        ([START, OPEN, OPEN], "already in progress"),
        ([START, OPEN, END], "while text messages are still active"),
        ([START, END, OPEN], "already finished"),
        ([START, '{"type": "TEXT_MESSAGE_END", "messageId": "m1"}'], "No active text message"),
        ([START, '{"type": "TEXT_MESSAGE_START", "messageId": 7}'], "messageId"),
    ],
)
def test_an_invalid_stream_is_refused_by_the_client(
    client: Client, events: list[str], reason: str
) -> None:
    with answering(*events) as url:
        step = only(client.talk(url, "hi"))
    assert reason in step.error["message"]
    assert len(step.told("onRunFailed")) == 1


def test_other_framing_is_refused_by_the_client(client: Client) -> None:
    """The client splits at two line feeds and at nothing else."""
    with answering(START, END, separator="\r\n\r\n") as url:
        step = only(client.talk(url, "hi"))
    assert step.error or step.events == []


def test_the_old_client_refuses_what_it_is_spared(old_client: Client) -> None:
    """What the server changes for clients before 1.0, and why."""
    for outcome in (
        '{"type": "cancelled"}',
        '{"type": "success", "pendingToolCallIds": ["c1"]}',
    ):
        with answering(START, END.replace("}", f', "outcome": {outcome}}}')) as url:
            assert "outcome" in only(old_client.talk(url, "hi")).error["message"]
