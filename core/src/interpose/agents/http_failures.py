"""From what goes wrong over HTTP to the failure of a run: what may pass, and what will not.

The texts are safe to show: no URL, no header, no body, nothing that the other side said but its
status.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import httpx2

from interpose.errors import RemoteFailed, RemoteUnavailable

MAY_PASS: Final = frozenset({429, 502, 503, 504})
"""The statuses after which asking again may help: too many requests, and gateway troubles."""
_SECONDS: Final = re.compile(r"\d{1,9}")


def of_status(status: int, retry_after: str | None, now: float) -> RemoteFailed:
    """Return the failure that a status other than 200 means. ``now``: seconds since the epoch."""
    if 300 <= status < 400:  # noqa: PLR2004 - the class of statuses that redirect
        return RemoteFailed(
            f"The remote agent redirects (HTTP {status}), and redirects are not followed.",
            status=status,
            hint="set its url to where it redirects, which the log tells",
        )
    text = f"The remote agent answered with HTTP {_named(status)}."
    if status in MAY_PASS:
        return RemoteUnavailable(text, status=status, retry_after=seconds_of(retry_after, now))
    return RemoteFailed(text, status=status)


def no_stream(status: int) -> RemoteFailed:
    """Return the failure of an answer that is no stream of events."""
    return RemoteFailed(
        "The remote agent answered, but not with a stream of events (text/event-stream).",
        status=status,
        hint="its url must be the one that takes a RunAgentInput by POST",
    )


def of_exception(error: httpx2.HTTPError, *, answered: bool) -> RemoteFailed:
    """Return the failure that an exception means. ``answered``: the stream had begun."""
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in _causes(error)):
        return RemoteFailed(
            "The certificate of the remote agent could not be verified.",
            hint="name the authority that signed it with ca_file, or correct the url",
        )
    text = _TEXTS.get(type(error))
    if text is None and isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        return RemoteFailed("The request to the remote agent could not be sent.")
    if text is None and isinstance(error, httpx2.DecodingError):
        return RemoteFailed("The stream of the remote agent is compressed, and damaged.")
    if text is None:
        text = (
            "The connection to the remote agent broke in the middle of the run."
            if answered
            else "The remote agent could not be reached."
        )
    return RemoteUnavailable(text)


_TEXTS: Final[Mapping[type[httpx2.HTTPError], str]] = {
    httpx2.ConnectTimeout: "The remote agent could not be reached in time.",
    httpx2.PoolTimeout: "No connection to the remote agent became free in time.",
    httpx2.ReadTimeout: "The remote agent was silent for too long.",
    httpx2.WriteTimeout: "The remote agent did not take the request in time.",
}


def seconds_of(retry_after: str | None, now: float) -> float | None:
    """Read a Retry-After header: seconds, or a date; None if it is neither."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _named(status: int) -> str:
    try:
        return f"{status} ({HTTPStatus(status).phrase})"
    except ValueError:
        return str(status)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
