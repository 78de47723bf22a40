"""Secrets are kept out of what the SDK and its HTTP client write to ``logging``.

They log no header, but they do log what a server says, and a server may repeat what it was sent.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from interpose_mcp.failures import scrubbed, story

_LOGGERS: Final = (
    "client",  # the SDK's name for sessions
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "httpcore2.socks",
    "httpx2",
    "mcp.client.caching",
    "mcp.client.client",
    "mcp.client.sse",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.shared.direct_dispatcher",
    "mcp.shared.dispatcher",
    "mcp.shared.jsonrpc_dispatcher",
    "mcp.shared.tool_name_validation",
)
"""Each by itself: the filter of a logger does not see what its children say."""


@contextmanager
def masked(secrets: Collection[str]) -> Iterator[None]:
    """Mask these secrets in what those loggers say meanwhile.

    An exception is told in a line of the message. Its trace does not go on: whoever writes it may
    show the values of its frames, too, and what it says may quote a part of a secret.
    """
    if not secrets:
        yield
        return
    mask = _Mask(secrets)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(mask)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(mask)


class _Mask(logging.Filter):
    def __init__(self, secrets: Collection[str]) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record pass, without the secrets."""
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            message += f": {story(record.exc_info[1], self._secrets)}"
        record.exc_info = record.exc_text = None
        record.msg, record.args = scrubbed(message, self._secrets), ()
        return True
