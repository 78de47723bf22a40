"""The server under load, in a process of its own, seen from inside and from outside."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

CONFIG: Final = Path(__file__).with_name("interpose.toml")
_PATIENCE: Final = 30.0
_CALM: Final = 5.0
_EVERY: Final = 0.2


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the process holds, counted by name; after a collection of garbage.

    ``objects``: those that Python's collector tracks. ``blocks``: those of its allocator, which
    are all objects but the large ones. ``collected``: what the collector has found so far.
    """

    tasks: Mapping[str, int]
    generators: Mapping[str, int]
    handles: Mapping[str, int]
    threads: int
    objects: int
    blocks: int
    collected: int
    tallies: Mapping[str, Mapping[str, int]]

    @property
    def open(self) -> tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int], int]:
        """What has to be the same whenever nothing happens."""
        return self.tasks, self.generators, self.handles, self.threads


class Server:
    """A running `interpose serve`."""

    def __init__(self, process: Process, url: str, log: Path) -> None:
        self.url = url
        self.log = log
        self._process = process
        self._proc = Path("/proc") / str(process.pid)

    async def memory(self) -> int:
        """Collect garbage, and return the bytes that the process has in memory."""
        await asyncio.to_thread(self._census)
        pages = int((self._proc / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def processor_seconds(self) -> float:
        """Return the seconds that the process has computed."""
        fields = (self._proc / "stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def holdings(self) -> Holdings:
        """Ask inside and look from outside. No connection of ours is open meanwhile."""
        inside = await asyncio.to_thread(self._census)
        await asyncio.sleep(_EVERY)  # the connection that asked closes
        status = (self._proc / "status").read_text()
        threads = re.search(r"^Threads:\s+(\d+)", status, re.MULTILINE)
        return Holdings(
            handles=self._handles(), threads=int(threads[1]) if threads else 0, **inside
        )

    async def idle(self, like: Holdings | None = None) -> Holdings:
        """Wait a while for the process to hold what it held; return what it holds.

        ``like``: what it held. None: wait until nothing changes any more.
        """
        end = time.monotonic() + _CALM
        now = await self.holdings()
        while time.monotonic() < end:
            before, now = now, await self.holdings()
            if now.open == (before if like is None else like).open:
                break
        return now

    def _census(self) -> dict[str, Any]:
        ids = {"threadId": "census", "runId": f"census-{time.monotonic_ns()}"}
        content = json.dumps({**ids, "messages": [], "protocolVersion": "1.0"})
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=_PATIENCE)
        with closing(connection):
            connection.request(
                "POST", "/agents/census", content, {"content-type": "application/json"}
            )
            answer = connection.getresponse()
            lines = [json.loads(line[6:]) for line in answer if line.startswith(b"data: ")]
        [found] = [line["value"] for line in lines if line["type"] == "CUSTOM"]
        return dict(found)

    def _handles(self) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for each in (self._proc / "fd").iterdir():
            try:
                found[re.sub(r"\d+", "N", str(each.readlink()))] += 1
            except FileNotFoundError:
                continue  # closed just now
        return dict(found)


@asynccontextmanager
async def serving(folder: Path, faults: Sequence[str]) -> AsyncIterator[Server]:
    """Run the server on a free port of 127.0.0.1; afterwards end it, by its own id."""
    log = folder / "serve.txt"
    environ = {name: value for name, value in os.environ.items() if "INTERPOSE" not in name}
    environ |= {"PYTHONUNBUFFERED": "1", "LOAD_FAULTS": ",".join(faults)}
    command = ["-m", "interpose", "serve", "--config", str(CONFIG), "--port", "0"]
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=PIPE, stderr=errors, cwd=folder, env=environ
        )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_PATIENCE):
            line = (await process.stdout.readline()).decode()
        address = re.search(r"http://127\.0\.0\.1:\d+/", line)
        if address is None:
            raise RuntimeError(f"the server did not start:\n{log.read_text()}")
        yield Server(process, address[0], log)
    finally:
        await _stop(process)


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_PATIENCE):
            code = await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise RuntimeError("the server did not stop") from None
    if code != 0:
        raise RuntimeError(f"the server ended with {code}")
