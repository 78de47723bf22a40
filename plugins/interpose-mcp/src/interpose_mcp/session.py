"""A session with one server, in a task of its own.

The SDK's client holds scopes that belong to the task that entered it. So one task enters it, waits,
and leaves it; everybody else only asks it for things.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from mcp import Client, MCPError
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    PaginatedRequestParams,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
    Tool,
    ToolListChangedNotification,
)
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from interpose_mcp.failures import ConnectFailed, McpFailure, leaves, report
from interpose_mcp.target import Target

if TYPE_CHECKING:
    from loguru import Logger

CLOSING: Final = 8.0
"""Seconds that leaving a session may take: a DELETE over HTTP, a program that has to be ended."""
MOST_PAGES: Final = 100
MOST_TOOLS: Final = 5_000

T = TypeVar("T")


class OnProgress(Protocol):
    """Takes how far a call has come."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...  # noqa: D102


class Session:
    """An open session. Make it with :meth:`open`, and close it.

    ``on_change`` is called when the server says that its tools have changed, and when the session
    ends by itself: whoever keeps a listing cannot hear of changes any more.
    """

    def __init__(
        self, target: Target, log: Logger, on_change: Callable[[], None] | None = None
    ) -> None:
        self.target = target
        self._log = log
        self._on_change = on_change
        self._client: Client | None = None
        self._stop = asyncio.Event()
        self._closing = False
        self._broken: BaseException | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, target: Target, log: Logger, on_change: Callable[[], None] | None = None
    ) -> Session:
        """Connect. Raises :class:`ConnectFailed`, after all of it has gone to the log."""
        session = cls(target, log, on_change)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = session._task = asyncio.create_task(
            session._own(ready), name=f"session with the MCP server {target.id}"
        )
        try:
            await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            ready.cancel()
            task.cancel()
            await session.close()
            raise
        if session._client is None:
            await asyncio.wait([task])
            error = session._broken or ConnectionError("the session ended at once")
            session._report("connecting to an MCP server failed", error)
            slow = any(isinstance(leaf, TimeoutError) for leaf in leaves(error))
            why = f" within {target.settings.connect_timeout:g} s" if slow else ""
            raise ConnectFailed(
                f"The MCP server {target.id!r} could not be reached{why}."
            ) from error
        return session

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

    @property
    def tells_of_changes(self) -> bool:
        """Whether the server has promised to say when its tools change."""
        if self._client is None:
            return False
        tools = self._client.server_capabilities.tools
        return bool(tools is not None and tools.list_changed)

    def when_ended(self, then: Callable[[Session], object]) -> None:
        """Call ``then`` with the session once it has ended, for whatever reason."""
        if self._task is not None:
            self._task.add_done_callback(lambda _: then(self))

    async def close(self) -> None:
        """End the session, in bounded time. What it could not do in that goes to the log."""
        self._closing = True
        self._stop.set()
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=CLOSING + 1)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task], timeout=1)

    async def _own(self, ready: asyncio.Future[None]) -> None:
        """Enter the client, wait, leave it: all in this task."""
        loop = asyncio.get_running_loop()
        entered = False
        try:
            async with asyncio.timeout(self.target.settings.connect_timeout) as limit:
                async with self.target.client(self._heard) as client:
                    entered = True
                    limit.reschedule(None)
                    self._client = client
                    if not ready.done():
                        ready.set_result(None)
                    await self._until_stopped(client)
                    limit.reschedule(loop.time() + CLOSING)
        except BaseException as error:  # noqa: BLE001 - nobody awaits this task for its outcome
            self._broken = error
            if entered and not isinstance(error, asyncio.CancelledError):
                ended = "MCP session cleanup failed" if self._closing else "an MCP session ended"
                self._report(ended, error)
        finally:
            self._stop.set()
            if self._on_change is not None and not self._closing:
                self._on_change()

    async def _until_stopped(self, client: Client) -> None:
        """Wait for the end, and listen for changes meanwhile if somebody wants to know."""
        if self._on_change is None or not self.tells_of_changes:
            await self._stop.wait()
            return
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await self._stop.wait()  # they come to the client's message handler
            return
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            async with client.listen(tools_list_changed=True) as changes:
                heard = asyncio.ensure_future(_each(changes, self._on_change))
                try:
                    await asyncio.wait([stopped, heard], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    heard.cancel()
                    await asyncio.gather(heard, return_exceptions=True)
        finally:
            stopped.cancel()

    async def _heard(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification) and self._on_change is not None:
            self._on_change()

    # What it is asked for --------------------------------------------------------------------
    async def tools(self) -> tuple[Tool, ...]:
        """Return all tools, from all pages. :class:`McpFailure` if that never ends."""
        found: list[Tool] = []
        cursors: set[str] = set()
        cursor: str | None = None
        while True:
            params = PaginatedRequestParams(cursor=cursor)

            async def ask(client: Client, params: PaginatedRequestParams = params) -> Any:
                return await client.session.list_tools(params=params)

            page = await self._ask("listing tools", ask)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return tuple(found)
            if cursor in cursors or len(cursors) >= MOST_PAGES or len(found) > MOST_TOOLS:
                why = "repeats a cursor" if cursor in cursors else "never ends"
                error = ValueError(f"the listing {why} ({len(found)} tools so far)")
                self._report("listing the tools of the MCP server failed", error)
                raise McpFailure(f"The listing of the MCP server {self.target.id!r} {why}.")
            cursors.add(cursor)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> CallToolResult:
        """Call a tool. A result that says that it is an error is a result, too."""
        request = CallToolRequest(
            params=CallToolRequestParams(name=tool, arguments=dict(arguments))
        )

        async def call(client: Client) -> CallToolResult:
            try:
                return await client.session.send_request(
                    request, CallToolResult, progress_callback=on_progress
                )
            except MCPError as error:
                if error.code != HEADER_MISMATCH:
                    raise
            # The tool wants arguments in headers, too: the SDK reads its schema for that.
            return await client.call_tool(tool, dict(arguments), progress_callback=on_progress)

        return await self._ask("calling a tool", call)

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Read a resource."""
        request = ReadResourceRequest(params=ReadResourceRequestParams(uri=uri))
        return await self._ask(
            "reading a resource",
            lambda client: client.session.send_request(request, ReadResourceResult),
        )

    async def ping(self) -> None:
        """Ask for a sign of life. Newer protocols have none but the answer to connecting."""
        client = self._client
        if client is None or client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
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
            raise self._told(error) from error
        except Exception as error:
            self._report(f"{what} failed at an MCP server", error)
            raise McpFailure(f"The MCP server {id_!r} gave no valid answer.") from error

    def _told(self, error: MCPError) -> McpFailure:
        """Return what may be said of an error of the protocol: its kind, never its text."""
        name, seconds = repr(self.target.id), self.target.settings.timeout
        match error.code:
            case _ if error.code == INVALID_REQUEST and error.message == "Session terminated":
                self._stop.set()
                return McpFailure(f"The MCP server {name} has ended the session.", executed=False)
            case code if code == CONNECTION_CLOSED:
                self._stop.set()
                return McpFailure(f"The connection to the MCP server {name} ended during the call.")
            case code if code == REQUEST_TIMEOUT:
                return McpFailure(f"The MCP server {name} took longer than {seconds:g} s.")
            case code if code == INVALID_PARAMS:
                return McpFailure(f"The MCP server {name} does not accept the arguments.")
            case code if code == METHOD_NOT_FOUND:
                return McpFailure(f"The MCP server {name} cannot do that.", executed=False)
        return McpFailure(f"The MCP server {name} answered with an error ({error.code}).")

    def _report(self, what: str, error: BaseException) -> None:
        target = self.target
        report(self._log, what, target.id, target.digest, error, secrets=target.secrets)


async def _each(changes: Any, on_change: Callable[[], None]) -> None:
    async for _ in changes:
        on_change()
