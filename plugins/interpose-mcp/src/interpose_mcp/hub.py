"""The servers of one layer, for all runs of a host: their listings, and the sessions they share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mcp.types import Tool

from interpose_mcp.failures import McpFailure
from interpose_mcp.routes import sound
from interpose_mcp.session import Session
from interpose_mcp.settings import McpSettings
from interpose_mcp.target import Target, target_of

if TYPE_CHECKING:
    from loguru import Logger

    from interpose import Clock, LifespanContext

REST: Final = 30.0
"""How long a server that could not be listed is left alone, in seconds."""


@dataclass(slots=True)
class _Entry:
    """What is known of one server. ``changes`` counts what makes a listing old."""

    target: Target
    session: Session | None = None
    opening: asyncio.Task[Session] | None = None
    listing: asyncio.Task[tuple[Tool, ...]] | None = None
    tools: tuple[Tool, ...] | None = None
    failed: McpFailure | None = None
    changes: int = 0
    read_at: float = 0.0
    kept: bool = False
    """Whether a session is open that would tell of changes."""


class Hub:
    """Listings are read when a run needs them, once for all runs that wait for them.

    A listing is kept while a session is open whose server promised to tell of changes; else for
    ``max_age`` seconds.
    """

    def __init__(
        self, targets: Mapping[str, Target], *, max_age: float, clock: Clock, log: Logger
    ) -> None:
        self.targets = targets
        self.log = log
        self._clock = clock
        self._max_age = max_age
        self._entries = {id_: _Entry(target) for id_, target in targets.items()}
        self._sessions: set[Session] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._warned: set[str] = set()

    async def tools(self, server: str) -> tuple[Tool, ...]:
        """Return the tools of a server that can be offered. :class:`McpFailure` when it cannot be listed."""
        entry = self._entries[server]
        age = self._clock.monotonic() - entry.read_at
        if entry.failed is not None and age < REST:
            raise entry.failed
        if entry.tools is not None and (entry.kept or age < self._max_age):
            return entry.tools
        if entry.listing is None or entry.listing.done():
            entry.listing = self._start(self._list(entry))
        return await asyncio.shield(entry.listing)

    async def _list(self, entry: _Entry) -> tuple[Tool, ...]:
        changes = entry.changes
        try:
            session = await self._shared(entry)
            tools, faults = sound(await session.tools())
        except McpFailure as error:
            entry.failed, entry.tools, entry.read_at = error, None, self._clock.monotonic()
            raise
        for name, fault in faults.items():
            self.log.warning(
                "the tool {!r} of the MCP server {!r} is left out: {}", name, entry.target.id, fault
            )
        entry.failed, entry.read_at = None, self._clock.monotonic()
        entry.tools = tools if entry.changes == changes else None
        entry.kept = session.is_open and session.tells_of_changes
        if not entry.kept and entry.target.settings.session == "run":
            self._start(session.close())
            entry.session = None
        return tools

    async def session(self, server: str) -> Session:
        """Return the session that all runs share. :class:`McpFailure` when there is none."""
        return await self._shared(self._entries[server])

    async def _shared(self, entry: _Entry) -> Session:
        if entry.session is not None and entry.session.is_open:
            return entry.session
        if entry.opening is None or entry.opening.done():
            entry.opening = self._start(self._opened(entry))
        return await asyncio.shield(entry.opening)

    async def _opened(self, entry: _Entry) -> Session:
        def changed() -> None:
            entry.changes += 1
            entry.tools, entry.kept = None, False

        entry.session = await self.open(entry.target.id, changed)
        return entry.session

    async def open(self, server: str, on_change: Any = None) -> Session:
        """Return a new session of the caller's own; the host ends it if nobody else does."""
        session = await Session.open(self.targets[server], self.log, on_change)
        self._sessions.add(session)
        session.when_ended(self._sessions.discard)
        return session

    async def close(self) -> None:
        """End everything, side by side and in bounded time."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(session.close() for session in tuple(self._sessions)))

    def warn_once(self, text: str) -> None:
        """Tell the operator something that is so in every run, the first time only."""
        if text not in self._warned:
            self._warned.add(text)
            self.log.warning("{}", text)

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start work that outlives the run which needs it first."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it was told


@asynccontextmanager
async def hub(
    settings: McpSettings, ctx: LifespanContext, *, ui: bool = False
) -> AsyncGenerator[Hub]:
    """Return the hub of a layer. It connects to nothing before a run needs it."""
    targets = {
        id_: target_of(id_, server, ctx.folder, ui=ui) for id_, server in settings.servers.items()
    }
    made = Hub(targets, max_age=settings.max_age, clock=ctx.clock, log=ctx.log)
    try:
        yield made
    finally:
        await made.close()
