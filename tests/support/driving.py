"""Real clients and the real server, as processes: what the tests in tests/clients talk through.

Every wait is bounded, and each process is ended by the id that it was started with.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from repository import ROOT

CLIENTS = ROOT / "tests/clients"
SECONDS = 45.0
"""How long anything may take before a test gives up. What is fast is asserted by the tests."""


def lines_of(stream: IO[str]) -> queue.Queue[str | None]:
    """Read a process's output in a thread of its own, so that waiting for a line is bounded."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def stop(process: subprocess.Popen[str], sent: signal.Signals = signal.SIGTERM) -> int:
    """End a process that this test started, and return how it ended."""
    if process.poll() is None:
        process.send_signal(sent)
    try:
        return process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(SECONDS)
        raise
    finally:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a plain HTTP client got."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of the answer, by the letter of LF framing."""
        frames = self.body.decode().split("\n\n")
        assert frames.pop() == "", self.body
        data = [frame for frame in frames if not frame.startswith(":")]
        assert all(frame.startswith("data: ") and "\n" not in frame for frame in data), self.body
        return [json.loads(frame.removeprefix("data: ")) for frame in data]

    @property
    def types(self) -> list[str]:
        """The events' types."""
        return [event["type"] for event in self.events]


@dataclass(frozen=True, slots=True)
class Server:
    """A running `interpose serve`."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    def address(self, agent: str = "") -> str:
        """Return where an agent is served."""
        return f"{self.url}agents/{agent}" if agent else self.url

    def post(self, asked: str, *, agent: str = "", thread: str = "", **fields: Any) -> Answer:
        """Run an agent without any client library. ``fields`` are those of the input."""
        run_input = {
            "threadId": thread or str(uuid4()),
            "runId": str(uuid4()),
            "messages": [{"id": "u1", "role": "user", "content": asked}],
            **fields,
        }
        host, port, path = re.fullmatch(r"http://([^:]+):(\d+)(/.*)", self.address(agent)).groups()  # type: ignore[union-attr]
        connection = http.client.HTTPConnection(host, int(port), timeout=SECONDS)
        try:
            headers = {"content-type": "application/json", "accept": "text/event-stream"}
            connection.request("POST", path, json.dumps(run_input), headers)
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def seen(self, thread: str) -> list[str]:
        """Return what agent and layers noted of a thread."""
        answer = self.post("seen", forwardedProps={"thread": thread})
        [told] = [event["value"] for event in answer.events if event["type"] == "CUSTOM"]
        return list(told)

    def await_seen(self, thread: str, note: str) -> list[str]:
        """Wait until something is noted of a thread."""
        return until(lambda: self.seen(thread), lambda notes: note in notes)


def until(look: Callable[[], list[str]], enough: Callable[[list[str]], bool]) -> list[str]:
    """Look again and again, for a bounded time, and return what was seen at last."""
    end = time.monotonic() + SECONDS
    while not enough(found := look()):
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


@contextmanager
def serving(config: Path, log: Path, *options: str, ends: int = 0) -> Iterator[Server]:
    """Run `interpose serve` on a free port; afterwards end it, by its own id, in good order.

    ``ends``: how it is to have ended, where a test does worse to it.
    """
    environ = {name: value for name, value in os.environ.items() if "INTERPOSE" not in name}
    command = [sys.executable, "-m", "interpose", "serve", "--config", str(config), "--port", "0"]
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        assert process.stdout is not None
        line = lines_of(process.stdout).get(timeout=SECONDS)
        address = re.search(r"http://127\.0\.0\.1:\d+/", line or "")
        assert address is not None, f"no address in {line!r}\n{log.read_text()}"
        yield Server(process, address[0], log)
    finally:
        code = stop(process)
    assert code == ends, log.read_text()
    assert "Traceback" not in log.read_text(), log.read_text()


class Step:
    """What a client made of one run."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        self.report = report
        self.events: list[dict[str, Any]] = report["events"]
        self.messages: list[dict[str, Any]] = report["messages"]
        self.state: Any = report.get("state")
        self.result: Any = report.get("result")
        self.seconds: float = report["seconds"]
        self.settled: float = report.get("settled", -1.0)
        self.error: dict[str, Any] = report.get("error", {})
        self.calls: list[dict[str, Any]] = report["calls"]
        self.pending_interrupts: list[dict[str, Any]] = report["pendingInterrupts"]

    @property
    def types(self) -> list[str]:
        """The events that passed the client's verification."""
        return [event["type"] for event in self.events]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of a type."""
        return [event for event in self.events if event["type"] == kind]

    def told(self, callback: str) -> list[dict[str, Any]]:
        """Return what a subscriber's callback was given, call by call."""
        return [call for call in self.calls if call["name"] == callback]

    @property
    def answers(self) -> list[dict[str, Any]]:
        """The messages that are not the user's."""
        return [message for message in self.messages if message["role"] != "user"]


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation of one client: its runs, what came off the wire, what the console said."""

    thread: str
    steps: list[Step]
    wire: list[str]
    said: list[str]


class Client:
    """A version of the real client, in a Node.js process that lives as long as the tests."""

    def __init__(self, version: str, node: str) -> None:
        self.version = version
        self.is_old = version == "v0"
        self._process = subprocess.Popen(  # noqa: S603 - node, as found on PATH
            [node, str(CLIENTS / "driver.mjs"), version],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._lines = lines_of(self._process.stdout)

    def talk(self, url: str, *steps: str | Mapping[str, Any], **job: Any) -> Talk:
        """Hold a conversation. A step that is a text is what the user says before a run."""
        thread = job.setdefault("threadId", str(uuid4()))
        asked = [said(step) if isinstance(step, str) else step for step in steps]
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"url": url, "steps": asked, **job}) + "\n")
        self._process.stdin.flush()
        line = self._lines.get(timeout=SECONDS * len(steps))
        assert line is not None, "the driver has ended"
        report = json.loads(line)
        assert "failed" not in report, report["failed"]
        return Talk(
            thread, [Step(step) for step in report["steps"]], report["wire"], report["said"]
        )

    def run(self, url: str, asked: str | Mapping[str, Any], **job: Any) -> Step:
        """Have one run that the client finds nothing wrong with, nor anything to warn of."""
        talk = self.talk(url, asked, **job)
        [step] = talk.steps
        assert step.error == {}, step.error
        assert talk.said == [], talk.said
        return step

    def close(self) -> None:
        """End the process."""
        stop(self._process)


def said(text: str, message: str = "u1", **options: Any) -> dict[str, Any]:
    """Return a step: the user says something, and the agent runs."""
    return {"add": [{"id": message, "role": "user", "content": text}], **options}


def missing(version: str) -> str:
    """Say what a client needs that this machine lacks, or nothing."""
    if shutil.which("node") is None:
        return "no Node.js on this machine"
    if not (CLIENTS / version / "node_modules/@ag-ui/client/package.json").is_file():
        return f"run `npm ci --ignore-scripts` in tests/clients/{version}"
    return ""


def types(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the types of events."""
    return [str(event["type"]) for event in events]
