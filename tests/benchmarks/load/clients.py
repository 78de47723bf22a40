"""The clients: they ask, read what comes, sometimes leave, and say what they made of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from interpose.agui import SseReader

from .workload import SECRET, said

Plan = Literal["finish", "leave", "fail"]
_CALL: Final = ("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT")
_BEGINNING: Final = ("RUN_STARTED", *_CALL, "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT")
SHAPES: Final[dict[Plan, tuple[str, ...]]] = {
    "finish": (*_BEGINNING, "TEXT_MESSAGE_END", "RUN_FINISHED"),
    "fail": (*_BEGINNING, "TEXT_MESSAGE_END", "RUN_ERROR"),
}
"""The types of the events of a run, with those of its deltas once."""
_PATIENCE: Final = 30.0
_TENTH: Final = 10
_EXAMPLES: Final = 5


@dataclass(slots=True)
class Outcomes:
    """What came of all runs. ``as_meant``: by what was meant. ``unexpected``: what else was."""

    begun: int = 0
    events: int = 0
    as_meant: Counter[str] = field(default_factory=Counter)
    unexpected: list[str] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    def surprise(self, text: str) -> None:
        """Keep what should not have been."""
        self.unexpected.append(text)

    @property
    def examples(self) -> list[str]:
        """The first surprises."""
        return self.unexpected[:_EXAMPLES]


@dataclass(frozen=True, slots=True)
class Load:
    """How much: clients, seconds, and the pace of each run."""

    clients: int
    seconds: float
    interval: float
    deltas: int

    @property
    def run_seconds(self) -> float:
        """How long a run takes when nothing holds it up."""
        return self.interval * self.deltas


async def put(load: Load, url: str, name: str = "load") -> Outcomes:
    """Let all clients run until the time is over; each ends the run that it is in."""
    outcomes = Outcomes()
    end = time.monotonic() + load.seconds
    pause = load.run_seconds / load.clients
    async with asyncio.TaskGroup() as group:
        for number in range(load.clients):
            client = Client(f"{name}-{number}", url, load, outcomes, leaves=number % _TENTH == 0)
            group.create_task(client.go_on_until(end))
            await asyncio.sleep(pause)  # not all runs in step
    return outcomes


class Client:
    """One client: one run after another, on one connection while it lasts."""

    def __init__(
        self, name: str, url: str, load: Load, outcomes: Outcomes, *, leaves: bool
    ) -> None:
        self._name = name
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)
        self._load = load
        self._outcomes = outcomes
        self._leaves = leaves
        self._count = sum(name.encode())  # so that failures do not come in step either
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def go_on_until(self, end: float) -> None:
        """Have runs until the time comes."""
        try:
            while time.monotonic() < end:
                self._count += 1
                await self._one(self._plan())
        finally:
            self._hang_up()

    def _plan(self) -> Plan:
        if self._leaves:
            return "leave"
        return "fail" if self._count % (_TENTH - 1) == 0 else "finish"

    async def _one(self, plan: Plan) -> None:
        outcomes = self._outcomes
        outcomes.begun += 1
        events: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(_PATIENCE + self._load.run_seconds):
                await self._ask(plan, events)
        except (OSError, EOFError, TimeoutError, ValueError) as error:
            wrong = f"{type(error).__name__}: {error}"
        else:
            wrong = self._wrong_with(plan, events)
        outcomes.events += len(events)
        if wrong:
            self._hang_up()
            outcomes.surprise(f"{self._name}, which was to {plan}: {wrong}")
        else:
            outcomes.as_meant[plan] += 1

    async def _ask(self, plan: Plan, events: list[dict[str, Any]]) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        writer.write(self._request(plan))
        await _head(reader)
        parser = SseReader()
        last = time.monotonic()
        while chunk := await _chunk(reader):
            now = time.monotonic()
            self._outcomes.gaps.append(now - last)
            last = now
            events.extend(json.loads(each.data) for each in parser.feed(chunk))
            if plan == "leave" and len(events) > self._load.deltas // 2:
                self._hang_up()
                return

    def _request(self, plan: Plan) -> bytes:
        asked = {
            "protocolVersion": "1.0",
            "threadId": self._name,
            "runId": f"{self._name}-{self._count}",
            "messages": [{"id": "u1", "role": "user", "content": "Where is my order?"}],
            "forwardedProps": {
                "deltas": self._load.deltas,
                "interval": self._load.interval,
                "raises": plan == "fail",
            },
        }
        content = json.dumps(asked)
        return (
            "POST / HTTP/1.1\r\nhost: load\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\n\r\n{content}"
        ).encode()

    def _wrong_with(self, plan: Plan, events: list[dict[str, Any]]) -> str:
        """Say what is wrong with a run's events, or nothing."""
        if plan == "leave":
            return ""
        types = [each["type"] for each in events]
        content = "TEXT_MESSAGE_CONTENT"
        once = [
            kind for at, kind in enumerate(types) if kind != content or types[at - 1] != content
        ]
        text = "".join(each["delta"] for each in events if each["type"] == content)
        whole = said(self._load.deltas)
        if tuple(once) != SHAPES[plan]:
            return f"the events were {once}"
        if text != whole and not (plan == "fail" and whole.startswith(text)):
            return f"the text was {text!r}"
        if plan == "fail" and SECRET in json.dumps(events[-1]):
            return "the error tells what the agent said"
        return ""

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def _head(reader: asyncio.StreamReader) -> None:
    """Read the head of an answer, which must begin a stream."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    status = head.split(" ", 2)[1]
    if status != "200" or "text/event-stream" not in head:
        raise ValueError(f"the answer was HTTP {status}")


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    """Read one chunk of a chunked answer; empty at the end."""
    size = int(await reader.readuntil(b"\r\n"), 16)
    return (await reader.readexactly(size + 2))[:size]
