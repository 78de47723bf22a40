"""What a frame asks of its MCP server, through a run of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from interpose_mcp.calling import RunSessions, compact, plain
from interpose_mcp.failures import McpFailure, report
from interpose_mcp.hub import Hub
from interpose_mcp.meta import is_for_app

if TYPE_CHECKING:
    from loguru import Logger

    from interpose_mcp.session import Session

KEY: Final = "__proxiedMCPRequest"
"""Where in ``forwardedProps`` the request is."""
METHODS: Final = ("tools/call", "resources/read", "notifications/message", "ping")
"""All that a frame may ask for."""
FAILED: Final = "MCP request failed"
"""All that a frame is told of most failures."""
UNAVAILABLE: Final = "MCP tool unavailable to this app"
_LONGEST: Final = 200


class Refused(Exception):
    """The request is refused. The text is for the frame."""


class Malformed(Exception):
    """The request is none. The text is for the operator."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as the client sent it: nothing in it is trusted."""

    server_id: object
    server_hash: object
    method: object
    params: object


def request_in(forwarded: Any) -> Asked | None:
    """Return the request in the forwarded properties of a run, if there is one.

    A value that is no object is a request, too, which names no server: whoever sent it did not
    mean to run the agent.
    """
    given = forwarded.get(KEY) if isinstance(forwarded, Mapping) else None
    if given is None or given is False or given in ("", 0):
        return None
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
    target = hub.targets[server]
    about = log.bind(server_id=server, server_hash=target.digest)
    what = f"MCP proxy request failed ({_told(asked.method)})"
    try:
        return await _answer(asked, server, hub, sessions, about)
    except Refused as refused:
        about.warning("{} is refused to a frame of the MCP server {!r}", refused, server)
        return {"error": f"Error: {refused}"}
    except Malformed as error:
        report(log, what, server, target.digest, error, secrets=target.secrets)
    except McpFailure as failure:
        # What the server said is in the log already: the session has reported it.
        about.error("{} (server {}, hash {}): {}", what, server, target.digest, failure.message)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not for the frame
        report(log, what, server, target.digest, error, secrets=target.secrets)
    return {"error": f"Error: {FAILED}"}


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
        raise Malformed("the params are no object")
    if asked.method == "notifications/message":
        # A server takes no such notification: it is for the log of the host.
        log.debug("a frame of the MCP server {} logs: {}", server, _told(params))
        return {"success": True}
    if asked.method == "tools/call":
        return await _call(params, server, hub, sessions)
    if asked.method == "resources/read":
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise Malformed("the uri of the resource is no text")
        found = await (await sessions.session(server)).read_resource(uri)
        return plain(found, hub.targets[server].secrets)
    await (await sessions.session(server)).ping()
    return {}


async def _call(
    params: Mapping[str, Any], server: str, hub: Hub, sessions: RunSessions
) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise Malformed("the name of the tool is no text")
    if not isinstance(arguments, Mapping | None):
        raise Malformed("the arguments are no object")
    if not hub.targets[server].settings.allows(name):
        raise Refused(UNAVAILABLE)
    session = await sessions.session(server)
    await _check_visible(session, name)
    result = await session.call(name, arguments or {})
    return plain(result, hub.targets[server].secrets)


async def _check_visible(session: Session, name: str) -> None:
    """Refuse a tool that is not for apps, by what the server says now, in the same session."""
    found = [tool for tool in await session.tools() if tool.name == name]
    if len(found) != 1 or not is_for_app(found[0]):
        raise Refused(UNAVAILABLE)


def _told(value: object) -> str:
    """Return what a client sent in a form that is short and forges no line."""
    text = value if isinstance(value, str) else _written(value)
    text = text[: _LONGEST + 1]
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _written(value: object) -> str:
    if value is None:
        return "undefined"  # as the TypeScript middleware says it
    try:
        return compact(value)
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__})"
