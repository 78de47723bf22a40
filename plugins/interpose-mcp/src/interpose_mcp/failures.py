"""What goes wrong with a server: a class of failure for others, the whole story for operators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from json import dumps
from typing import TYPE_CHECKING, Final

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_TIMEOUT
from pydantic import ValidationError

from interpose_mcp.http import Fault
from interpose_mcp.settings import ServerSettings

if TYPE_CHECKING:
    from loguru import Logger

_SHORTEST: Final = 4
"""A secret of fewer characters is in too many words to be masked in other people's texts."""


class McpFailure(Exception):
    """A request to a server that came to nothing.

    ``message`` is safe to show to a model and to people: it holds nothing that the server said.
    ``executed``: whether the server may have done what it was asked for.
    """

    def __init__(self, message: str, *, executed: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.executed = executed


class ConnectFailed(McpFailure):
    """There is no session with the server."""

    def __init__(self, message: str) -> None:
        super().__init__(message, executed=False)


_TEXTS: Final[Mapping[int, str]] = {
    Fault.NOT_SENT: "The MCP server {0} could not be reached.",
    Fault.BROKEN: "The connection to the MCP server {0} ended during the call.",
    Fault.REDIRECT: "The MCP server {0} answered with a redirect, and none is followed.",
    Fault.COMPRESSED: "The MCP server {0} gave a compressed answer, and none is taken.",
    Fault.TOO_LARGE: "The answer of the MCP server {0} is too large.",
    Fault.SESSION_GONE: "The MCP server {0} has ended the session.",
    Fault.STATUS: "The MCP server {0} answered with an error of HTTP.",
    INVALID_PARAMS: "The MCP server {0} does not accept the arguments.",
    METHOD_NOT_FOUND: "The MCP server {0} cannot do that.",
    REQUEST_TIMEOUT: "The MCP server {0} took longer than {1:g} s.",
}
_OTHER: Final = "The MCP server {0} answered with an error ({2})."
_OWN_TIMEOUT: Final = re.compile(
    r"Request .* timed out|Timed out after .* waiting for .*", re.DOTALL
)
"""What the SDK says when it has waited long enough. A server may use its code for what it likes."""
_NOT_EXECUTED: Final = frozenset({Fault.NOT_SENT, Fault.SESSION_GONE, METHOD_NOT_FOUND})


def failure_of(error: MCPError, server: str, *, seconds: float, still_open: bool) -> McpFailure:
    """Return what may be said of an error of the protocol: its kind, never its text."""
    code, text = error.code, _TEXTS.get(error.code, _OTHER)
    ended = not still_open or error.message.startswith("SSE stream ")
    if code == CONNECTION_CLOSED and "byte limit" in error.message:
        text = _TEXTS[Fault.TOO_LARGE]
    elif code == REQUEST_TIMEOUT and not _OWN_TIMEOUT.fullmatch(error.message):
        text = _OTHER
    elif code == CONNECTION_CLOSED and ended:  # a server may use this code for what it likes
        code, text = Fault.BROKEN, _TEXTS[Fault.BROKEN]
    told = text.format(repr(server), seconds, code)
    return McpFailure(told, executed=code not in _NOT_EXECUTED)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions that a group holds, however deep; else the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves(each)
    else:
        yield error


def story(error: BaseException, secrets: Iterable[str]) -> str:
    """Return all that an exception and its causes say, in one line, without these secrets."""
    told: list[str] = []
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        for leaf in leaves(at):
            text = " ".join(_said(leaf).split())
            told.append(f"{type(leaf).__name__}: {text}" if text else type(leaf).__name__)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return scrubbed("; caused by ".join(dict.fromkeys(told)), secrets)


def _said(error: BaseException) -> str:
    """Return what it says. Pydantic's quotes the input, cut: a part of a secret is not masked."""
    if not isinstance(error, ValidationError):
        return str(error)
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    places = [(".".join(map(str, fault["loc"])), fault["msg"]) for fault in faults]
    return "; ".join(f"{where}: {what}" if where else what for where, what in places)


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Return the text with each secret in it masked, also as it is spelled in Python or JSON."""
    long = [secret for secret in secrets if len(secret) >= _SHORTEST]
    spelled = set(long)
    for spell in (repr, ascii, dumps):
        spelled.update(spell(secret)[1:-1] for secret in long)
    for each in sorted(spelled, key=len, reverse=True):
        text = text.replace(each, "***")
    return text


def secrets_of(server: ServerSettings) -> frozenset[str]:
    """Return the secrets of a server's settings, and their parts: ``Bearer x`` holds ``x``."""
    values = [*server.headers.values(), *server.env.values()]
    whole = [value.get_secret_value() for value in values]
    return frozenset(part for text in whole for part in (text, *text.split()) if part)


def report(
    log: Logger,
    what: str,
    server: str,
    digest: str,
    error: BaseException,
    *,
    secrets: Iterable[str],
) -> None:
    """Tell the operator everything about a failure."""
    log.bind(server_id=server, server_hash=digest).error(
        "{} (server {}, hash {}): {}", what, server, digest, story(error, secrets)
    )
