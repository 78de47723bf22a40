"""nginx in front of a gateway: streams stay streams, and clients that go are noticed."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

from driving import Server
from gateways import Stream, await_end, open_gate, runs_of


def test_events_pass_one_by_one(front: Server, outer: Server) -> None:
    run = Stream(front, "gate").until("TEXT_MESSAGE_CONTENT")
    assert run.text == "before "  # the agent has not said more than this yet
    open_gate(outer, run.thread)
    assert run.rest().text == f"before after {run.thread}"
    assert run.types[-1] == "RUN_FINISHED"


def test_a_whole_run_is_the_same_with_and_without_it(front: Server, outer: Server) -> None:
    ids = {"threadId": "t", "runId": "same"}
    assert Stream(front, "order", **ids).rest().types == Stream(outer, "order", **ids).rest().types


def test_a_client_that_goes_away_cancels_the_run_in_both_servers(
    front: Server, folder: Path
) -> None:
    run = Stream(front, "gate").until("TEXT_MESSAGE_CONTENT")
    run.close()
    for name in ("outer", "inner"):
        assert await_end(runs_of(name, folder), run.run)["outcome"] == "consumer-gone"


def test_heartbeats_pass(front: Server, outer: Server) -> None:
    run = Stream(front, "gate").until("TEXT_MESSAGE_CONTENT")
    while len(run.comments) < 3:
        assert run.frame().startswith(":")
    open_gate(outer, run.thread)
    assert run.rest().types[-1] == "RUN_FINISHED"


def test_a_large_input_passes(front: Server) -> None:
    asked = "tell of " + "Grüße, 🌍! " * 20_000
    assert len(asked.encode()) > 200_000
    [told] = [
        each["value"] for each in Stream(front, asked).rest().events if each["type"] == "CUSTOM"
    ]
    assert told["messages"][0]["content"] == asked


def test_a_refusal_passes_with_its_status_its_headers_and_its_body(front: Server) -> None:
    answer = front.post("too much for the outer one", protocolVersion="1.0")
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert answer.headers["content-type"] == "application/problem+json"
    assert json.loads(answer.body)["code"] == "quota"


def test_what_is_no_input_is_refused_through_it_as_well(front: Server) -> None:
    connection = http.client.HTTPConnection(urlsplit(front.url).netloc, timeout=20)
    try:
        connection.request("POST", "/", b"{", {"content-type": "application/json"})
        response = connection.getresponse()
        assert (response.status, json.loads(response.read())["code"]) == (400, "invalid-input")
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        assert (response.status, json.loads(response.read())) == (200, {"status": "ready"})
    finally:
        connection.close()
