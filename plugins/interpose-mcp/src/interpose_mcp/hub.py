"""The servers of one layer, for all runs of a host: their listings, and the sessions they share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mcp.types import Tool

from interpose import StartupError, UsageError
from interpose_mcp.failures import ConnectFailed, McpFailure
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
    """What is known of one server."""

    target: Target
    session: Session | None = None
    """The session that listings are read in; the one that runs share, if they do."""
    opening: asyncio.Task[Session] | None = None
    listing: asyncio.Task[tuple[Tool, ...]] | None = None
    tools: tuple[Tool, ...] | None = None
    failed: str | None = None
    read_at: float = 0.0
    changes: int = 0
    """Counts what makes a listing old."""
    listed: int = 0
    """The count when the listing that runs last was asked for."""


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
        self._context = copy_context()
        self._closed = False

    async def tools(self, server: str) -> tuple[Tool, ...]:
        """Return the tools of a server that can be offered; :class:`McpFailure` without a list."""
        entry = self._entries[server]
        age = self._clock.monotonic() - entry.read_at
        if entry.failed is not None and age < REST:
            raise McpFailure(entry.failed, executed=False)
        hears = entry.session is not None and entry.session.hears
        if entry.tools is not None and (hears or age < self._max_age):
            return entry.tools
        listing = entry.listing
        if listing is None or listing.done() or entry.listed != entry.changes:
            entry.listed = entry.changes
            listing = entry.listing = self._start(self._list(entry))
        return await asyncio.shield(listing)

    async def _list(self, entry: _Entry) -> tuple[Tool, ...]:
        entry.failed = None
        try:
            session, changes, listed = await self._read(entry)
        except McpFailure as error:
            if entry.listing is asyncio.current_task():
                entry.failed, entry.tools = error.message, None
                entry.read_at = self._clock.monotonic()
            raise
        tools, faults = sound(listed)
        for name, fault in faults.items():
            self.log.warning(
                "the tool {!r} of the MCP server {!r} is left out: {}", name, entry.target.id, fault
            )
        if entry.changes == changes:
            entry.tools, entry.read_at = tools, self._clock.monotonic()
        if not session.hears and entry.target.settings.session == "run":
            if entry.session is session:
                entry.session = None
            self._start(session.close())
        return tools

    async def _read(self, entry: _Entry) -> tuple[Session, int, tuple[Tool, ...]]:
        """Return a listing, in what session it was read, and how many changes came before it.

        A session that has been there for a while may turn out to have ended: then in a new one.
        """
        known = entry.session
        while True:
            session = await self._shared(entry)
            try:
                await session.listen()
                changes = entry.listed = entry.changes
                return session, changes, await session.tools()
            except McpFailure:
                if session is not known or session.is_open:
                    raise

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
        entry.session = await self._connected(entry, listens=True)
        return entry.session

    async def open(self, server: str) -> Session:
        """Return a new session of the caller's own; the host ends it if nobody else does."""
        return await self._connected(self._entries[server], listens=False)

    async def _connected(self, entry: _Entry, *, listens: bool) -> Session:
        id_ = entry.target.id
        if self._closed:
            raise ConnectFailed(f"The MCP server {id_!r} is not asked any more: the host ends.")

        def changed() -> None:
            entry.changes += 1
            entry.tools = None

        session = Session(entry.target, self.log, changed, self._sessions.discard, listens=listens)
        self._sessions.add(session)
        await session.connect()
        return session

    async def close(self) -> None:
        """End everything, side by side and in bounded time."""
        self._closed = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        closing = [asyncio.create_task(session.close()) for session in self._sessions]
        if tasks or closing:
            await asyncio.wait([*tasks, *closing])

    def warn_once(self, text: str) -> None:
        """Tell the operator something that is so in every run, the first time only."""
        if text not in self._warned:
            self._warned.add(text)
            self.log.warning("{}", text)

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start work that outlives the run which needs it first."""
        task = asyncio.create_task(work, context=self._context.copy())
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
    targets = _targets(settings, ctx, ui=ui)
    made = Hub(targets, max_age=settings.max_age, clock=ctx.clock, log=ctx.log)
    try:
        yield made
    finally:
        await made.close()


def _targets(settings: McpSettings, ctx: LifespanContext, *, ui: bool) -> dict[str, Target]:
    """Return the targets of all servers. Raises once, with all that is wrong with them."""
    found: dict[str, Target] = {}
    wrong: list[UsageError] = []
    for id_, server in settings.servers.items():
        try:
            found[id_] = target_of(id_, server, ctx.folder, ui=ui)
        except UsageError as error:
            wrong.append(error)
    if len(wrong) > 1:
        label = f"layer {ctx.layer_id!r}"
        raise StartupError(
            replace(each.problem, message=f"{label}: {each.message}") for each in wrong
        )
    if wrong:
        raise wrong[0]
    return found
