"""One configured server, and how to reach it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
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
from interpose_mcp.http import PinnedClient
from interpose_mcp.settings import ServerSettings

UI_EXTENSION: Final = "io.modelcontextprotocol/ui"
UI_MIME_TYPE: Final = "text/html;profile=mcp-app"


class OnMessage(Protocol):
    """Takes what the server sends by itself."""

    async def __call__(self, message: Any, /) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Target:
    """A server of the configuration. ``ui``: it is told that MCP Apps can be shown."""

    id: str
    settings: ServerSettings
    folder: Path
    ui: bool = False
    server: Any = field(default=None, repr=False)
    """The server itself, if it is in this process."""

    @property
    def digest(self) -> str:
        """The hash that names the server; of one without an address, the hash of its id."""
        settings = self.settings
        return server_hash(settings.transport, settings.url or self.id)

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be in any text."""
        return secrets_of(self.settings)

    def client(self, on_message: OnMessage | None) -> Client:
        """Return a client that is not connected yet. One task enters and leaves it."""
        ui = [advertise(UI_EXTENSION, {"mimeTypes": [UI_MIME_TYPE]})] if self.ui else None
        return Client(
            self._transport(),
            mode=self.settings.protocol,
            client_info=Implementation(name="interpose-mcp", version=__version__),
            message_handler=cast("Any", on_message),
            extensions=ui,
            cache=None,
            read_timeout_seconds=self.settings.timeout,
        )

    def _transport(self) -> Any:
        settings = self.settings
        if settings.url is not None:
            http = PinnedClient(
                settings.url,
                {name: value.get_secret_value() for name, value in settings.headers.items()},
                most=settings.max_response_bytes,
                trust_env=settings.trust_env,
                timeout=settings.connect_timeout,
            )
            if settings.type == "sse":
                return sse_client(settings.url, httpx_client_factory=_Only(http))
            return _http(settings.url, http, settings.max_response_bytes)
        if settings.command is not None:
            return _stdio(self._parameters())
        return self.server

    def _parameters(self) -> StdioServerParameters:
        settings = self.settings
        return StdioServerParameters(
            command=cast("str", settings.command),
            args=list(settings.args),
            env={name: value.get_secret_value() for name, value in settings.env.items()},
            cwd=self.folder / (settings.cwd or "."),
        )


class _Only:
    """A factory of clients that always gives the same one."""

    def __init__(self, http: PinnedClient) -> None:
        self._http = http

    def __call__(self, *_: Any, **__: Any) -> PinnedClient:
        return self._http


def target_of(server: str, settings: ServerSettings, folder: Path, *, ui: bool = False) -> Target:
    """Return the target of a configured server. :class:`UsageError` for a bad ``python``."""
    found = None if settings.python is None else _object(server, settings.python)
    return Target(server, settings, folder, ui, found)


def _object(server: str, reference: str) -> Any:
    module, _, path = reference.partition(":")
    where = f"servers.{server}.python"
    try:
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as error:
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
async def _http(url: str, http: PinnedClient, most: int) -> AsyncGenerator[Any]:
    async with http, streamable_http_client(url, http_client=http, max_sse_event_size=most) as it:
        yield it


@asynccontextmanager
async def _stdio(parameters: StdioServerParameters) -> AsyncGenerator[Any]:
    """Start the server. What it says on standard error goes where that of this process goes."""
    if sys.__stderr__ is not None:
        async with stdio_client(parameters, errlog=sys.__stderr__) as streams:
            yield streams
        return
    with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230 - it never blocks
        async with stdio_client(parameters, errlog=nowhere) as streams:
            yield streams
