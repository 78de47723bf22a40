"""What the tests of tools share: a run to stand on, a clock to drive, and one call that executes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, cast

from ag_ui.core import BaseEvent, Interrupt

from interpose import Capability, CapabilityError
from interpose.context import AgentContext
from interpose.logs import bound
from interpose.loop.execution import ToolContext, execute
from interpose.loop.tools import LoopTool
from interpose.payloads import ToolCall, ToolResult
from interpose.services import Clock, RunServices


class RealClock:
    """The machine's time."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def time(self) -> float:
        return self.monotonic()

    async def sleep(self, seconds: float, /) -> None:
        await asyncio.sleep(seconds)


class DrivenClock:
    """Time that stands until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleepers: list[tuple[float, asyncio.Event]] = []

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float, /) -> None:
        woken = asyncio.Event()
        self.sleepers.append((self.now + seconds, woken))
        await woken.wait()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for due, woken in self.sleepers:
            if due <= self.now:
                woken.set()


class ControlFlow(BaseException):
    """Stands for what the host ends a run with."""


class Services:
    """As much of a run as a tool sees."""

    run_id = "run-1"
    thread_id = "thread-1"

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or RealClock()
        self.cancelled = False
        self.metadata: dict[str, Any] = {"plan": "pro"}
        self.given: dict[Capability[Any], Any] = {}

    def log(self, agent: str, /) -> Any:
        return bound(run=self.run_id, agent=agent)

    def read(self, agent: str, capability: Capability[Any], /) -> Any:
        if capability not in self.given:
            raise CapabilityError(f"nobody provides {capability}")
        return self.given[capability]

    def find(self, agent: str, capability: Capability[Any], /) -> Any:
        return self.given.get(capability)


class Calls:
    """One run that calls tools; ``events`` is what they sent."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.services = Services(clock)
        self.events: list[BaseEvent] = []
        self.asked: list[Interrupt] = []
        self.aborted: list[str] = []

    def context(self, call: ToolCall) -> ToolContext:
        run = AgentContext(cast("RunServices", self.services), "agent")
        return ToolContext(
            call,
            run,
            origin="run-0",
            send=self.events.append,
            interrupt=self._interrupt,
            abort=self._abort,
        )

    async def execute(
        self,
        tool: LoopTool,
        args: Mapping[str, Any] | None = None,
        *,
        seconds: float | None = None,
        call_id: str = "call-1",
    ) -> ToolResult:
        call = ToolCall(call_id, tool.name, tool.validate(args or {}))
        return await execute(tool, call, self.context(call), timeout=seconds)

    @property
    def progress(self) -> list[Any]:
        return [getattr(event, "value", None) for event in self.events]

    def _interrupt(self, *interrupts: Interrupt) -> NoReturn:
        asyncio.get_running_loop()  # only there it may touch the run
        self.asked += interrupts
        raise ControlFlow("interrupted")

    def _abort(self, reason: str) -> NoReturn:
        asyncio.get_running_loop()
        self.aborted.append(reason)
        raise ControlFlow(reason)


def run(tool: LoopTool, args: Mapping[str, Any] | None = None, **options: Any) -> ToolResult:
    """Execute one call and return its result."""
    return asyncio.run(Calls().execute(tool, args, **options))


async def until(condition: Callable[[], object]) -> None:
    """Let others run until the condition holds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - it may be a thread that makes it true
            await asyncio.sleep(0.001)
