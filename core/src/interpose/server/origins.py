"""Which web pages may call: a browser names its page's origin with every POST."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from interpose.server.problems import problem_response


class OriginGuard:
    """Refuse calls from web pages, except those of ``origins``; ``"*"`` is any.

    A server on loopback is open to every page that a browser on the machine shows: also to one
    whose name was made to point to 127.0.0.1, for which neither CORS nor the address helps. A
    client that is no browser sends no Origin, and passes.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403."""
        if scope["type"] == "http":
            origin = Headers(scope=scope).get("origin")
            if origin is not None and not self._origins & {origin, "*"}:
                refused = problem_response(
                    403,
                    "origin",
                    "This web page may not call here. The operator can allow its origin "
                    "in [server] cors.",
                )
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)
