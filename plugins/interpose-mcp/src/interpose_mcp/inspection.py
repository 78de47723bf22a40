"""What the servers of the configuration have to offer, asked once and without any agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from mcp.types import Tool as McpTool

from interpose import UsageError
from interpose_mcp.apps import McpApps
from interpose_mcp.failures import McpFailure, scrubbed, story
from interpose_mcp.meta import is_for_model, resource_uri, visibility_of
from interpose_mcp.routes import is_name, named, sound
from interpose_mcp.session import Session
from interpose_mcp.settings import McpSettings, ServerSettings
from interpose_mcp.target import Target, target_of
from interpose_mcp.tools import McpTools

if TYPE_CHECKING:
    from loguru import Logger

    from interpose.commands import ConfiguredLayer

_LONGEST: Final = 1_000
"""Characters of a failure: what a server says in it has no bound."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of a server. ``name``: what a model calls; None when it is ``left_out``."""

    own_name: str
    visibility: str
    resource_uri: str | None = None
    name: str | None = None
    left_out: str | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """A server of a layer. ``problem``: why it could not be listed."""

    id: str
    transport: str
    address: str
    digest: str
    protocol: str = ""
    name: str = ""
    tools: tuple[Tool, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that has servers, with one set of settings. ``problems``: those of all its tools."""

    id: str
    use: str
    agents: tuple[str, ...]
    servers: tuple[Server, ...]
    problems: tuple[str, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Whether anything has to be looked after."""
        return bool(self.problems) or any(server.problem for server in self.servers)


@dataclass(frozen=True, slots=True)
class _Listing:
    server: Server
    tools: tuple[McpTool, ...] = ()


async def inspected(
    layers: Iterable[ConfiguredLayer], folder: Path, server: str | None = None
) -> Sequence[Layer]:
    """Return what each layer with MCP servers would offer; all servers are asked side by side.

    ``server``: only the servers with this id; :class:`UsageError` when there is none.
    """
    ours = [layer for layer in layers if issubclass(layer.middleware, McpTools | McpApps)]
    known = sorted({id_ for layer in ours for id_ in _settings(layer).servers})
    if server is not None and server not in known:
        raise UsageError(
            f"There is no MCP server {server!r}.",
            where="--server",
            hint=f"The servers are {', '.join(known)}." if known else "No layer has servers.",
        )
    found = await asyncio.gather(*(_inspected(layer, folder, server) for layer in ours))
    return [layer for layer in found if layer.servers]


def _settings(layer: ConfiguredLayer) -> McpSettings:
    return cast("McpSettings", layer.settings)


async def _inspected(layer: ConfiguredLayer, folder: Path, only: str | None) -> Layer:
    apps = issubclass(layer.middleware, McpApps)
    servers = {id_: each for id_, each in _settings(layer).servers.items() if only in (None, id_)}
    listings = await asyncio.gather(
        *(_listing(id_, each, folder, ui=apps) for id_, each in servers.items())
    )
    offered: dict[str, tuple[McpTool, ...]] = {}
    left_out: dict[int, str] = {}
    for (id_, each), listing in zip(servers.items(), listings, strict=True):
        why = _left_out(each, listing.tools, plain=apps)
        offered[id_] = tuple(tool for tool in listing.tools if id(tool) not in why)
        left_out |= why
    problems: tuple[str, ...] = ()
    if apps:
        clashes = _clashes(offered)
        problems = tuple(dict.fromkeys(clashes.values()))
        left_out |= dict.fromkeys(clashes, "its name is taken")
        names = {id(tool): tool.name for tools in offered.values() for tool in tools}
    else:
        names = {id(route.tool): name for name, route in named(offered, ()).items()}
    return Layer(
        layer.id,
        "mcp.apps" if apps else "mcp.tools",
        layer.agents,
        tuple(
            replace(
                listing.server, tools=tuple(_tool(each, names, left_out) for each in listing.tools)
            )
            for listing in listings
        ),
        problems,
    )


def _tool(tool: McpTool, names: Mapping[int, str], left_out: Mapping[int, str]) -> Tool:
    why = left_out.get(id(tool))
    name = None if why else names.get(id(tool))
    return Tool(tool.name, visibility_of(tool), resource_uri(tool), name, why)


def _left_out(settings: ServerSettings, tools: Iterable[McpTool], *, plain: bool) -> dict[int, str]:
    """Return why tools are left out, by their identity: a server may list two under one name."""
    whole, faults = sound(tools)
    kept = {id(tool) for tool in whole}
    why: dict[int, str] = {}
    for tool in tools:
        if not settings.allows(tool.name):
            why[id(tool)] = "it is in `deny`" if settings.allow is None else "it is not in `allow`"
        elif not is_for_model(tool):
            why[id(tool)] = "it is not for models"
        elif id(tool) not in kept:
            why[id(tool)] = faults[tool.name]
        elif plain and not is_name(tool.name):
            why[id(tool)] = "no model may call a tool by this name"
    return why


def _clashes(offered: Mapping[str, Iterable[McpTool]]) -> dict[int, str]:
    """Return what is wrong with tools that have one name at several servers, by their identity."""
    owners: dict[str, dict[str, int]] = {}
    for server, tools in offered.items():
        for tool in tools:
            owners.setdefault(tool.name, {})[server] = id(tool)
    return {
        tool: f"the servers {' and '.join(servers)} have a tool {name!r} each: every run fails; "
        f"add {name!r} to `deny` of all but one"
        for name, servers in owners.items()
        if len(servers) > 1
        for tool in servers.values()
    }


async def _listing(id_: str, settings: ServerSettings, folder: Path, *, ui: bool) -> _Listing:
    """Ask one server, in bounded time."""
    target = Target(id_, settings, folder, ui)
    about = Server(id_, settings.transport, address_of(settings), target.digest)
    session: Session | None = None
    try:
        target = target_of(id_, settings, folder, ui=ui)
        session = await Session.open(target, cast("Logger", _Silent()))
        about = replace(about, protocol=session.protocol, name=session.server)
        return _Listing(about, await session.tools())
    except UsageError as error:
        problem = error.message
    except McpFailure as error:
        problem = error.message
        if error.__cause__ is not None:
            problem += f" {_without_secrets(story(error.__cause__, target.secrets), settings)}"
    finally:
        if session is not None:
            await session.close()
    short = problem if len(problem) <= _LONGEST else f"{problem[:_LONGEST]}…"
    return _Listing(replace(about, problem=short))


def address_of(settings: ServerSettings) -> str:
    """Return where a server is, without what may be secret in that."""
    if settings.url is not None:
        parts = urlsplit(settings.url)
        query = "&".join(
            f"{part.partition('=')[0]}=***" if "=" in part else "***"
            for part in parts.query.split("&")
            if part
        )
        return urlunsplit(parts._replace(query=query))
    if settings.command is not None:
        count = len(settings.args)
        many = f" ({count} argument{'s' if count > 1 else ''})" if count else ""
        return f"{settings.command}{many}"
    return str(settings.python)


def _without_secrets(text: str, settings: ServerSettings) -> str:
    """Mask the values of a URL's query, too: they are shown nowhere else either."""
    if settings.url is None:
        return text
    parts = urlsplit(settings.url).query.split("&")
    raw = {part.partition("=")[2] if "=" in part else part for part in parts}
    return scrubbed(text, {each for value in raw for each in (value, unquote_plus(value))})


class _Silent:
    """A log that keeps nothing: what a session reports is told in the list."""

    def bind(self, **_: object) -> _Silent:
        return self

    def error(self, *_: object) -> None:
        """Keep nothing."""

    warning = error
