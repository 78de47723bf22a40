"""A response while it lasts: clients that go, read slowly or not at all, silence, and the end."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from ag_ui.core import BaseEvent, RunAgentInput, TextMessageContentEvent, TextMessageStartEvent
from playing import agent_of, finished, say, started
from serving import body, events_of, listening, run_async, served, server, types_of, until
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import Message

from interpose import EndInfo, Host, Middleware, Reject, RunContext
from interpose.server import asgi, response


class Watched(Middleware):
    """Keep what each run came to."""

    ends: list[EndInfo]

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        ctx.attributes  # noqa: B018 - still readable at the end
        _ENDS.append(end)


_ENDS: list[EndInfo] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    _ENDS.clear()


def kinds() -> list[str]:
    return [getattr(end.info, "cause", end.kind) for end in _ENDS]


class Silent:
    """An agent that begins, waits for ever, and takes note of its end."""

    def __init__(self) -> None:
        self.closed_at: list[float] = []
        self.running = 0

    async def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        self.running += 1
        try:
            yield started(run_input)
            yield TextMessageStartEvent(message_id="m")
            await asyncio.sleep(3600)
        finally:
            self.running -= 1
            self.closed_at.append(time.monotonic())


def test_a_client_that_goes_away_cancels_the_run_at_once_even_when_the_agent_is_silent() -> None:
    async def test() -> None:
        agent = Silent()
        async with served(Host([Watched], agent=agent)) as (client, _):
            async with client.stream("POST", "/", json=body()) as answer:
                await anext(answer.aiter_raw())
                gone_at = time.monotonic()
            await until(lambda: len(agent.closed_at) == 1 and len(_ENDS) == 1)
            assert agent.closed_at[0] - gone_at < 1  # generous; it is a matter of milliseconds
            assert kinds() == ["consumer-gone"]
            assert (await client.post("/healthz")).status_code == 405  # the server goes on

    run_async(test)


def test_a_client_that_goes_before_the_first_event_cancels_the_run_as_well() -> None:
    class Slow(Middleware):
        async def setup(self, ctx: RunContext) -> None:
            _STARTED.set()
            await asyncio.sleep(3600)

    async def test() -> None:
        global _STARTED  # noqa: PLW0603 - an event of this loop
        _STARTED = asyncio.Event()
        host = Host([Watched, Slow], agent=agent_of(), overrides={"host": {"ending_deadline": 0.3}})
        async with served(host) as (client, _):
            asking = asyncio.create_task(client.post("/", json=body()))
            await _STARTED.wait()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    run_async(test)


_STARTED: asyncio.Event


class Counting:
    """An agent that says as much as it is let, and counts it."""

    def __init__(self, many: int, size: int = 1000) -> None:
        self.said = 0
        self._many = many
        self._text = "x" * size

    async def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in say():
            if not isinstance(event, TextMessageStartEvent):
                break
            yield event
        for _ in range(self._many):
            self.said += 1
            yield TextMessageContentEvent(message_id="m", delta=self._text)
        yield say()[-1]
        yield finished(run_input)


async def ask(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask over a plain socket, whose reading a test controls byte by byte."""
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    content = httpx2.Request("POST", url, json=body()).content
    head = f"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
    await writer.drain()
    return reader, writer


def test_a_slow_reader_holds_the_agent_back() -> None:
    async def test() -> None:
        agent = Counting(200_000)
        async with served(Host([Watched], agent=agent)) as (_, url):
            reader, writer = await ask(url)
            await reader.readexactly(500)
            before = -1
            while agent.said != before:  # until nothing moves any more
                before = agent.said
                await asyncio.sleep(0.2)
            # 200 MB were to be said; what is on the way fits the buffers of the system and ours.
            assert 0 < agent.said < 20_000
            await reader.read(1024)
            writer.close()
            await until(lambda: bool(_ENDS))
        assert kinds() == ["consumer-gone"]

    run_async(test)


def test_a_client_that_never_reads_counts_as_gone() -> None:
    async def test() -> None:
        host = Host([Watched], agent=Counting(200_000), overrides=server(write_deadline=0.3))
        async with served(host) as (_, url):
            _, writer = await ask(url)
            await until(lambda: bool(_ENDS))
            writer.close()
        assert kinds() == ["consumer-gone"]

    run_async(test)


def scope(method: str = "POST") -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "path": "/",
        "raw_path": b"/",
        "root_path": "",
        "query_string": b"",
        "scheme": "http",
        "headers": [(b"content-type", b"application/json")],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
    }


async def asked(app: Any, sent: list[Message]) -> None:
    """Send one request through an application, without a socket; the client never goes away."""
    content = httpx2.Request("POST", "http://x/", json=body()).content
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)
        await asyncio.sleep(0)

    await app(scope(), receive, send)


def test_a_burst_of_events_is_written_at_once_and_a_trickle_event_by_event() -> None:
    async def burst(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in say(*["word "] * 100):
            yield event
        yield finished(run_input)

    async def trickle(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        async for event in burst(run_input):
            await asyncio.sleep(0.001)
            yield event

    async def test() -> None:
        writes = {}
        for agent in (burst, trickle):
            host, sent = Host(agent=agent), list[Message]()
            async with host:
                await asked(asgi(host), sent)
            bodies = [message["body"] for message in sent[1:]]
            assert bodies[-1] == b""
            assert len(events_of(b"".join(bodies).decode())) == 104
            writes[agent.__name__] = len(bodies) - 1
        assert writes["burst"] <= 3
        assert writes["trickle"] == 104

    run_async(test)


def test_a_comment_keeps_a_silent_connection_alive_and_is_no_event() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        await asyncio.sleep(0.5)
        yield finished(run_input)

    async def test() -> None:
        async with served(Host(agent=agent, overrides=server(heartbeat=0.1))) as (client, _):
            answer = await client.post("/", json=body())
        assert 3 <= answer.text.count(": heartbeat\n\n") <= 5
        assert types_of(answer.text) == ["RUN_STARTED", "RUN_FINISHED"]

    run_async(test)


def test_no_heartbeat_comes_before_the_answer_is_decided() -> None:
    class Ponder(Middleware):
        async def setup(self, ctx: RunContext) -> None:
            await asyncio.sleep(0.3)
            raise Reject("no", "No.", status=402)

    async def test() -> None:
        host = Host([Ponder], agent=agent_of(), overrides=server(heartbeat=0.05))
        async with served(host) as (client, _):
            assert (await client.post("/", json=body())).status_code == 402

    run_async(test)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"idle_deadline": 0.2}, "The run was silent for 0.2 s."),
        ({"run_deadline": 0.3}, "The run took longer than 0.3 s."),
    ],
)
def test_a_deadline_ends_the_run_with_a_run_error_in_good_order(
    table: dict[str, float], said: str
) -> None:
    async def test() -> None:
        agent = Silent()
        async with served(Host([Watched], agent=agent, overrides=server(**table))) as (client, _):
            answer = await client.post("/", json=body())
        assert types_of(answer.text)[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]
        last = events_of(answer.text)[-1]
        assert (last["code"], last["message"]) == ("deadline-exceeded", said)
        assert agent.running == 0
        assert [end.kind for end in _ENDS] == ["error"]

    run_async(test)


def test_events_that_keep_coming_are_no_silence() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in say(*"abcdefgh"):
            await asyncio.sleep(0.05)
            yield event
        yield finished(run_input)

    async def test() -> None:
        async with served(Host(agent=agent, overrides=server(idle_deadline=0.2))) as (client, _):
            assert types_of((await client.post("/", json=body())).text)[-1] == "RUN_FINISHED"

    run_async(test)


def test_a_reader_that_is_slow_does_not_make_the_run_idle() -> None:
    async def test() -> None:
        host = Host([Watched], agent=Counting(20_000), overrides=server(idle_deadline=1.0))
        async with served(host) as (_, url):
            reader, writer = await ask(url)
            await reader.readexactly(200)
            await asyncio.sleep(2.0)
            while await reader.read(1 << 20):
                if _ENDS:
                    break
            await until(lambda: bool(_ENDS))
            writer.close()
        assert kinds() == ["finish"]

    run_async(test)


def test_the_response_ends_with_the_terminal_event_whatever_the_layers_do_after_it() -> None:
    released = asyncio.Event()

    class Late(Middleware):
        async def on_end(self, ctx: RunContext, end: EndInfo) -> None:
            await released.wait()

    async def test() -> None:
        async with served(Host([Late], agent=agent_of(*say("x")))) as (client, _):
            answer = await client.post("/", json=body())
            assert types_of(answer.text)[-1] == "RUN_FINISHED"
            released.set()

    run_async(test)


def test_draining_waits_for_open_runs_then_cancels_them_in_good_order() -> None:
    async def test() -> None:
        agent = Silent()
        host = Host([Watched], agent=agent)
        app = asgi(host)
        async with (
            listening(app) as url,
            httpx2.AsyncClient(base_url=url) as client,
            client.stream("POST", "/", json=body()) as answer,
        ):
            parts = answer.aiter_raw()
            text = (await anext(parts)).decode()
            draining = asyncio.create_task(app.drain(0.3))
            await asyncio.sleep(0.1)
            refused = await client.post("/", json=body(run_id="run-2"))
            ready = await client.get("/readyz")
            alive = await client.get("/healthz")
            assert not _ENDS
            await draining
            text += b"".join([part async for part in parts]).decode()
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert (ready.status_code, alive.status_code) == (503, 200)
        assert types_of(text)[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]
        assert events_of(text)[-1]["outcome"] == {"type": "cancelled"}
        assert kinds() == ["cancelled"]

    run_async(test)


async def _rest(answer: httpx2.Response) -> bytes:
    return b"".join([part async for part in answer.aiter_raw()])


def test_many_clients_of_which_half_go_away_leave_nothing_behind() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in say(*["word "] * 30):
            await asyncio.sleep(0.005)
            yield event
        yield finished(run_input)

    async def test() -> None:
        async with served(Host([Watched], agent=agent)) as (client, _):

            async def one(number: int) -> str:
                asked = body(run_id=f"run-{number}")
                async with client.stream("POST", "/", json=asked) as answer:
                    if number % 2:
                        await anext(answer.aiter_raw())
                        return ""
                    return (await _rest(answer)).decode()

            texts = await asyncio.gather(*(one(number) for number in range(60)))
            await until(lambda: len(_ENDS) == 60)
        assert [types_of(text)[-1] for text in texts[::2]] == ["RUN_FINISHED"] * 30
        assert sorted(kinds()) == ["consumer-gone"] * 30 + ["finish"] * 30
        gc.collect()
        generators = [each for each in gc.get_objects() if type(each).__name__ == "async_generator"]
        assert [each for each in generators if each.ag_frame is not None] == []

    run_async(test)


# One's own routes, and mounting ----------------------------------------------------------------


def test_a_route_of_ones_own_answers_with_a_run() -> None:
    async def test() -> None:
        host = Host(agent=agent_of(*say("mine")))

        async def chat(request: Request) -> Response:
            return response(host.run(await request.json()), request)

        async with (
            host,
            listening(Starlette(routes=[Route("/chat", chat, methods=["POST"])])) as url,
            httpx2.AsyncClient(base_url=url) as client,
        ):
            first = await client.post("/chat", json=body())
        assert first.headers["content-type"].startswith("text/event-stream")
        assert "mine" in first.text
        assert types_of(first.text)[-1] == "RUN_FINISHED"

    run_async(test)


def test_a_run_that_was_used_already_is_an_error_not_an_empty_stream() -> None:
    async def test() -> None:
        host = Host(agent=agent_of())

        async def chat(request: Request) -> Response:
            run = host.run(await request.json())
            await run
            return response(run, request)

        async with (
            host,
            listening(Starlette(routes=[Route("/chat", chat, methods=["POST"])])) as url,
            httpx2.AsyncClient(base_url=url) as client,
        ):
            answer = await client.post("/chat", json=body())
        assert (answer.status_code, answer.json()["code"]) == (500, "run-failed")

    run_async(test)


def test_mounted_it_serves_below_its_path_once_the_host_is_entered() -> None:
    async def test() -> None:
        host = Host(agent=agent_of(*say("x")))

        @asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            async with host:
                yield

        app = Starlette(routes=[Mount("/agent", asgi(host))], lifespan=lifespan)
        async with listening(app) as url, httpx2.AsyncClient(base_url=url) as client:
            answer = await client.post("/agent/", json=body())
        assert types_of(answer.text)[-1] == "RUN_FINISHED"

    run_async(test)


def test_mounted_without_entering_the_host_it_says_what_is_missing() -> None:
    async def test() -> None:
        app = Starlette(routes=[Mount("/agent", asgi(Host(agent=agent_of())))])
        async with listening(app) as url, httpx2.AsyncClient(base_url=url) as client:
            answer = await client.post("/agent/", json=body())
            ready = await client.get("/agent/readyz")
        assert (answer.status_code, ready.status_code) == (503, 503)
        assert "entered" in answer.json()["detail"]

    run_async(test)
