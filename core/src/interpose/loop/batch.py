"""The tool calls of one iteration: side by side, and committed in the order of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ag_ui.core import BaseEvent, Interrupt

from interpose.interrupts import Resolutions
from interpose.loop.streams import owned
from interpose.loop.tools import LoopTool
from interpose.payloads import ToolCall, ToolCallInfo, ToolResult

_CLOSING: Final = 10.0
"""Seconds that cancelled tool calls have to end."""

Source = Literal["executed", "skipped", "denied", "cached", "invalid"]


@dataclass(slots=True)
class Pending:
    """One call on its way to a result.

    ``raw``: the arguments as the model wrote them, parsed. ``result``: set when the call needs no
    execution. ``tool`` None: there is none. ``approved``: a person has said yes;
    ``edited``: to these arguments. ``resolutions``: answers to what the call itself had asked.
    """

    call: ToolCall
    raw: ToolCall
    tool: LoopTool | None = None
    result: ToolResult | None = None
    source: Source = "executed"
    decided_by: str | None = None
    reason: str | None = None
    approved: bool = False
    edited: Mapping[str, Any] | None = None
    resolutions: Resolutions = field(default_factory=Resolutions)

    @property
    def is_clients(self) -> bool:
        """Whether the client runs it."""
        return self.tool is not None and self.tool.run is None and self.result is None

    def settle(
        self, result: ToolResult, source: Source, by: str | None = None, reason: str | None = None
    ) -> None:
        """Give the call a result without executing it."""
        self.result, self.source, self.decided_by, self.reason = result, source, by, reason


@dataclass(slots=True)
class Settled:
    """What came of a call in its own task; ``asked``: it waits for people."""

    result: ToolResult | None
    seconds: float
    source: Source = "executed"
    asked: list[Interrupt] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """An event that has been through the layers inside the history cut."""

    event: BaseEvent


Send = Callable[[BaseEvent | Rewritten], None]
Execute = Callable[[Pending, Send], Awaitable[Settled]]
Commit = Callable[[ToolCallInfo], AsyncIterator[BaseEvent]]


class Batch:
    """Runs calls with a limit, and yields what they report and what they give.

    After :meth:`events`, ``infos`` holds the settled calls in call order, ``asked`` the questions
    of calls that wait for people, with the call.
    """

    def __init__(
        self,
        items: Sequence[Pending],
        execute: Execute,
        commit: Commit,
        rewrite: Callable[[BaseEvent], AsyncIterator[BaseEvent]],
        most: int,
    ) -> None:
        self._items = items
        self._execute = execute
        self._commit = commit
        self._rewrite = rewrite
        self._slots = asyncio.Semaphore(most)
        self.infos: list[ToolCallInfo] = []
        self.asked: list[tuple[Pending, Interrupt]] = []
        self._news: asyncio.Queue[BaseEvent | Rewritten | None] = asyncio.Queue()

    async def events(self) -> AsyncIterator[BaseEvent]:
        """Yield events while calls run; results in call order. Raises what fails the run."""
        tasks = [
            asyncio.create_task(self._run(item), name=f"tool call {item.call.id}")
            for item in self._items
        ]
        for task in tasks:
            task.add_done_callback(lambda _: self._news.put_nowait(None))
        committed = 0
        try:
            while committed < len(tasks):
                for task in tasks:
                    if task.done():
                        task.result()  # what fails the run does so at once
                if tasks[committed].done():
                    async with owned(self._drained()) as stream:
                        async for event in stream:
                            yield event
                    async with owned(
                        self._settled(self._items[committed], tasks[committed])
                    ) as stream:
                        async for event in stream:
                            yield event
                    committed += 1
                    continue
                async with owned(self._told(await self._news.get())) as stream:
                    async for event in stream:
                        yield event
            async with owned(self._drained()) as stream:
                async for event in stream:
                    yield event
        finally:
            await _end(tasks)

    async def _drained(self) -> AsyncIterator[BaseEvent]:
        while not self._news.empty():
            async with owned(self._told(self._news.get_nowait())) as stream:
                async for event in stream:
                    yield event

    async def _told(self, news: BaseEvent | Rewritten | None) -> AsyncIterator[BaseEvent]:
        """Yield what a call reports."""
        if isinstance(news, Rewritten):
            yield news.event
        elif news is not None:
            async with owned(self._rewrite(news)) as stream:
                async for event in stream:
                    yield event

    async def _run(self, item: Pending) -> Settled:
        if item.result is not None:
            return Settled(item.result, 0.0, item.source)
        async with self._slots:
            return await self._execute(item, self._news.put_nowait)

    async def _settled(
        self, item: Pending, task: asyncio.Task[Settled]
    ) -> AsyncIterator[BaseEvent]:
        settled = task.result()
        self.asked += ((item, interrupt) for interrupt in settled.asked)
        if settled.result is None:
            return
        info = ToolCallInfo(
            call=item.call,
            ok=settled.result.error is None,
            result=settled.result,
            duration=settled.seconds,
            source=settled.source,
            decided_by=item.decided_by,
            reason=item.reason,
        )
        self.infos.append(info)
        async with owned(self._commit(info)) as stream:
            async for event in stream:
                yield event


async def _end(tasks: Sequence[asyncio.Task[Settled]]) -> None:
    """Cancel what still runs, and await it; what it raises then is nobody's any more."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=_CLOSING)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # it has been looked at
