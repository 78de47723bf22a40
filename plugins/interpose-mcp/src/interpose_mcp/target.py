"""One configured server, and how to reach it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from ssl import SSLContext
from typing import Any, Final, Protocol, cast

from mcp import Client, StdioServerParameters
from mcp.client import advertise
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server
from mcp.types import Implementation

from interpose import UsageError
from interpose_mcp._version import __version__
from interpose_mcp.failures import secrets_of
from interpose_mcp.hashing import server_hash
from interpose_mcp.http import PinnedClient, SseClient, StreamableClient, tls_for
from interpose_mcp.settings import ServerSettings
from interpose_mcp.streams import Watched

UI_EXTENSION: Final = "io.modelcontextprotocol/ui"
UI_MIME_TYPE: Final = "text/html;profile=mcp-app"


class Listener(Protocol):
    """Who wants to know what a connection does by itself."""

    async def heard(self, message: Any, /) -> None:
        """Take what the server says without being asked."""

    def lost(self, error: BaseException | None, /) -> None:
        """Be told that nothing can be said or heard any more."""

    def leaving(self) -> None:
        """Be told that the connection is being ended."""

    def missed(self) -> None:
        """Be told that the server's tools may have changed without a word."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A client that is not connected yet. One task enters and leaves it."""

    client: Client
    http: StreamableClient | None = None
    """What it sends its requests with, if it speaks streamable HTTP."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server of the configuration. ``ui``: it is told that MCP Apps can be shown."""

    id: str
    settings: ServerSettings
    folder: Path
    ui: bool = False
    server: Any = field(default=None, repr=False)
    """The server itself, if it is in this process."""
    tls: SSLContext | None = field(default=None, repr=False, compare=False)
    """What its clients share, if it speaks HTTP."""

    @property
    def digest(self) -> str:
        """The hash that names the server; of one without an address, the hash of its id."""
        settings = self.settings
        return server_hash(settings.transport, settings.url or self.id)

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be in any text."""
        return secrets_of(self.settings)

    def connection(self, listener: Listener) -> Connection:
        """Return a connection to be."""
        settings = self.settings
        if settings.url is None:
            if settings.command is None:
                return Connection(self._client(self.server, listener))
            return Connection(self._client(_stdio(self._parameters(), listener), listener))
        options: dict[str, Any] = {
            "most": settings.max_response_bytes,
            "tls": self.tls or tls_for(settings.url, trust_env=settings.trust_env),
            "trust_env": settings.trust_env,
            "connecting": settings.connect_timeout,
            "silence": settings.timeout + 30,
        }
        headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        if settings.type == "sse":
            sse = SseClient(settings.url, headers, on_lost=listener.lost, **options)
            return Connection(self._client(_sse(settings.url, sse, listener), listener))
        http = StreamableClient(settings.url, headers, on_gap=listener.missed, **options)
        return Connection(self._client(_http(settings.url, http), listener), http)

    def _client(self, transport: Any, listener: Listener) -> Client:
        ui = [advertise(UI_EXTENSION, {"mimeTypes": [UI_MIME_TYPE]})] if self.ui else None
        return Client(
            transport if transport is self.server else _told(transport, listener),
            mode=self.settings.protocol,
            client_info=Implementation(name="interpose-mcp", version=__version__),
            message_handler=cast("Any", listener.heard),
            extensions=ui,
            cache=None,
            read_timeout_seconds=self.settings.timeout,
        )

    def _parameters(self) -> StdioServerParameters:
        settings = self.settings
        return StdioServerParameters(
            command=cast("str", settings.command),
            args=list(settings.args),
            env={name: value.get_secret_value() for name, value in settings.env.items()},
            cwd=self.folder / (settings.cwd or "."),
            encoding_error_handler="replace",
        )


def target_of(server: str, settings: ServerSettings, folder: Path, *, ui: bool = False) -> Target:
    """Return the target of a configured server. :class:`UsageError` for a bad ``python``."""
    found = None if settings.python is None else _object(server, settings.python)
    url, trust_env = settings.url, settings.trust_env
    tls = None if url is None else tls_for(url, trust_env=trust_env)
    return Target(server, settings, folder, ui, found, tls)


def _object(server: str, reference: str) -> Any:
    module, _, path = reference.partition(":")
    where = f"servers.{server}.python"
    try:
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{reference} could not be imported: {type(error).__name__}: {error}",
            where=where,
            hint="name an object as module:attr; the module has to be importable from here",
        ) from error
    if not isinstance(found, MCPServer | Server):
        raise UsageError(
            f"{reference} is a {type(found).__name__}, not an MCP server",
            where=where,
            hint="name an instance of mcp.server.MCPServer",
        )
    return found


@asynccontextmanager
async def _told(
    transport: AbstractAsyncContextManager[Any], listener: Listener
) -> AsyncGenerator[Any]:
    async with transport as streams:
        try:
            yield streams
        finally:
            listener.leaving()


@asynccontextmanager
async def _http(url: str, http: PinnedClient) -> AsyncGenerator[Any]:
    async with (
        http,
        streamable_http_client(url, http_client=http, max_sse_event_size=http.most) as streams,
    ):
        yield streams


@asynccontextmanager
async def _sse(url: str, http: PinnedClient, listener: Listener) -> AsyncGenerator[Any]:
    def only(*_: Any, **__: Any) -> PinnedClient:
        return http

    async with sse_client(url, httpx_client_factory=only) as streams:
        yield _watched(streams, listener)


@asynccontextmanager
async def _stdio(parameters: StdioServerParameters, listener: Listener) -> AsyncGenerator[Any]:
    """Start the server. What it says on standard error goes where that of this process goes."""
    if sys.__stderr__ is not None:
        async with stdio_client(parameters, errlog=sys.__stderr__) as streams:
            yield _watched(streams, listener)
        return
    with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230 - it never blocks
        async with stdio_client(parameters, errlog=nowhere) as streams:
            yield _watched(streams, listener)


def _watched(streams: Any, listener: Listener) -> Any:
    """Return the streams of a transport that ends when its server does."""
    read, write = streams
    return Watched(read, lambda: listener.lost(None)), write
