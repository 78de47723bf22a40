"""HTTP to one server and no other: one origin, no redirects, bounded bodies, a bounded DELETE."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import httpx2

DELETE_SECONDS: Final = 3.0
"""How long the DELETE that ends a session may take."""
_IDENTITY: Final = "identity"


class Refused(httpx2.TransportError):
    """A request that was not sent, or a response that was not taken."""


class PinnedClient(httpx2.AsyncClient):
    """A client for the origin of ``url`` alone.

    * A request to another origin is not sent, and no redirect is followed.
    * A response that is no stream of events is read up to ``most`` bytes; it must not be
      compressed, as nobody knows how large that becomes.
    * A DELETE has its own deadline, of all it does together.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], *, most: int, trust_env: bool, timeout: float
    ) -> None:
        super().__init__(
            headers={**headers, "accept-encoding": _IDENTITY},
            trust_env=trust_env,
            follow_redirects=False,
            max_redirects=0,
            timeout=httpx2.Timeout(timeout, read=max(timeout, 300.0)),
        )
        self._origin = _origin(httpx2.URL(url))
        self._most = most

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, if it is for the origin."""
        if _origin(request.url) != self._origin:
            raise Refused("the request is for another origin than the server's", request=request)
        if request.method != "DELETE":
            return await self._bounded(await super().send(request, **options))
        try:
            async with asyncio.timeout(DELETE_SECONDS):
                return await self._bounded(await super().send(request, **options))
        except TimeoutError as error:
            raise httpx2.ReadTimeout("the DELETE took too long", request=request) from error

    async def _bounded(self, response: httpx2.Response) -> httpx2.Response:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        coding = response.headers.get("content-encoding", _IDENTITY).strip().lower()
        if coding != _IDENTITY:
            await response.aclose()
            raise Refused("the response is compressed", request=response.request)
        if kind != "text/event-stream" and not response.is_closed:
            stream = response.stream
            if isinstance(stream, httpx2.AsyncByteStream):
                response.stream = _Bounded(stream, self._most, response.request)
        return response


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error when it is longer than it may be."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int, request: httpx2.Request) -> None:
        self._stream = stream
        self._most = most
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > self._most:
                raise Refused(
                    f"the response is larger than {self._most} bytes", request=self._request
                )
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
