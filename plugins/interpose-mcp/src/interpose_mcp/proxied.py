"""What a frame asks of its MCP server, through a run of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from interpose_mcp.calling import RunSessions, plain
from interpose_mcp.failures import McpFailure
from interpose_mcp.hub import Hub
from interpose_mcp.meta import is_for_app

if TYPE_CHECKING:
    from loguru import Logger

    from interpose_mcp.session import Session

KEY: Final = "__proxiedMCPRequest"
"""Where in ``forwardedProps`` the request is."""
METHODS: Final = ("tools/call", "resources/read", "notifications/message", "ping")
"""All that a frame may ask for."""
_LONGEST: Final = 200


class Refused(Exception):
    """The request is refused. The text is for the frame."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as the client sent it: nothing in it is trusted."""

    server_id: object
    server_hash: object
    method: object
    params: object


def request_in(forwarded: Any) -> Asked | None:
    """Return the request in the forwarded properties of a run, if there is one."""
    if not isinstance(forwarded, Mapping) or not forwarded.get(KEY):
        return None
    given = forwarded[KEY]
    if not isinstance(given, Mapping):
        given = {}
    return Asked(
        given.get("serverId"), given.get("serverHash"), given.get("method"), given.get("params")
    )


async def answer(asked: Asked, hub: Hub, sessions: RunSessions, log: Logger) -> dict[str, Any]:
    """Return the server's result, or ``{"error": ...}``, which tells no more than it has to."""
    server = _server(asked, hub)
    if server is None:
        return {"error": f"Unknown server: {_told(asked.server_id or asked.server_hash)}"}
    try:
        return await _answer(asked, server, hub, sessions, log)
    except Refused as refused:
        return {"error": f"Error: {refused}"}
    except McpFailure as failure:
        digest = hub.targets[server].digest
        log.bind(server_id=server, server_hash=digest).error(
            "MCP proxy request failed (server {}, hash {}, {}): {}",
            server,
            digest,
            asked.method,
            failure.message,
        )
        return {"error": "Error: MCP request failed"}


def _server(asked: Asked, hub: Hub) -> str | None:
    """Return the id of the server: by its id, else by its hash if that means one server only."""
    if isinstance(asked.server_id, str) and asked.server_id in hub.targets:
        return asked.server_id
    found = [id_ for id_, target in hub.targets.items() if target.digest == asked.server_hash]
    return found[0] if len(found) == 1 else None


async def _answer(
    asked: Asked, server: str, hub: Hub, sessions: RunSessions, log: Logger
) -> dict[str, Any]:
    if asked.method not in METHODS:
        raise Refused(f"MCP method not allowed for UI proxy: {_told(asked.method)}")
    params = {} if asked.params is None else asked.params
    if not isinstance(params, Mapping):
        raise Refused("MCP request is not valid")
    if asked.method == "notifications/message":
        # The protocol has no such notification from a client: it is for the host's log.
        log.bind(server_id=server).debug("a frame of MCP server {} logs: {}", server, _told(params))
        return {"success": True}
    if asked.method == "tools/call":
        return await _call(params, server, hub, sessions)
    if asked.method == "resources/read":
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise Refused("MCP request is not valid")
        return plain(await (await sessions.session(server)).read_resource(uri))
    await (await sessions.session(server)).ping()
    return {}


async def _call(
    params: Mapping[str, Any], server: str, hub: Hub, sessions: RunSessions
) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, Mapping | None):
        raise Refused("MCP request is not valid")
    if not hub.targets[server].settings.allows(name):
        raise Refused("MCP tool unavailable to this app")
    session = await sessions.session(server)
    await _check_visible(session, name)
    return plain(await session.call(name, arguments or {}))


async def _check_visible(session: Session, name: str) -> None:
    """Refuse a tool that is not for apps, by what the server says now, in the same session."""
    found = [tool for tool in await session.tools() if tool.name == name]
    if len(found) != 1 or not is_for_app(found[0]):
        raise Refused("MCP tool unavailable to this app")


def _told(value: object) -> str:
    """Return what a client sent in a form that is short and forges no line."""
    text = value if isinstance(value, str) else repr(value)
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
