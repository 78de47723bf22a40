"""Serve an agent to the users of a FastAPI application."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import BaseEvent, RunAgentInput, RunFinishedEvent, RunStartedEvent
from ag_ui.core import TextMessageChunkEvent as Chunk
from fastapi import FastAPI, Request

from interpose import PRINCIPAL, Host, Layer, Middleware, Reject, RunContext, Stage
from interpose.server import asgi
from interpose_redact import Redact


@dataclass(frozen=True)
class User:
    """The application's own user class; any object with these members will do."""

    subject: str
    tenant: str | None = None
    roles: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any])


USERS = {"ada-token": User("ada", tenant="acme"), "eve-token": User("eve", tenant="other")}


def log_in(request: Request) -> User:
    """The application's own login: a session, a token, whatever it has already."""
    user = USERS.get(request.headers.get("authorization", "").removeprefix("Bearer "))
    if user is None:
        raise Reject("login", "Log in first.", status=401)
    return user


class Members(Middleware):
    """Serve the members of one organisation."""

    stage = Stage.EDGE
    requires = (PRINCIPAL,)

    def setup(self, ctx: RunContext) -> None:
        if ctx[PRINCIPAL].tenant != "acme":
            raise Reject("tenant", "Your organisation is not served here.")


async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    """Answer a run; in your application, the agent that you have already."""
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    for piece in ("Write to ada@exam", "ple.com, please."):
        yield Chunk(message_id="m1", role="assistant", delta=piece)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


host = Host(
    layers=[Members, Layer(Redact, {"entities": ["email"]})],
    agent=agent,
    provides=[PRINCIPAL],  # the application promises a user for each run
)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with host:
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/agent", asgi(host, provide=lambda request: {PRINCIPAL: log_in(request)}))
