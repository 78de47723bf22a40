"""The sessions of one run, and what a call to a tool comes to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp.types import CallToolResult
from mcp_types import SERVER_INFO_META_KEY

from interpose import ToolResult
from interpose_mcp.failures import McpFailure, scrubbed
from interpose_mcp.hub import Hub
from interpose_mcp.session import OnProgress, Session

MARKER: Final = "ag-ui:tool-result"
"""Where ``metadata`` of a result says that it is an error."""
_LONG: Final = 8
"""A shorter secret may stand in a result by chance; to mask it there would change the result."""
_OF_THE_PROTOCOL: Final = ("resultType", "ttlMs", "cacheScope")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to. ``raw``: the server's own result, as JSON; None without one."""

    result: ToolResult
    raw: dict[str, Any] | None = None


class RunSessions:
    """Sessions that one run opens when it needs them, at most one for each server.

    ``defer`` is the run's: they are ended after it, so that no DELETE delays its last event.
    """

    def __init__(self, hub: Hub, defer: Callable[..., None]) -> None:
        self._hub = hub
        self._defer = defer
        self._own: dict[str, asyncio.Task[Session]] = {}
        self._deferred = False

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        on_progress: OnProgress | None = None,
    ) -> CallToolResult:
        """Call a tool. A call that the server has surely not begun is tried once more."""
        session = await self.session(server)
        try:
            return await session.call(tool, arguments, on_progress)
        except McpFailure as error:
            if error.executed or session.is_open:
                raise
        return await (await self.session(server)).call(tool, arguments, on_progress)

    async def session(self, server: str) -> Session:
        """Return the session with a server: the run's own, or the one that all runs share."""
        if self._hub.targets[server].settings.session == "host":
            return await self._hub.session(server)
        if not self._deferred:
            self._deferred = True
            self._defer(self._close)
        opening = self._own.get(server)
        if opening is None or (opening.done() and not _is_usable(opening)):
            opening = self._own[server] = asyncio.create_task(self._hub.open(server))
        return await asyncio.shield(opening)

    async def _close(self) -> None:
        await asyncio.gather(*(self._end(opening) for opening in self._own.values()))

    async def _end(self, opening: asyncio.Task[Session]) -> None:
        opening.cancel()
        await asyncio.wait([opening])
        if _is_usable(opening, even_ended=True):
            await opening.result().close()


def _is_usable(opening: asyncio.Task[Session], *, even_ended: bool = False) -> bool:
    if opening.cancelled() or opening.exception() is not None:
        return False
    return even_ended or opening.result().is_open


def outcome_of(result: CallToolResult, secrets: Collection[str] = ()) -> Outcome:
    """Return what a model is told of a server's result: its texts, else its content as JSON."""
    raw = plain(result, secrets)
    texts = [
        part["text"]
        for part in raw.get("content") or ()
        if part.get("type") == "text" and isinstance(part.get("text"), str)
    ]
    text = "\n".join(texts)
    content = text or compact(raw.get("content", []))
    return Outcome(ToolResult(content, text if result.is_error else None), raw)


def plain(result: Any, secrets: Collection[str] = ()) -> dict[str, Any]:
    """Return a result of the SDK as the JSON that the server sent, with these secrets masked.

    What newer protocols add for the client's own use is left out, so that a front end is given
    the same whichever protocol was agreed on.
    """
    raw: dict[str, Any] = result.model_dump(by_alias=True, exclude_unset=True, mode="json")
    for name in _OF_THE_PROTOCOL:
        raw.pop(name, None)
    meta = raw.get("_meta")
    if isinstance(meta, dict) and meta.pop(SERVER_INFO_META_KEY, None) is not None and not meta:
        del raw["_meta"]
    long = tuple(secret for secret in secrets if len(secret) >= _LONG)
    return _masked(raw, long) if long else raw


def _masked(value: Any, secrets: Collection[str]) -> Any:
    """Return JSON without secrets in its texts: a server may send back what it was sent."""
    if isinstance(value, str):
        return scrubbed(value, secrets)
    if isinstance(value, dict):
        return {scrubbed(key, secrets): _masked(each, secrets) for key, each in value.items()}
    if isinstance(value, list):
        return [_masked(each, secrets) for each in value]
    return value


def compact(value: Any) -> str:
    """Return JSON as JavaScript writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def parsed(text: str) -> dict[str, Any]:
    """Return the arguments that a model wrote; :class:`ValueError` if they are no object."""
    try:
        found = json.loads(text, parse_constant=_refuse) if text.strip() else {}
    except (ValueError, RecursionError):
        raise ValueError("The arguments are not JSON.") from None
    if not isinstance(found, dict):
        raise ValueError("The arguments are not a JSON object.")  # noqa: TRY004 - as the one above
    return found


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # Python reads NaN and Infinity, which JSON does not have
