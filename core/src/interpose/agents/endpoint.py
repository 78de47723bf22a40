"""An AG-UI endpoint over HTTP: one URL and one pool of connections. Needs httpx2."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx2
from pydantic import SecretStr

from interpose._version import __version__
from interpose.agents.http_failures import no_stream, of_exception, of_status
from interpose.agents.masking import masked
from interpose.agui import SseEvent, SseReader
from interpose.errors import RunError, UsageError

_OK: Final = 200
_EXCERPT: Final = 2000
"""How many characters of an answer that is an error go to the log."""
_READ_ERROR: Final = 2.0
"""How many seconds an answer that is an error may take to say why."""


@dataclass(frozen=True, slots=True)
class Options:
    """Where an endpoint is and how it is asked; times in seconds."""

    url: str
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    connect_timeout: float = 10.0
    idle_timeout: float = 300.0
    trust_env: bool = False
    max_event_bytes: int = 16 * 1024 * 1024
    max_connections: int | None = None
    ca_file: str | None = None


class Endpoint:
    """Asks one endpoint, many times at once. ``aclose`` closes its connections.

    ``report`` takes what an operator should know and a consumer must not: it is called with a text
    that holds none of the secrets that are sent.
    """

    def __init__(self, options: Options, now: Callable[[], float] = time.time) -> None:
        self._options = options
        self._now = now
        self._client = httpx2.AsyncClient(
            verify=_trusted(options),
            trust_env=options.trust_env,
            follow_redirects=False,
            timeout=httpx2.Timeout(
                options.idle_timeout, connect=options.connect_timeout, pool=options.connect_timeout
            ),
            limits=httpx2.Limits(
                max_connections=options.max_connections, max_keepalive_connections=20
            ),
            # A cookie that one run is given must not go out with another one.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def ask(
        self, body: bytes, report: Callable[[str], None], authorization: str | None = None
    ) -> AsyncGenerator[SseEvent, None]:
        """POST ``body`` and yield the events of the answer as they come.

        ``authorization`` takes the place of a configured header. Raises :class:`RemoteFailed`, of
        the kind :class:`RemoteUnavailable` if it may pass, and :class:`InvalidStream` for what is
        no server-sent event. Closing the generator closes the connection, unless the stream has
        been read to its end.
        """
        headers = self._headers(authorization)
        reader = SseReader(max_bytes=self._options.max_event_bytes)
        answered = False

        def tell(text: str) -> None:
            sent = [value for value in headers.values() if value not in _PUBLIC]
            report(masked(text[: 2 * _EXCERPT], sent)[:_EXCERPT])

        try:
            async with self._client.stream(
                "POST", self._options.url, content=body, headers=headers
            ) as response:
                await self._accept(response, tell)
                answered = True
                async with aclosing(response.aiter_bytes()) as chunks:
                    async for chunk in chunks:
                        for event in reader.feed(chunk):
                            yield event
        except httpx2.HTTPError as error:
            tell(": ".join(filter(None, (type(error).__name__, str(error)))))
            raise of_exception(error, answered=answered) from None
        if reader.unfinished:
            tell("the stream ended within an event, which was dropped: no blank line followed it")

    def _headers(self, authorization: str | None) -> dict[str, str]:
        headers = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": f"interpose/{__version__}",
        }
        for name, value in self._options.headers.items():
            headers[name.lower()] = value.get_secret_value()
        if authorization is not None:
            headers["authorization"] = authorization
        return headers

    async def _accept(self, response: httpx2.Response, tell: Callable[[str], None]) -> None:
        """Raise unless the answer is a stream of events."""
        status = response.status_code
        kind = response.headers.get("content-type", "")
        if status == _OK and kind.partition(";")[0].strip().lower() == "text/event-stream":
            return
        said = f"HTTP {status}, content-type {kind or 'missing'}"
        if response.has_redirect_location:
            said += f", location {response.headers['location']}"
        tell(f"{said}: {await _excerpt(response)}")
        if status == _OK:
            raise no_stream(status)
        raise of_status(status, response.headers.get("retry-after"), self._now())


async def drain(events: AsyncGenerator[SseEvent, None], seconds: float) -> int:
    """Read a stream that should be over to its end, so that its connection can be used again.

    Returns how many events still came. After ``seconds`` it is left as it is.
    """
    late = 0
    try:
        async with asyncio.timeout(seconds):
            async for _ in events:
                late += 1
    except (TimeoutError, RunError):
        pass  # the run is over, and the connection is of no more use
    return late


async def _excerpt(response: httpx2.Response) -> str:
    """Return the beginning of an answer's body, as far as it comes soon."""
    found = bytearray()
    try:
        async with asyncio.timeout(_READ_ERROR), aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                found += chunk[:_EXCERPT]
                if len(found) >= _EXCERPT:
                    break
    except (TimeoutError, httpx2.HTTPError):
        pass  # what has come is all there is to tell
    return bytes(found[:_EXCERPT]).decode(errors="replace") or "(no body)"


_PUBLIC: Final = frozenset(
    {"text/event-stream", "application/json", "identity", f"interpose/{__version__}"}
)


def _trusted(options: Options) -> ssl.SSLContext | bool:
    """Return what tells good certificates from bad ones; True is the system's authorities."""
    if options.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=options.ca_file)
    except (OSError, ssl.SSLError) as error:
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise UsageError(
            f"The authorities of ca_file cannot be read: {reason}.",
            where=options.ca_file,
            hint="Name a file of certificates in PEM form.",
        ) from None
