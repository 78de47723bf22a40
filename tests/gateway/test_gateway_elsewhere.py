"""A gateway in front of an agent that is no Interpose, and may be badly made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import Server
from gateways import KEY, Request, endpoint, outer_of, valid


def answer(request: Request) -> tuple[int, str, str]:
    """Answer what the last message says: a status and a text, or a stream that is oddly written."""
    asked = str(request.body["messages"][-1]["content"])
    if asked.isdigit():
        return int(asked), "text/plain", f"You said {request.headers['x-gateway-key']}."
    ids = f'"threadId": "{request.body["threadId"]}", "runId": "{request.body["runId"]}"'
    stream = (
        f'data: {{"type": "RUN_STARTED", {ids}, "mood": "odd"}}\r\n\r\n'
        ': a comment\r\n\r\ndata: {"type": "MOOD_CHANGED"}\r\n\r\n'
        f'data: {{"type": "RUN_FINISHED",\r\ndata: {ids}}}\r\n\r\n'
    )
    return 200, "text/event-stream", stream


@pytest.fixture(scope="module")
def asked() -> list[Request]:
    return []


@pytest.fixture(scope="module")
def gateway(
    key: None, asked: list[Request], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("elsewhere")
    with endpoint(answer, asked) as url, outer_of(url, folder) as server:
        yield server


def test_its_stream_is_read_and_what_nobody_knows_is_stripped_with_a_line_in_the_log(
    gateway: Server,
) -> None:
    got = gateway.post("anything", protocolVersion="1.0")
    assert [each["type"] for each in valid(got)] == ["RUN_STARTED", "RUN_FINISHED"]
    assert b"odd" not in got.body
    assert "MOOD_CHANGED" in gateway.log.read_text()


def test_it_gets_the_headers_of_the_settings(gateway: Server, asked: list[Request]) -> None:
    gateway.post("anything", protocolVersion="1.0")
    assert asked[-1].headers["x-gateway-key"] == KEY
    assert asked[-1].headers["accept"] == "text/event-stream"
    assert asked[-1].body["protocolVersion"] == "1.0"


@pytest.mark.parametrize("status", [401, 500, 302])
def test_an_answer_that_repeats_the_key_does_not_get_it_into_stream_or_log(
    gateway: Server, status: int
) -> None:
    got = gateway.post(str(status), protocolVersion="1.0")
    last = valid(got)[-1]
    assert (last["type"], last["code"]) == ("RUN_ERROR", "remote-failed")
    assert str(status) in last["message"]
    assert KEY not in got.body.decode()
    logged = gateway.log.read_text()
    assert f"HTTP {status}, content-type text/plain: You said ***" in logged
    assert KEY not in logged
