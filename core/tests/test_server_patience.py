"""How long a response waits: for its reader, and for a run that has nothing to say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from ag_ui.core import BaseEvent, RunAgentInput
from playing import agent_of, finished, say, started
from serving import body, events_of, run_async, served, server, types_of
from starlette.types import Message

from interpose import Host
from interpose.server import asgi

Send = Callable[[Message], Awaitable[None]]


async def answered(host: Host, send: Send) -> None:
    """Answer one request without a socket; its client never goes away."""
    content = json.dumps(body()).encode()
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.sleep(3600)
        raise AssertionError

    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    async with host:
        await asgi(host)(scope, receive, send)


def test_a_write_is_bounded_also_after_a_deadline_has_ended_the_run() -> None:
    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(3600)

    async def test() -> None:
        table = server(run_deadline=0.1, write_deadline=0.4)
        async with asyncio.timeout(5):
            await answered(Host(agent=agent_of(*say("hello")), overrides=table), send)

    run_async(test)


def test_a_head_of_an_answer_that_nobody_reads_is_bounded_as_well() -> None:
    async def send(message: Message) -> None:
        await asyncio.sleep(3600)

    async def test() -> None:
        async with asyncio.timeout(5):
            await answered(Host(agent=agent_of(), overrides=server(write_deadline=0.2)), send)

    run_async(test)


def test_many_writes_that_take_their_time_are_not_one_that_takes_too_long() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)
        await asyncio.sleep(0.1)

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in say("a", "b", "c"):
            await asyncio.sleep(0.1)
            yield event
        yield finished(run_input)

    async def test() -> None:
        await answered(Host(agent=agent, overrides=server(write_deadline=0.4)), send)
        text = b"".join(message.get("body", b"") for message in sent).decode()
        assert types_of(text)[-1] == "RUN_FINISHED"
        assert sent[-1]["more_body"] is False

    run_async(test)


def test_a_run_is_not_silent_while_its_last_words_are_unread() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)
        if len(sent) == 2:  # the first events
            await asyncio.sleep(0.6)

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        await asyncio.sleep(0.1)
        yield say("x")[0]
        await asyncio.sleep(0.5)
        yield say("x")[-1]
        yield finished(run_input)

    async def test() -> None:
        await answered(Host(agent=agent, overrides=server(idle_deadline=0.3)), send)
        text = b"".join(message.get("body", b"") for message in sent).decode()
        assert types_of(text)[-1] == "RUN_FINISHED"

    run_async(test)


def test_a_heartbeat_does_not_make_a_silent_run_speak() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        await asyncio.sleep(3600)

    async def test() -> None:
        table = server(heartbeat=0.05, idle_deadline=0.3)
        async with served(Host(agent=agent, overrides=table)) as (client, _):
            answer = await client.post("/", json=body())
        assert ": heartbeat\n\n" in answer.text
        assert events_of(answer.text)[-1]["code"] == "deadline-exceeded"

    run_async(test)
