"""Servers in processes of their own, and a client that does no more than read."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from .source import asking

_FOLDER: Final = Path(__file__).parents[2]
_START: Final = 60.0
_END: Final = 10.0
_ANSWER: Final = 60.0
_numbers: Final = count()


class ServingError(RuntimeError):
    """A server does not start, or does not answer as it has to."""


@contextlib.contextmanager
def server(
    loop: str = "asyncio", upstream: str | None = None, packages: Sequence[Path] = ()
) -> Generator[str, None, None]:
    """Run a server with all variants; yields its URL. ``packages``: where more can be imported."""
    environ = {name: value for name, value in os.environ.items() if "INTERPOSE" not in name}
    environ["PYTHONPATH"] = os.pathsep.join(map(str, packages))
    command = [sys.executable, "-m", "benchmarks.serving.server", loop]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603 - our own module
            command if upstream is None else [*command, upstream],
            cwd=_FOLDER,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            yield _address(process, errors.fileno())
        finally:
            _end(process)


def _address(process: subprocess.Popen[bytes], errors: int) -> str:
    with selectors.DefaultSelector() as waiting:
        if process.stdout is not None:
            waiting.register(process.stdout, selectors.EVENT_READ)
            if waiting.select(_START):
                line = process.stdout.readline().decode().strip()
                if line:
                    return line.rstrip("/")
    os.lseek(errors, 0, os.SEEK_SET)
    said = os.read(errors, 1 << 16).decode(errors="replace").strip().splitlines()
    raise ServingError(f"a server does not start: {said[-1] if said else 'it says nothing'}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def read(url: str, *, deltas: int, wakes: bool, connections: int = 1) -> tuple[float, list[bytes]]:
    """Ask on so many connections at once, and read to the end of each.

    Returns the seconds from the first request to the last byte, and the answers.
    """
    address = urlsplit(url)
    open_: dict[socket.socket, list[bytes]] = {}
    with selectors.DefaultSelector() as waiting:
        try:
            for _ in range(connections):
                sock = socket.create_connection((address.hostname, address.port), _ANSWER)
                open_[sock] = []
                waiting.register(sock, selectors.EVENT_READ)
            requests = [_request(address.path, deltas, wakes=wakes) for _ in open_]
            since = time.perf_counter()
            for sock, request in zip(open_, requests, strict=True):
                sock.sendall(request)
            while waiting.get_map():
                ready = waiting.select(_ANSWER)
                if not ready:
                    raise ServingError(f"{address.path} does not answer")
                for key, _ in ready:
                    sock = key.fileobj  # type: ignore[assignment]
                    data = sock.recv(1 << 18)
                    if data:
                        open_[sock].append(data)
                    else:
                        waiting.unregister(sock)
            seconds = time.perf_counter() - since
        finally:
            for sock in open_:
                sock.close()
    answers = [b"".join(parts) for parts in open_.values()]
    for answer in answers:
        if not (answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n0\r\n\r\n")):
            raise ServingError(f"{address.path} answers with {answer[:200]!r}")
    return seconds, answers


def _request(path: str, deltas: int, *, wakes: bool) -> bytes:
    asked = asking(f"run-{next(_numbers)}", deltas=deltas, wakes=wakes)
    body = asked.model_dump_json(by_alias=True).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


def body_of(answer: bytes) -> bytes:
    """Return the body of a whole answer, out of its chunks."""
    at = answer.index(b"\r\n\r\n") + 4
    parts: list[bytes] = []
    while True:
        start = answer.index(b"\r\n", at) + 2
        length = int(answer[at:start], 16)
        if not length:
            return b"".join(parts)
        parts.append(answer[start : start + length])
        at = start + length + 2
