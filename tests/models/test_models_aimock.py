"""Real requests to a fake provider that others wrote, in each protocol: the same events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    Message,
    RunFinishedEvent,
    RunStartedEvent,
    Tool,
    ToolMessage,
    UserMessage,
)

from interpose import (
    ModelFailed,
    ModelFinished,
    ModelRequest,
    ModelUnavailable,
    QuotaExceeded,
    RateLimited,
)
from interpose.agui import Transcript, Verifier

CHAT, CLAUDE, RESPONSES = "openai-chat:gpt-4o", "anthropic:claude-sonnet-4-6", "openai:gpt-5-mini"
EACH = pytest.mark.parametrize("name", [CHAT, CLAUDE, RESPONSES])
WEATHER = Tool(
    name="get_weather",
    description="Tells the weather.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)


def request(*messages: Message, tools: Sequence[Tool] = ()) -> ModelRequest:
    return ModelRequest("main", messages, system_prompts=("Be brief.",), tools=tuple(tools))


def asks(text: str) -> UserMessage:
    return UserMessage(id="u1", content=text)


def played(model: Any, asked: ModelRequest, context: Any) -> tuple[list[BaseEvent], ModelFinished]:
    async def main() -> list[BaseEvent]:
        try:
            return [event async for event in model.stream(asked, context)]
        finally:
            await model.aclose()

    *events, finished = asyncio.run(main())
    assert isinstance(finished, ModelFinished)
    verifier = Verifier()
    verifier.check(RunStartedEvent(thread_id="t", run_id="r"))
    for event in events:
        verifier.check(event)
    verifier.check(RunFinishedEvent(thread_id="t", run_id="r"))
    return events, finished


def failed(model: Any, text: str, context: Any) -> tuple[list[Any], ModelFailed]:
    events: list[Any] = []

    async def main() -> None:
        try:
            async for event in model.stream(request(asks(text)), context):
                events.append(event)  # noqa: PERF401 - what came before the failure counts
        finally:
            await model.aclose()

    with pytest.raises(ModelFailed) as caught:
        asyncio.run(main())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return events, caught.value


def transcript(events: Sequence[BaseEvent], *messages: Message) -> list[Any]:
    built = Transcript(messages)
    for event in events:
        built.apply(event)
    return list(built.messages)


def deltas(events: Sequence[Any], kind: str) -> list[str]:
    return [event.delta for event in events if event.type.value == kind]


@EACH
def test_text_arrives_as_it_is_written_with_its_usage(name: str, aimock: Any, context: Any) -> None:
    events, finished = played(aimock.model(name), request(asks("say hello")), context)
    told = deltas(events, "TEXT_MESSAGE_CONTENT")
    assert "".join(told) == "Hello, and welcome to the show."
    assert len(told) > 3
    assert {event.message_id for event in events if event.type.value.startswith("TEXT")} == {"m1"}  # type: ignore[attr-defined]
    assert finished.finish_reason == "stop"
    [usage] = finished.usage
    provider, _, model = name.partition(":")
    assert (usage.provider, usage.model) == (provider.partition("-")[0], model)
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (11, 7, 18)


@EACH
def test_two_calls_at_once_then_their_results(name: str, aimock: Any, context: Any) -> None:
    asked = request(asks("the weather"), tools=[WEATHER])
    events, finished = played(aimock.model(name), asked, context)
    assert finished.finish_reason == "tool_calls"
    assert len(deltas(events, "TOOL_CALL_ARGS")) > 4
    *before, answer = transcript(events, asks("the weather"))
    assert answer.content == "Let me look."
    calls = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in answer.tool_calls]
    assert calls == [
        ("call_sf", "get_weather", {"city": "San Francisco"}),
        ("call_ny", "get_weather", {"city": "New York"}),
    ]
    [sent] = aimock.last_request()["tools"]
    assert sent["function"]["name"] == "get_weather"
    assert sent["function"]["parameters"]["properties"] == {"city": {"type": "string"}}

    results = [
        ToolMessage(id="t2", tool_call_id="call_sf", content="18 degrees"),
        ToolMessage(id="t3", tool_call_id="call_ny", content="9 degrees"),
    ]
    asked = request(*before, answer, *results, tools=[WEATHER])
    events, finished = played(aimock.model(name), asked, context)
    assert "".join(deltas(events, "TEXT_MESSAGE_CONTENT")) == "18 here, 9 there."
    messages = aimock.last_request()["messages"]
    assert (messages[0]["role"], messages[0]["content"]) == ("system", "Be brief.")
    made = [call for each in messages for call in each.get("tool_calls") or ()]
    assert [call["id"] for call in made] == ["call_sf", "call_ny"]
    told = [each for each in messages if each["role"] == "tool"]
    assert [(each["tool_call_id"], each["content"]) for each in told] == [
        ("call_sf", "18 degrees"),
        ("call_ny", "9 degrees"),
    ]


@pytest.mark.parametrize("name", [CLAUDE, RESPONSES])
def test_reasoning_goes_back_with_what_the_provider_signed(
    name: str, aimock: Any, context: Any
) -> None:
    events, _ = played(aimock.model(name), request(asks("think")), context)
    assert "".join(deltas(events, "REASONING_MESSAGE_CONTENT")) == "First one thing, then another."
    user, reasoning, answer = transcript(events, asks("think"))
    assert (reasoning.role, answer.content) == ("reasoning", "Done.")
    sealed = json.loads(reasoning.encrypted_value)
    again = request(user, reasoning, answer, UserMessage(id="u2", content="say hello"))
    events, _ = played(aimock.model(name), again, context)
    assert deltas(events, "TEXT_MESSAGE_CONTENT") != []
    if name == CLAUDE:
        assert sealed["signature"] == "signed-by-the-provider"
    else:
        assert sealed["id"].startswith("rs")
        assert sealed["signature"]


@EACH
def test_failures_by_kind(name: str, aimock: Any, context: Any) -> None:
    _, limited = failed(aimock.model(name), "too many", context)
    assert isinstance(limited, RateLimited)
    assert limited.retry_after == 7
    assert limited.message.endswith(": Slow down.")
    _, poor = failed(aimock.model(name), "no money", context)
    assert isinstance(poor, QuotaExceeded)
    _, broken = failed(aimock.model(name), "break down", context)
    assert isinstance(broken, ModelUnavailable)
    assert "HTTP 500" in broken.message


@EACH
def test_a_connection_that_breaks_in_the_middle(name: str, aimock: Any, context: Any) -> None:
    events, broken = failed(aimock.model(name), "hang up", context)
    assert isinstance(broken, ModelUnavailable)
    assert "never told to its end" not in "".join(deltas(events, "TEXT_MESSAGE_CONTENT"))
    assert "TEXT_MESSAGE_END" not in [event.type.value for event in events]


@EACH
def test_a_call_that_is_cancelled_is_over_at_once(name: str, aimock: Any, context: Any) -> None:
    async def main() -> float:
        model = aimock.model(name)
        first = asyncio.Event()

        async def play() -> None:
            async for _ in model.stream(request(asks("go on")), context):
                first.set()

        playing = asyncio.ensure_future(play())
        await asyncio.wait_for(first.wait(), 20)
        since = time.monotonic()
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        await model.aclose()
        return time.monotonic() - since

    assert asyncio.run(main()) < 2  # what is left of the answer takes twice as long
