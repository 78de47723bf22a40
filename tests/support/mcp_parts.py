"""Real MCP servers and a real client, as processes: what the tests in tests/mcp_servers talk to.

Every wait is bounded, and each process is ended by the id that it was started with. Each ends by
itself when the tests are gone.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any

from driving import SECONDS, lines_of
from mcp_serving import CLEAR, LOG
from repository import ROOT

SERVERS = ROOT / "tests/mcp_servers"
MODULES = SERVERS / "node_modules"
EVERYTHING = MODULES / "@modelcontextprotocol/server-everything/dist/index.js"
APPS_EXAMPLE = MODULES / "@modelcontextprotocol/server-basic-vanillajs/dist/index.js"
APPS_SERVER = SERVERS / "apps_server.py"
ODD_SERVER = SERVERS / "odd_server.py"

Entries = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Served:
    """A running server. ``other`` is the origin of its second port, if it has one."""

    origin: str
    other: str
    path: str
    process: subprocess.Popen[str] = field(repr=False)
    _stderr: IO[bytes] = field(repr=False)

    @property
    def url(self) -> str:
        """Where it is to be talked to."""
        return self.origin + self.path

    @property
    def sse_url(self) -> str:
        """Where it speaks SSE. The servers with a kind do so beside streamable HTTP."""
        return f"{self.origin}/sse"

    @property
    def process_id(self) -> int:
        """The id of its process."""
        return self.process.pid

    def log(self, kind: str = "") -> Entries:
        """Return what it noted, all or of one kind: ``request``, ``tool`` or ``huge``."""
        return [each for each in self._get(LOG) if kind in {"", each["kind"]}]

    def requests(self, rpc: str = "", *, method: str = "") -> Entries:
        """Return the HTTP requests, all or of one method of MCP or of HTTP."""
        return [
            each
            for each in self.log("request")
            if rpc in {"", each["rpc"]} and method in {"", each["method"]}
        ]

    def clear(self) -> None:
        """Forget what was noted."""
        self._get(CLEAR, "POST")

    def until(self, enough: Callable[[Entries], object]) -> Entries:
        """Read the log again and again, for a bounded time, until it has enough."""
        end = time.monotonic() + SECONDS
        while not enough(found := self.log()):
            assert time.monotonic() < end, found
            time.sleep(0.02)
        return found

    async def awaited(self, enough: Callable[[Entries], object]) -> Entries:
        """Do the same beside other tasks of an event loop."""
        return await asyncio.to_thread(self.until, enough)

    def errors(self) -> str:
        """Return what the process has written to standard error."""
        return errors_in(self._stderr)

    def _get(self, path: str, method: str = "GET") -> Entries:
        address = self.origin.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=SECONDS)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            assert response.status == 200, f"{path} of {self.origin} answers {response.status}"
            return list(json.loads(response.read()))
        finally:
            connection.close()


def errors_in(stderr: IO[bytes]) -> str:
    """Read a file that a process is writing to, whose position is the process's, too."""
    file = stderr.fileno()
    return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


@contextmanager
def served(command: Sequence[str], path: str = "/mcp") -> Iterator[Served]:
    """Start a server that says its ports in a line of JSON; end it afterwards."""
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(  # noqa: S603 - the servers of this folder
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
        try:
            ports = announced(process)
            assert ports, f"{command} did not start\n{errors_in(stderr)}"
            origin, other = (origin_of(ports, name) for name in ("port", "other"))
            yield Served(origin, other, path, process, stderr)
        finally:
            end(process)


def announced(process: subprocess.Popen[str]) -> dict[str, int]:
    """Wait for the line with the ports; return nothing when the process ends without it."""
    assert process.stdout is not None
    lines = lines_of(process.stdout)
    while (line := lines.get(timeout=SECONDS)) is not None:
        if line.startswith("{"):
            return dict(json.loads(line))
    return {}


def origin_of(ports: dict[str, int], name: str) -> str:
    """Return the origin of a port, if there is one."""
    return f"http://127.0.0.1:{ports[name]}" if name in ports else ""


def end(process: subprocess.Popen[str]) -> int:
    """End a process that ends with its standard input, and return how it ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # it has ended before it read all
        process.stdin.close()
    try:
        return process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(SECONDS)
        raise
    finally:
        process.stdout.close()


@contextmanager
def python_server(*options: str) -> Iterator[Served]:
    """Run the server with MCP Apps, with options of ``apps_server.py``."""
    path = "/sse" if "sse" in options else "/mcp"
    with served([sys.executable, str(APPS_SERVER), *options], path) as running:
        yield running


def stdio_command(*options: str) -> list[str]:
    """Return the command of the same server over standard input and output."""
    return [sys.executable, str(APPS_SERVER), "--transport", "stdio", *options]


@contextmanager
def odd_server(kind: str, **options: str | int) -> Iterator[Served]:
    """Run a server that does something odd, with options of ``odd_server.py``."""
    named = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    with served([sys.executable, str(ODD_SERVER), "--kind", kind, *named]) as running:
        yield running


@contextmanager
def everything(transport: str = "streamableHttp") -> Iterator[Served]:
    """Run server-everything from npm: ``streamableHttp`` or ``sse``. It has no log."""
    path = "/sse" if transport == "sse" else "/mcp"
    with served([*node_command(), str(EVERYTHING), transport], path) as running:
        yield running


def everything_command() -> list[str]:
    """Return the command of server-everything over standard input and output."""
    return [node(), str(EVERYTHING), "stdio"]


@contextmanager
def apps_example() -> Iterator[Served]:
    """Run the example of a server with MCP Apps from npm. It has no log."""
    with served([*node_command(), str(APPS_EXAMPLE)]) as running:
        yield running


def node_command() -> list[str]:
    """Return how a server from npm is run: on this machine alone, and not for longer than us."""
    return [node(), "--require", str(SERVERS / "loopback.cjs")]


def node() -> str:
    """Return Node.js."""
    found = shutil.which("node")
    assert found is not None, missing_node_part()
    return found


def missing_node_part() -> str:
    """Say what the parts from npm need that this machine lacks, or nothing."""
    if shutil.which("node") is None:
        return "no Node.js on this machine"
    if not EVERYTHING.is_file() or not (MODULES / "@ag-ui/mcp-apps-middleware").is_dir():
        return "run `npm ci --ignore-scripts` in tests/mcp_servers"
    return ""


@dataclass(frozen=True, slots=True)
class PeerRun:
    """What came of a run around which the peer was.

    ``events`` are those that a consumer sees, ``error`` is what the stream ended with, if it failed,
    ``inputs`` are those of the agent inside, and ``said`` is what an operator sees on the console.
    """

    events: list[dict[str, Any]]
    error: str | None
    inputs: list[dict[str, Any]]
    said: list[str]

    @property
    def types(self) -> list[str]:
        """The types of the events."""
        return [str(event["type"]) for event in self.events]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of a type."""
        return [event for event in self.events if event["type"] == kind]


class Peer:
    """The middleware for MCP Apps from npm, in a process that lives as long as the tests."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - node, as found on PATH
            [node(), str(SERVERS / "peer.mjs")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._lines = lines_of(self._process.stdout)

    def run(
        self,
        servers: Sequence[Mapping[str, Any]],
        run_input: Mapping[str, Any],
        *scripts: Sequence[Mapping[str, Any]],
        **config: Any,
    ) -> PeerRun:
        """Run a scripted agent with servers: each has type, url, and may have serverId, headers."""
        asked = {"config": {"mcpServers": list(servers), **config}, "input": run_input}
        return PeerRun(**self._ask({**asked, "script": list(scripts)}))

    def server_hash(self, server: Mapping[str, Any]) -> str:
        """Return the hash of a server, as its pages know it."""
        return str(self._ask({"hash": server})["hash"])

    def close(self) -> None:
        """End the process."""
        end(self._process)

    def _ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        line = self._lines.get(timeout=SECONDS)
        assert line is not None, "the peer has ended"
        return dict(json.loads(line))


def run_input(**fields: Any) -> dict[str, Any]:
    """Return the input of a run in which a user asks something."""
    return {
        "threadId": "t1",
        "runId": "r1",
        "state": {},
        "messages": [{"id": "u1", "role": "user", "content": "what time is it?"}],
        "tools": [],
        "context": [],
        "forwardedProps": {},
        **fields,
    }


def proxied(method: str, params: Mapping[str, Any] | None = None, **server: str) -> dict[str, Any]:
    """Return the input of a run in which a page asks something of its server.

    ``server``: its ``serverHash``, ``serverId`` or both.
    """
    asked = {"serverHash": "", **server, "method": method, "params": params}
    return run_input(forwardedProps={"__proxiedMCPRequest": asked})


def calling(*calls: tuple[str, str, str], **finished: Any) -> list[dict[str, Any]]:
    """Return the script of an agent that calls tools: (call id, name, JSON of the arguments)."""
    script: list[dict[str, Any]] = [{"type": "RUN_STARTED"}]
    for call_id, name, arguments in calls:
        begun = {"toolCallId": call_id, "toolCallName": name, "parentMessageId": "a1"}
        script += [
            {"type": "TOOL_CALL_START", **begun},
            {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": arguments},
            {"type": "TOOL_CALL_END", "toolCallId": call_id},
        ]
    return [*script, {"type": "RUN_FINISHED", **finished}]
