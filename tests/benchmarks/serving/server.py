"""All variants in one server: the same loop, the same server, the same agent and the same events.

``python -m benchmarks.serving.server LOOP [UPSTREAM]`` prints its URL, and serves until its input
ends. A path names the variant; what the run says is in the request. UPSTREAM is the URL of a
variant of another such server, for the gateway in front of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import uvicorn
from ag_ui.core import RunAgentInput
from ag_ui.encoder import EventEncoder
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from interpose import Host
from interpose.server import asgi
from interpose.server.listening import address, listen

from .source import agent, layers

_TOGETHER: Final = 64
_RUN_ID: Final = "the id of the run"
_HEADERS: Final = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]


async def with_starlette(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer as the documentation of AG-UI shows it."""
    request = Request(scope, receive)
    run_input = RunAgentInput.model_validate_json(await request.body())
    encoder = EventEncoder(accept=request.headers.get("accept", ""))

    async def frames() -> AsyncIterator[str]:
        async for event in agent(run_input):
            yield encoder.encode(event)

    answer = StreamingResponse(frames(), media_type=encoder.get_content_type())
    await answer(scope, receive, send)


class Encoded:
    """Sends bytes that were encoded before, ``together`` events at a time: what is left to gain."""

    def __init__(self, together: int) -> None:
        self._together = together
        self._known: dict[str, list[bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, without a look at the request but for its id and how much is to be said."""
        sent = json.loads(await Request(scope, receive).body())
        asked = sent["forwardedProps"]
        parts = await self._encoded(sent)
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        for part in parts:
            if asked["wakes"]:
                await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _encoded(self, sent: dict[str, Any]) -> list[bytes]:
        key = json.dumps(sent["forwardedProps"])
        if key not in self._known:
            encode = EventEncoder().encode
            run_input = RunAgentInput.model_validate({**sent, "runId": _RUN_ID})
            events = [encode(event).encode() async for event in agent(run_input)]
            size = self._together
            self._known[key] = [
                b"".join(events[at : at + size]) for at in range(0, len(events), size)
            ]
        first, *parts, last = self._known[key]
        old, new = _RUN_ID.encode(), sent["runId"].encode()
        return [first.replace(old, new), *parts, last.replace(old, new)]


class Variants:
    """Hands a request to the application that its path names."""

    def __init__(self, known: Mapping[str, ASGIApp]) -> None:
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._known[scope["path"]]({**scope, "path": "/"}, receive, send)


async def serve(loop: str, upstream: str | None) -> None:
    """Serve until the input ends."""
    hosts = {
        "/interpose": Host(agent=agent),
        "/interpose-hooks": Host(layers(10), agent=agent),
    }
    if upstream is not None:
        remote = {"agent": {"use": "remote", "url": upstream}}
        hosts["/gateway"] = Host(overrides=remote)
    known: dict[str, Any] = {
        "/starlette": with_starlette,
        "/encoded": Encoded(1),
        "/encoded-together": Encoded(_TOGETHER),
        **{path: asgi(host) for path, host in hosts.items()},
    }
    config = uvicorn.Config(
        Variants(known), loop=loop, lifespan="off", log_config=None, access_log=False, ws="none"
    )
    server = uvicorn.Server(config)
    sock = listen("127.0.0.1", 0)
    async with AsyncExitStack() as entered:
        for host in hosts.values():
            await entered.enter_async_context(host)
        ending = asyncio.create_task(_until_input_ends(server))
        sys.stdout.write(address(sock) + "\n")
        sys.stdout.flush()
        await server.serve(sockets=[sock])
        ending.cancel()


async def _until_input_ends(server: uvicorn.Server) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    server.should_exit = True


def main(arguments: list[str]) -> None:
    """Run it, with the loop that is asked for."""
    loop, upstream = arguments[0], arguments[1] if arguments[1:] else None
    factory = uvicorn.Config("", loop=loop).get_loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(loop, upstream))


if __name__ == "__main__":
    main(sys.argv[1:])
