"""A host in front of a server, for the tests of the remote agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from raw_server import Answering, Asked, Handler, RawServer, serving

from interpose import Host, RemoteFailed, RunResult

SECRET = "Bearer sk-0123456789"
TEXT = "grüße 😀 aus\u2028München"


@asynccontextmanager
async def relayed(
    handler: Handler,
    layers: Sequence[Any] = (),
    settings: dict[str, Any] | None = None,
    **more: Any,
) -> AsyncIterator[tuple[Host, RawServer]]:
    """A host in front of a server that answers with ``handler``."""
    async with serving(handler) as server:
        agent = {"use": "remote", "url": server.url, **(settings or {})}
        async with Host(layers, overrides={"agent": agent}, **more) as host:
            yield host, server


def once(
    handler: Handler, asked: Any = "hi", settings: dict[str, Any] | None = None, **more: Any
) -> tuple[RunResult, RawServer]:
    """Play one run against a server that answers with ``handler``."""
    run_options = more.pop("run", {})

    async def main() -> tuple[RunResult, RawServer]:
        async with relayed(handler, settings=settings, **more) as (host, server):
            return await host.run(asked, **run_options), server

    return asyncio.run(main())


def failed(handler: Handler, settings: dict[str, Any] | None = None) -> RemoteFailed:
    """Return the failure of a run; what it says is safe to show."""
    result, _ = once(handler, settings=settings)
    assert result.outcome == "error"
    assert isinstance(result.error, RemoteFailed), result.error
    assert result.error.safe
    for text in (str(result.error), repr(result.error)):
        assert "sk-0123456789" not in text
        assert "127.0.0.1" not in text
    return result.error


async def answers(asked: Asked, answer: Answering) -> None:
    await answer.stream(asked.whole(TEXT))
