"""The ASGI application around a host: routes, readiness, and who is asking."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from interpose.capability import Capability
from interpose.errors import InputError, Reject, UsageError
from interpose.host import Host, server_table
from interpose.server.draining import OpenResponses
from interpose.server.options import Options
from interpose.server.origins import OriginGuard
from interpose.server.problems import not_ready, of_input, of_reject, problem_response
from interpose.server.reading import read_input
from interpose.server.responding import RunResponse

PROVIDE_DEADLINE: Final = 30.0
"""Seconds that ``provide`` may take."""

Provided: TypeAlias = Mapping[Capability[Any], Any]
Provide: TypeAlias = "Callable[[Request], Provided | Awaitable[Provided]]"
"""What gives each run its run-scope capabilities, from the request; sync or async."""


_WITHOUT_BODY: Final = frozenset({204, 304})


def asgi(host: Host, *, provide: Provide | None = None) -> ServerApp:
    """Return ``host`` as an ASGI application, to run by itself or to mount.

    ``POST /`` runs the agent ``default`` (or the only one), ``POST /agents/<id>`` any: an AG-UI
    input as JSON in, server-sent events out. ``GET /healthz`` says that the process lives,
    ``GET /readyz`` that runs can begin. The table ``[server]`` of the host's configuration holds
    for all of it.

    * ``provide``: called with each request, before its body is read; returns what the host was
      promised, such as ``{PRINCIPAL: user}``. It refuses by raising :class:`Reject` or Starlette's
      ``HTTPException``; whatever else it raises is a 500.

    Run by itself, the application enters the host when it starts. Mounted, it does not: ASGI tells
    only the outermost application about its start, so enter the host there::

        @asynccontextmanager
        async def lifespan(app):
            async with host:
                yield

        app = FastAPI(lifespan=lifespan)
        app.mount("/agent", asgi(host, provide=lambda request: {PRINCIPAL: request.state.user}))
    """
    if not isinstance(host, Host):
        raise UsageError(
            f"interpose.server.asgi was given a {type(host).__name__} in place of a Host",
            hint="give it Host(...) or Host.from_config(...)",
        )
    if provide is not None and not callable(provide):
        raise UsageError(
            f"provide of interpose.server.asgi is a {type(provide).__name__}",
            hint="give it a function of the request: lambda request: {PRINCIPAL: ...}",
        )
    return ServerApp(host, provide=provide)


class ServerApp:
    """The application that :func:`asgi` returns.

    ``guard_origins``: refuse calls from web pages whose origin is not named in ``[server] cors``;
    for an application that nothing stands in front of.
    """

    def __init__(
        self, host: Host, *, provide: Provide | None = None, guard_origins: bool = False
    ) -> None:
        table = server_table(host)
        origins = [origin.lower().rstrip("/") for origin in table.cors]  # as browsers write them
        self._host = host
        self._provide = provide
        self._most = table.max_body
        self._options = Options(
            heartbeat=table.heartbeat,
            run_deadline=table.run_deadline,
            idle_deadline=table.idle_deadline,
            write_deadline=table.write_deadline,
        )
        self._responses = OpenResponses()
        routes = [
            Route("/", self._run, methods=["POST"]),
            Route("/agents/{agent}", self._run, methods=["POST"]),
            Route("/agents/{agent}/", self._run, methods=["POST"]),
            Route("/healthz", self._health, methods=["GET"]),
            Route("/readyz", self._ready, methods=["GET"]),
        ]
        if table.expose_plan:
            routes.append(Route("/plan", self._plan, methods=["GET"]))
            routes.append(Route("/agents/{agent}/plan", self._plan, methods=["GET"]))
        middleware: list[Middleware] = []
        if guard_origins:
            middleware.append(Middleware(OriginGuard, origins))
        if origins:
            middleware.append(
                Middleware(
                    CORSMiddleware,
                    allow_origins=origins,
                    allow_methods=["GET", "POST"],
                    allow_headers=["*"],  # without credentials a header gives away nothing
                    expose_headers=["retry-after"],
                )
            )
        self._app = Starlette(
            routes=routes,
            middleware=middleware,
            lifespan=self._lifespan,
            exception_handlers={
                HTTPException: _http_exception,
                Reject: _rejected,
                InputError: _bad_input,
                Exception: _unexpected,
            },
        )
        # A redirect names the address that this server sees, which is not the client's.
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or the start and stop of the server."""
        await self._app(scope, receive, send)

    async def drain(self, seconds: float) -> None:
        """Let no run begin, wait up to ``seconds`` for those under way, then cancel them."""
        await self._responses.drain(seconds)

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        if self._host.entered:
            yield
            return
        async with self._host:
            yield

    async def _run(self, request: Request) -> Response:
        if self._responses.draining:
            return not_ready("The server stops.")
        if not self._host.entered:
            return not_ready("The host has not been entered; see interpose.server.asgi.")
        agent = self._agent(request)
        if agent is None:
            return problem_response(404, "no-agent", "There is no such agent here.")
        provided = await self._provided(request)
        asked = await read_input(request, self._most)
        run = self._host.run(asked, agent=agent, provide=provided)
        return RunResponse(run, request, self._options, self._responses)

    def _agent(self, request: Request) -> str | None:
        agents = self._host.agents
        wanted: str | None = request.path_params.get("agent")
        if wanted is None:
            wanted = agents[0] if len(agents) == 1 else "default"
        return wanted if wanted in agents else None

    async def _provided(self, request: Request) -> Provided:
        if self._provide is None:
            return {}
        given = self._provide(request)
        if not inspect.isawaitable(given):
            return given
        try:
            async with asyncio.timeout(PROVIDE_DEADLINE):
                return await given
        except TimeoutError:
            raise Reject(
                "provide-timeout",
                "It took too long to find out who is asking.",
                status=503,
                retry_after=1,
            ) from None

    async def _health(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, _request: Request) -> Response:
        if self._responses.draining or not self._host.entered:
            return not_ready("Runs cannot begin.")
        return JSONResponse({"status": "ready"})

    async def _plan(self, request: Request) -> Response:
        agent = self._agent(request)
        if agent is None:
            return problem_response(404, "no-agent", "There is no such agent here.")
        return JSONResponse(self._host.plan(agent).to_json())

    def __repr__(self) -> str:
        return f"<ServerApp of {self._host!r}>"


async def _http_exception(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    status, said, headers = error.status_code, error.detail, error.headers
    if status in _WITHOUT_BODY:
        return Response(status_code=status, headers=headers)
    if status == HTTPStatus.NOT_FOUND:
        return problem_response(status, "not-found", said, headers=headers)
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return problem_response(status, "method", said, headers=headers)
    return problem_response(status, "http", said, headers=headers)


async def _rejected(_request: Request, error: Exception) -> Response:
    if not isinstance(error, Reject):
        raise error
    return of_reject(error)


async def _bad_input(_request: Request, error: Exception) -> Response:
    if not isinstance(error, InputError):
        raise error
    return of_input(error)


async def _unexpected(_request: Request, _error: Exception) -> Response:
    return problem_response(500, "internal", "The server could not answer this request.")
