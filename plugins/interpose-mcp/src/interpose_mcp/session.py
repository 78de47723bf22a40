"""A session with one server, in a task of its own.

The SDK's client holds scopes that belong to the task that entered it. So one task enters it, waits,
and leaves it; everybody else only asks it for things.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from mcp import Client, MCPError
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
    Tool,
    ToolListChangedNotification,
)
from mcp_types import HEADER_MISMATCH
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict, TypeAdapter

from interpose_mcp.failures import ConnectFailed, McpFailure, failure_of, leaves, report, story
from interpose_mcp.http import LISTENING_SECONDS, Fault
from interpose_mcp.masking import masked
from interpose_mcp.target import Connection, Target

if TYPE_CHECKING:
    from loguru import Logger

CLOSING: Final = 7.0
"""Seconds that leaving a session may take: a DELETE over HTTP, a program that has to be ended."""
SLACK: Final = 3.0
"""Seconds more before leaving is broken off: a program that was to be ended may stay then."""
MOST_PAGES: Final = 100
MOST_TOOLS: Final = 5_000

_ANYTHING: Final[TypeAdapter[Any]] = TypeAdapter(Any)

T = TypeVar("T")


class _Called(CallToolResult):
    """A result with all that the server says in it, for a front end that may know more of it."""

    model_config = ConfigDict(extra="allow")


class _Read(ReadResourceResult):
    """Likewise."""

    model_config = ConfigDict(extra="allow")


class OnProgress(Protocol):
    """Takes how far a call has come."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...  # noqa: D102


class Session:
    """A session. Make it with :meth:`open`, and close it.

    ``on_change`` is called when the server says that its tools have changed; if the session
    ``listens``, also when it may have said so unheard, and when the session ends by itself.
    ``on_end`` is called when it has ended.
    """

    def __init__(
        self,
        target: Target,
        log: Logger,
        on_change: Callable[[], None] | None = None,
        on_end: Callable[[Session], object] | None = None,
        *,
        listens: bool = False,
    ) -> None:
        self.target = target
        self._log = log
        self._on_change = on_change
        self._on_end = on_end
        self._listens = listens
        self._connection: Connection = target.connection(self)
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._closing = False
        self._leaving = False
        self._limit: asyncio.Timeout | None = None
        self._broken: BaseException | None = None
        self._listening: asyncio.Task[None] | None = None
        self._acknowledged: asyncio.Future[None]

    @classmethod
    async def open(cls, target: Target, log: Logger) -> Session:
        """Return a session that is connected. Raises :class:`ConnectFailed`, see there."""
        session = cls(target, log)
        try:
            await session.connect()
        except ConnectFailed:
            await session.close()  # nobody else knows it, and a program may still have to be ended
            raise
        return session

    async def connect(self) -> None:
        """Connect, once. Raises :class:`ConnectFailed`, after all of it has gone to the log."""
        id_, limit = self.target.id, self.target.settings.connect_timeout
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._own(ready), name=f"session with the MCP server {id_}")
        self._task = task
        if self._on_end is not None:
            on_end = self._on_end
            task.add_done_callback(lambda _: on_end(self))
        try:
            # The task knows the limit; what it needs to clean up after it is not waited for.
            await asyncio.wait(
                [task, ready], timeout=limit + 0.5, return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            await self.close()
            raise
        if self._client is None:
            error = self._broken or TimeoutError()
            self._report("connecting to an MCP server failed", error)
            slow = any(isinstance(leaf, TimeoutError) for leaf in leaves(error))
            why = f" within {limit:g} s" if slow else ""
            raise ConnectFailed(f"The MCP server {id_!r} could not be reached{why}.") from error

    @property
    def is_open(self) -> bool:
        """Whether it can still be asked for something."""
        return self._client is not None and not self._stop.is_set()

    @property
    def protocol(self) -> str:
        """The version of the protocol that was agreed on; empty without a session."""
        return self._client.protocol_version if self._client is not None else ""

    @property
    def server(self) -> str:
        """What the server calls itself, with its version; empty if it says nothing."""
        about = self._client.server_info if self._client is not None else None
        return f"{about.name} {about.version}".strip() if about is not None else ""

    async def close(self) -> None:
        """End the session, in bounded time. What it could not do in that goes to the log."""
        self._closing = True
        self._stop.set()
        if self._task is None or self._task.done():
            return
        if self._client is None:
            self._cancel()
        await asyncio.wait([self._task], timeout=CLOSING + SLACK)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=1)

    # The task that owns the client -----------------------------------------------------------
    async def _own(self, ready: asyncio.Future[None]) -> None:
        with masked(self.target.secrets):
            await self._held(ready)
        if self._client is not None and self._broken is not None:
            ended = "MCP session cleanup failed" if self._closing else "an MCP session ended"
            self._report(ended, self._broken)

    async def _held(self, ready: asyncio.Future[None]) -> None:
        """Enter the client, wait, leave it: all in this task."""
        try:
            async with (
                asyncio.timeout(self.target.settings.connect_timeout) as self._limit,
                self._connection.client as client,
            ):
                self._limit.reschedule(None)
                self._client = client
                if not ready.done():
                    ready.set_result(None)
                try:
                    await self._stop.wait()
                finally:
                    self._ended()
                    if self._listening is not None:
                        self._listening.cancel()
                    self._allow(CLOSING)
        except (Exception, asyncio.CancelledError, BaseExceptionGroup) as error:  # noqa: BLE001 - nobody awaits this task for its outcome
            self._broken = self._broken or error
        finally:
            self._limit = None
            self._ended()
        if self._listening is not None:
            await asyncio.wait([self._listening])

    def _cancel(self) -> None:
        """Give up connecting, unless that is so already: twice would hit what cleans up."""
        given_up = self._leaving or (self._limit is not None and self._limit.expired())
        if self._task is not None and not given_up:
            self.leaving()
            self._task.cancel()

    def _allow(self, seconds: float) -> None:
        """Let it take so long from now on, if its time is not over already."""
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + seconds)

    def _ended(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self.missed()

    # What it is told -------------------------------------------------------------------------
    async def heard(self, message: Any, /) -> None:
        """Take what the server says without being asked."""
        if isinstance(message, ToolListChangedNotification):
            self._changed()

    def lost(self, error: BaseException | None, /) -> None:
        """Be told that nothing can be said or heard any more."""
        if self._closing or self._stop.is_set():
            return
        if self._client is not None:
            self._broken = error or ConnectionError("the server has ended the connection")
            self._ended()
        elif error is not None:
            self._broken = error
            self._cancel()

    def leaving(self) -> None:
        """Be told that the connection is being ended."""
        self._leaving = True
        if self._client is None:
            self._allow(CLOSING)

    def missed(self) -> None:
        """Be told that the server's tools may have changed without a word."""
        if self._listens:
            self._changed()

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()

    @property
    def hears(self) -> bool:
        """Whether it will be told when the server's tools change. See :meth:`listen`."""
        if not self._can_hear():
            return False
        if self.protocol in MODERN_PROTOCOL_VERSIONS:
            listening = self._listening
            return listening is not None and not listening.done() and self._acknowledged.done()
        return self._connection.http is None or self._connection.http.hears

    async def listen(self) -> None:
        """Be told of changes from now on, if the server promised to tell and does. Bounded."""
        client = self._client
        if client is None or not self._can_hear() or self.hears:
            return
        if self.protocol not in MODERN_PROTOCOL_VERSIONS:
            if self._connection.http is not None:
                await self._connection.http.listen()
            return
        if self._listening is None or self._listening.done():
            self._acknowledged = asyncio.get_running_loop().create_future()
            self._listening = asyncio.create_task(self._listen(client, self._acknowledged))
        listening, answers = self._listening, [self._listening, self._acknowledged]
        done, _ = await asyncio.wait(
            answers, timeout=LISTENING_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            listening.cancel()

    async def _listen(self, client: Client, acknowledged: asyncio.Future[None]) -> None:
        try:
            async with client.listen(tools_list_changed=True) as changes:
                if changes.honored.tools_list_changed:
                    acknowledged.set_result(None)
                    async for _ in changes:
                        self._changed()
        except Exception as error:  # noqa: BLE001 - listings just are not kept for so long then
            why = story(error, self.target.secrets)
            self._log.debug("the MCP server {!r} tells of no changes: {}", self.target.id, why)
        finally:
            if acknowledged.done():
                self._changed()

    def _can_hear(self) -> bool:
        if self._client is None or not self.is_open or not self._listens:
            return False
        tools = self._client.server_capabilities.tools
        return bool(tools is not None and tools.list_changed)

    # What it is asked for --------------------------------------------------------------------
    async def tools(self) -> tuple[Tool, ...]:
        """Return all tools, from all pages. :class:`McpFailure` if that never ends."""
        seconds = self.target.settings.connect_timeout + self.target.settings.timeout
        try:
            async with asyncio.timeout(seconds):
                return await self._pages()
        except TimeoutError as error:
            self._report("listing the tools of an MCP server failed", error)
            raise McpFailure(
                f"The listing of the MCP server {self.target.id!r} took longer than {seconds:g} s."
            ) from error

    async def _pages(self) -> tuple[Tool, ...]:
        found: list[Tool] = []
        cursors: set[str] = set()
        params: PaginatedRequestParams | None = None
        while True:
            asked = params

            async def ask(
                client: Client, asked: PaginatedRequestParams | None = asked
            ) -> ListToolsResult:
                return await client.session.list_tools(params=asked)

            page = await self._ask("listing tools", ask)
            found += page.tools
            cursor = page.next_cursor
            if not cursor:  # some servers end a listing with an empty one
                return tuple(found)
            if cursor in cursors or len(cursors) >= MOST_PAGES or len(found) > MOST_TOOLS:
                why = "repeats a cursor" if cursor in cursors else "never ends"
                error = ValueError(f"the listing {why} ({len(found)} tools so far)")
                self._report("listing the tools of an MCP server failed", error)
                raise McpFailure(f"The listing of the MCP server {self.target.id!r} {why}.")
            cursors.add(cursor)
            params = PaginatedRequestParams(cursor=cursor)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> CallToolResult:
        """Call a tool. A result that says that it is an error is a result, too."""
        given = dict(arguments)
        _check_sendable(tool, given)
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=given))

        async def call(client: Client) -> CallToolResult:
            try:
                return await client.session.send_request(
                    request, _Called, progress_callback=on_progress
                )
            except MCPError as error:
                if error.code != HEADER_MISMATCH:
                    raise
            # The tool wants arguments in headers, too: the SDK reads its schema for that.
            return await client.call_tool(tool, given, progress_callback=on_progress)

        return await self._ask("calling a tool", call)

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Read a resource."""
        _check_sendable(uri)
        request = ReadResourceRequest(params=ReadResourceRequestParams(uri=uri))
        return await self._ask(
            "reading a resource",
            lambda client: client.session.send_request(request, _Read),
        )

    async def ping(self) -> None:
        """Ask for a sign of life. Newer protocols have none but the answer to connecting."""
        if self.protocol not in MODERN_PROTOCOL_VERSIONS:
            await self._ask("a ping", lambda client: client.session.send_ping())

    async def _ask(self, what: str, ask: Callable[[Client], Awaitable[T]]) -> T:
        """Ask for something; :class:`McpFailure`, after all of it has gone to the log."""
        client, id_ = self._client, self.target.id
        if client is None or not self.is_open:
            raise McpFailure(f"The session with the MCP server {id_!r} has ended.", executed=False)
        try:
            return await ask(client)
        except MCPError as error:
            self._report(f"{what} failed at an MCP server", error)
            if error.code == Fault.SESSION_GONE:
                self._ended()
            seconds = self.target.settings.timeout
            raise failure_of(error, id_, seconds=seconds, still_open=self.is_open) from error
        except Exception as error:
            self._report(f"{what} failed at an MCP server", error)
            raise McpFailure(f"The MCP server {id_!r} gave no valid answer.") from error

    def _report(self, what: str, error: BaseException) -> None:
        target = self.target
        report(self._log, what, target.id, target.digest, error, secrets=target.secrets)


def _check_sendable(*values: Any) -> None:
    """Refuse what the SDK cannot write: it would fail where that ends the session."""
    try:
        json.dumps(values, allow_nan=False, ensure_ascii=False).encode()
        _ANYTHING.dump_python([[[[values]]]], mode="json")  # as deep as it will be in a request
    except (ValueError, TypeError, RecursionError) as error:
        told = "What the MCP server is asked for cannot be written as JSON."
        raise McpFailure(told, executed=False) from error
