"""Two servers, one behind the other, and who talks to them: for the tests in tests/gateway.

Every wait is bounded, and each process is ended by the id that it was started with.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from ag_ui_validate.pytest_plugin import validate_agui
from driving import SECONDS, Answer, Server, serving
from repository import ROOT

from interpose.agui import read_capture, typed, violations

GATEWAY = ROOT / "tests/gateway"
KEY = "key-4c1d9e-of-the-gateway"
"""What the outer server is to send along, and nobody to see."""


@contextmanager
def running(name: str, folder: Path, *options: str, ends: int = 0) -> Iterator[Server]:
    """Run the server of `<name>.toml`, with its log of runs in ``folder``; see how it ends."""
    log = folder / f"{name}.txt"
    runs = f"middleware.logging.file={runs_of(name, folder)}"
    config = GATEWAY / f"{name}.toml"
    with serving(config, log, "--set", runs, *options, ends=ends) as server:
        yield server
    assert KEY not in log.read_text()


def runs_of(name: str, folder: Path) -> Path:
    """Return where a server logs its runs."""
    return folder / f"{name}.jsonl"


def outer_of(inner: str, folder: Path, *options: str) -> Any:
    """Run a gateway in front of the URL ``inner``."""
    return running("outer", folder, "--set", f"agent.url={inner}", *options)


def await_end(runs: Path, run_id: str) -> dict[str, Any]:
    """Wait until a log of runs tells how a run ended."""

    def look() -> dict[str, Any] | None:
        lines = [json.loads(line) for line in runs.read_text().splitlines()]
        ended = [line for line in lines if line["kind"] == "run-ended"]
        return next((line for line in ended if line["run_id"] == run_id), None)

    found: dict[str, Any] = await_that(look)
    return found


def await_that(look: Callable[[], Any]) -> Any:
    """Look again and again, for a bounded time, and return what was found."""
    end = time.monotonic() + SECONDS
    while not (found := look()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
    return found


class Stream:
    """An answer that is read event by event, as it comes."""

    def __init__(self, server: Server, asked: str, **fields: Any) -> None:
        self.thread = fields.setdefault("threadId", str(uuid4()))
        self.run = fields.setdefault("runId", str(uuid4()))
        self.comments: list[str] = []
        self.events: list[dict[str, Any]] = []
        message = {"id": "u1", "role": "user", "content": asked}
        content = json.dumps({"protocolVersion": "1.0", "messages": [message], **fields})
        self._connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=SECONDS)
        self._connection.request("POST", "/", content, {"content-type": "application/json"})
        self._response = self._connection.getresponse()
        self.status = self._response.status

    def frame(self) -> str:
        """Wait for the next event or comment; empty at the end."""
        lines = iter(self._response.readline, b"")
        text = b""
        for line in lines:
            text += line
            if line == b"\n":
                break
        frame = text.decode()
        if frame.startswith(":"):
            self.comments.append(frame)
        elif frame:
            self.events.append(json.loads(frame.removeprefix("data: ")))
        return frame

    def until(self, kind: str) -> Stream:
        """Read until an event of a type has come."""
        while not self.events or self.events[-1]["type"] != kind:
            assert self.frame(), f"the answer ended without {kind}: {self.types}"
        return self

    def rest(self) -> Stream:
        """Read to the end."""
        while self.frame():
            pass
        self.close()
        return self

    @property
    def types(self) -> list[str]:
        """The types of the events that came."""
        return [str(each["type"]) for each in self.events]

    @property
    def text(self) -> str:
        """What was said in them."""
        return "".join(
            each["delta"] for each in self.events if each["type"] == "TEXT_MESSAGE_CONTENT"
        )

    def close(self) -> None:
        """Go away, whatever is still to come."""
        self._response.close()
        self._connection.close()


def open_gate(server: Server, thread: str) -> None:
    """Let the run of a thread go on."""
    assert server.post("opened", forwardedProps={"thread": thread}).status == 200


@dataclass(frozen=True, slots=True)
class Request:
    """What an endpoint was asked."""

    headers: Mapping[str, str]
    body: Mapping[str, Any]


@contextmanager
def endpoint(
    answer: Callable[[Request], tuple[int, str, str]], asked: list[Request]
) -> Iterator[str]:
    """Be an agent that nobody here wrote; yields its URL.

    ``answer`` returns status, content type and text. ``asked`` takes every request.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(self.rfile.read(int(headers["content-length"])))
            asked.append(Request(headers, body))
            status, kind, text = answer(asked[-1])
            content = text.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(SECONDS)


def valid(answer: Answer) -> list[dict[str, Any]]:
    """Return the events of an answer, which no checker finds fault with."""
    assert answer.status == 200, answer.body
    events, warnings = typed(read_capture(answer.body.decode(), "capture"), "capture")
    assert warnings == ()
    assert [str(each) for each in violations(events)] == []
    # AGUI902 wants timestamps, and those are the agent's to give.
    report = validate_agui(answer.events, severity_overrides={"AGUI902": "off"})
    assert [f"{each.rule}: {each.message}" for each in report.diagnostics] == []
    return answer.events
