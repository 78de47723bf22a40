"""HTTP to one server and no other: one origin, no redirects, bounded bodies, a bounded DELETE."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from enum import IntEnum
from http import HTTPStatus
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any, Final

import httpx2

from interpose_mcp.streams import EVENTS, Endpoint, Events, kind_of

DELETE_SECONDS: Final = 3.0
"""How long the DELETE that ends a session may take."""
LISTENING_SECONDS: Final = 5.0
"""How long a server may take to open the stream on which it tells of changes."""
_SILENCE: Final = 300.0
"""How long a stream may be silent, at least, before its connection is taken for lost."""
_IDENTITY: Final = "identity"
_SESSION: Final = "mcp-session-id"


class Fault(IntEnum):
    """What is wrong with a response, as the code of an error of the protocol.

    The codes are our own. A server that answers with one of them gains nothing by it.
    """

    NOT_SENT = -31_001
    BROKEN = -31_002
    REDIRECT = -31_003
    ORIGIN = -31_004
    COMPRESSED = -31_005
    TOO_LARGE = -31_006
    SESSION_GONE = -31_007
    STATUS = -31_008


class Refused(httpx2.TransportError):
    """A request that was not sent, or a response that was not taken."""

    def __init__(self, fault: Fault, told: str, request: httpx2.Request) -> None:
        super().__init__(told, request=request)
        self.fault = fault


class PinnedClient(httpx2.AsyncClient):
    """A client for the origin of ``url`` alone.

    * A request to another origin is not sent, and no redirect is followed.
    * A response that is no stream of events is read at once, up to ``most`` bytes. None may be
      compressed, as nobody knows how large that becomes.
    * A DELETE has its own deadline, of all it does together.

    ``tls``: see :func:`tls_for`. ``connecting`` and ``silence``: the seconds that connecting may
    take, and that may pass without a byte.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        most: int,
        tls: SSLContext,
        trust_env: bool,
        connecting: float,
        silence: float,
    ) -> None:
        super().__init__(
            headers={**headers, "accept-encoding": _IDENTITY},
            verify=tls,
            trust_env=trust_env,
            follow_redirects=False,
            max_redirects=0,
            timeout=httpx2.Timeout(connecting, read=max(silence, _SILENCE)),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        )
        self.most = most
        self.address = httpx2.URL(url)

    async def send(self, request: httpx2.Request, **_: Any) -> httpx2.Response:
        """Send a request, if it is for the origin."""
        if origin(request.url) != origin(self.address):
            raise Refused(Fault.ORIGIN, "the request is for another origin", request)
        if request.method == "DELETE":
            return await self._delete(request)
        if request.method == "GET":
            return await self._get(request)
        return await self._post(request)

    async def _get(self, request: httpx2.Request) -> httpx2.Response:
        """Return a stream of what the server says by itself."""
        return await self._checked(request)

    async def _post(self, request: httpx2.Request) -> httpx2.Response:
        """Send a message. Returns the response, read to its end if it is no stream."""
        response = await self._checked(request)
        if kind_of(response) == EVENTS and response.is_success:
            return response
        body = bytearray()
        async with aclosing(response.aiter_raw()) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > self.most:
                    told = f"the response is larger than {self.most} bytes"
                    raise Refused(Fault.TOO_LARGE, told, request)
        return httpx2.Response(
            response.status_code,
            headers={
                name: value
                for name, value in response.headers.items()
                if name in ("content-type", _SESSION)
            },
            content=bytes(body),
            request=request,
        )

    async def _checked(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().send(request, stream=True, follow_redirects=False)
        fault, told = None, ""
        if response.is_redirect or response.has_redirect_location:
            fault, told = Fault.REDIRECT, f"a redirect to {_place(response)} is not followed"
        elif response.headers.get("content-encoding", _IDENTITY).strip().lower() != _IDENTITY:
            fault, told = Fault.COMPRESSED, "the response is compressed"
        if fault is not None:
            await response.aclose()
            raise Refused(fault, told, request)
        return response

    async def _delete(self, request: httpx2.Request) -> httpx2.Response:
        """End a session. Nobody wants to know more of the answer than its status."""
        try:
            async with asyncio.timeout(DELETE_SECONDS):
                response = await super().send(request, stream=True, follow_redirects=False)
                await response.aclose()
        except TimeoutError as error:
            raise httpx2.ReadTimeout("the DELETE took too long", request=request) from error
        return httpx2.Response(response.status_code, request=request)


class StreamableClient(PinnedClient):
    """The client of streamable HTTP, in which a request that fails harms no other.

    What goes wrong with a POST becomes an answer to it, an error of the protocol with a
    :class:`Fault` as its code: an exception would end the session with all that is under way.
    ``on_gap`` is called when a stream begins or ends on which the server tells of changes: nobody
    hears those between two streams.
    """

    def __init__(self, *args: Any, on_gap: Callable[[], None], **options: Any) -> None:
        super().__init__(*args, **options)
        self._on_gap = on_gap
        self._streams = 0
        self._has_session = False
        self._asked = asyncio.Event()

    @property
    def hears(self) -> bool:
        """Whether a stream is open on which the server can tell of changes."""
        return self._streams > 0

    async def listen(self) -> None:
        """Wait, for a bounded time, until the server has opened such a stream or refused to."""
        if not self._has_session:
            return  # the protocol asks for no stream then
        try:
            async with asyncio.timeout(LISTENING_SECONDS):
                await self._asked.wait()
        except TimeoutError:
            return

    async def _get(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._checked(request)
        except Refused as refused:
            # Whoever asks would ask again after an exception, and get the same.
            return httpx2.Response(405, request=request, text=str(refused))
        finally:
            self._asked.set()
        if response.is_success and kind_of(response) == EVENTS:
            self._streams += 1
            self._on_gap()
            response.stream = Events(response, self.most, ended=self._ended, silence_ends_it=True)
        return response

    def _ended(self, _: BaseException | None) -> None:
        self._streams -= 1
        self._on_gap()

    async def _post(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super()._post(request)
        except httpx2.TransportError as error:
            if request.headers.get("mcp-method") == "server/discover":
                raise  # an older protocol is tried after an answer only
            return _failed(request, _fault_of(error), f"{type(error).__name__}: {error}")
        self._has_session = self._has_session or _SESSION in response.headers
        status = response.status_code
        if status == HTTPStatus.NOT_FOUND and _SESSION in request.headers:
            return _failed(request, Fault.SESSION_GONE, "HTTP status 404")
        if response.is_error and not _is_error_of_the_protocol(response):
            return _failed(request, Fault.STATUS, f"HTTP status {status}")
        return response


class SseClient(PinnedClient):
    """The client of the older HTTP with SSE, in which one failure ends the session.

    ``on_lost`` is called when that has happened: the SDK would let everybody wait.
    """

    def __init__(
        self, *args: Any, on_lost: Callable[[BaseException], None], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._on_lost = on_lost

    async def _get(self, request: httpx2.Request) -> httpx2.Response:
        response = await super()._get(request)

        def check(named: str) -> None:
            if origin(self.address.join(named)) != origin(self.address):
                told = "the server names an endpoint of another origin"
                raise Refused(Fault.ORIGIN, told, request)

        response.stream = Events(response, self.most, Endpoint(check), ended=self._ended)
        return response

    def _ended(self, error: BaseException | None) -> None:
        if error is not None:
            self._on_lost(error)

    async def _post(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super()._post(request)
            if not response.is_success:
                raise Refused(Fault.STATUS, f"HTTP status {response.status_code}", request)
        except httpx2.TransportError as error:
            self._on_lost(error)
            raise
        return response


def tls_for(url: str, *, trust_env: bool) -> SSLContext:
    """Return what all clients of a server share: the certificates are read once.

    Without TLS, and without proxies, it is one that trusts nobody.
    """
    if trust_env or httpx2.URL(url).scheme == "https":
        return httpx2.create_ssl_context(trust_env=trust_env)
    return SSLContext(PROTOCOL_TLS_CLIENT)


def origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    """Return the origin of an address, in one spelling."""
    return url.scheme, url.host, url.port


def _place(response: httpx2.Response) -> str:
    """Return where a redirect leads, without what may be secret in it."""
    if response.next_request is None:
        return "no address"
    return str(response.next_request.url.copy_with(userinfo=b"", query=None, fragment=None))


def _fault_of(error: httpx2.TransportError) -> Fault:
    if isinstance(error, Refused):
        return error.fault
    unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    return Fault.NOT_SENT if unsent else Fault.BROKEN


def _failed(request: httpx2.Request, fault: Fault, told: str) -> httpx2.Response:
    """Return an answer to this request alone that says what was wrong."""
    error = {"code": int(fault), "message": told}
    return httpx2.Response(
        502, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request
    )


def _is_error_of_the_protocol(response: httpx2.Response) -> bool:
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        return False
    error = body.get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and isinstance(error.get("code"), int)
