"""What goes over the wire and what comes back, against a provider that a test writes itself."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    FunctionCall,
    Tool,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolMessage,
    UserMessage,
)
from wiring import Run, Wire, run_fixture, wire_fixture  # noqa: F401 - fixtures

from interpose import (
    InvalidModelRequest,
    ModelFailed,
    ModelFinished,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
    QuotaExceeded,
    RateLimited,
    RequestTooLong,
)

CHAT, CLAUDE, RESPONSES = "openai-chat:gpt-4o", "anthropic:claude-sonnet-4-6", "openai:gpt-5-mini"
KEY = "sk-test-0123456789abcdef"
WEATHER = Tool(
    name="get_weather",
    description="Tells the weather.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
CITY = {
    "type": "object",
    "title": "City",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
STOP = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"output_tokens": 4},
}
END = {"type": "message_stop"}


def texts(events: list[Any]) -> str:
    return "".join(e.delta for e in events if e.type.value == "TEXT_MESSAGE_CONTENT")


def claude_text(*deltas: str) -> list[dict[str, Any]]:
    block = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    return [
        block,
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": delta},
            }
            for delta in deltas
        ),
        {"type": "content_block_stop", "index": 0},
    ]


def asked() -> ModelRequest:
    call = ToolCall(id="c1", function=FunctionCall(name="get_weather", arguments='{"city": "SF"}'))
    return ModelRequest(
        "main",
        (
            UserMessage(id="u1", content="Weather?"),
            AssistantMessage(id="a1", content="I look.", tool_calls=[call]),
            ToolMessage(id="t1", tool_call_id="c1", content="no such city", error="not found"),
        ),
        system_prompts=("Be brief.", "Be kind."),
        tools=(WEATHER,),
        settings={"temperature": 0.5, "max_tokens": 99},
    )


# What is sent -----------------------------------------------------------------------------------
def test_a_request_of_the_chat_protocol(wire: Wire) -> None:
    async def main() -> None:
        async with wire.serve(
            wire.chat(wire.chunk(content="ok"), wire.chunk(finish="stop"))
        ) as provider:
            settings = {"temperature": 0, "seed": 7, "extra_headers": {"x-team": "blue"}}
            model = provider.model(
                CHAT, settings=settings, provider_settings={"openai_user": "someone"}
            )
            await wire.play(model, asked(), wire.run)
        [body] = provider.bodies
        assert body["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city":"SF"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": '{"error":"no such city"}'},
        ]
        [tool] = body["tools"]
        assert tool["function"]["name"] == "get_weather"
        assert tool["function"]["description"] == "Tells the weather."
        assert tool["function"]["parameters"] == WEATHER.parameters
        asked_for = {k: v for k, v in body.items() if k not in {"messages", "tools"}}
        assert asked_for == {
            "model": "gpt-4o",
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.5,
            "seed": 7,
            "max_completion_tokens": 99,
            "tool_choice": "auto",
            "user": "someone",
        }
        [head] = provider.heads
        assert head.startswith("POST /v1/chat/completions HTTP/1.1")
        assert f"authorization: bearer {KEY}" in head.lower()
        assert "x-team: blue" in head.lower()

    asyncio.run(main())


def test_a_request_of_the_anthropic_protocol(wire: Wire) -> None:
    async def main() -> None:
        async with wire.serve(wire.claude(*claude_text("ok"), STOP, END)) as provider:
            await wire.play(provider.model(CLAUDE), asked(), wire.run)
        [body] = provider.bodies
        assert body["system"] == "Be brief.\n\nBe kind."
        assert body["messages"] == [
            {"role": "user", "content": [{"text": "Weather?", "type": "text"}]},
            {
                "role": "assistant",
                "content": [
                    {"text": "I look.", "type": "text"},
                    {
                        "id": "c1",
                        "type": "tool_use",
                        "name": "get_weather",
                        "input": {"city": "SF"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "tool_use_id": "c1",
                        "type": "tool_result",
                        "content": [{"text": "no such city", "type": "text"}],
                        "is_error": True,
                    }
                ],
            },
        ]
        [tool] = body["tools"]
        assert tool["name"] == "get_weather"
        assert tool["input_schema"] == WEATHER.parameters
        assert (body["max_tokens"], body["stream"]) == (99, True)
        [head] = provider.heads
        assert head.startswith("POST /v1/messages")
        assert f"{KEY}\r\n" in head

    asyncio.run(main())


def test_an_output_schema_is_asked_for_natively_beside_tools(wire: Wire) -> None:
    async def main() -> None:
        request = asked().replace(output_schema=CITY)
        told = wire.chat(wire.chunk(content='{"name": "SF"}'), wire.chunk(finish="stop"))
        async with wire.serve(told) as provider:
            model = provider.model(CHAT)
            assert {ability.value for ability in model.abilities} == {"output-with-tools"}
            await wire.play(model, request, wire.run)
        [body] = provider.bodies
        assert body["response_format"]["type"] == "json_schema"
        assert body["response_format"]["json_schema"]["name"] == "City"
        assert body["response_format"]["json_schema"]["schema"]["required"] == ["name"]
        assert len(body["tools"]) == 1

        told = wire.claude(*claude_text('{"name": "SF"}'), STOP, END)
        async with wire.serve(told) as provider:
            await wire.play(provider.model(CLAUDE), request, wire.run)
        [body] = provider.bodies
        assert body["output_config"]["format"]["schema"]["required"] == ["name"]
        assert len(body["tools"]) == 1

    asyncio.run(main())


def test_an_output_schema_that_is_no_object_is_asked_for_in_words(wire: Wire) -> None:
    async def main() -> None:
        schema = {"type": "array", "items": {"type": "integer"}}
        async with wire.serve(
            wire.chat(wire.chunk(content="[1]"), wire.chunk(finish="stop"))
        ) as provider:
            request = wire.hello.replace(output_schema=schema)
            await wire.play(provider.model(CHAT), request, wire.run)
        [body] = provider.bodies
        assert "response_format" not in body
        assert json.dumps(schema) in json.dumps(body["messages"][0]["content"]).replace('\\"', '"')
        assert "a JSON object" not in body["messages"][0]["content"]

    asyncio.run(main())


def test_environment_proxies_are_used_only_if_asked_for(monkeypatch: Any, wire: Wire) -> None:
    async def main() -> None:
        answers = [wire.chat(wire.chunk(content="ok"), wire.chunk(finish="stop"))] * 2
        async with wire.serve(*answers) as provider:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, "http://127.0.0.1:1")
            for name in ("NO_PROXY", "no_proxy"):
                monkeypatch.delenv(name, raising=False)
            assert texts(await wire.play(provider.model(CHAT), wire.hello, wire.run)) == "ok"
            with pytest.raises(ModelUnavailable):
                await wire.play(provider.model(CHAT, trust_env=True), wire.hello, wire.run)

    asyncio.run(main())


# What comes back --------------------------------------------------------------------------------
def test_calls_whose_fragments_come_mixed_stay_apart(wire: Wire) -> None:
    def call(index: int, args: str, **first: str) -> dict[str, Any]:
        name = {"name": first["name"]} if first else {}
        known = {"id": first["id"], "type": "function"} if first else {}
        return {"index": index, **known, "function": {**name, "arguments": args}}

    async def main() -> None:
        told = wire.chat(
            wire.chunk(role="assistant", tool_calls=[call(0, "", id="c1", name="f")]),
            wire.chunk(tool_calls=[call(1, "", id="c2", name="g")]),
            wire.chunk(tool_calls=[call(0, '{"a":')]),
            wire.chunk(tool_calls=[call(1, '{"b":')]),
            wire.chunk(tool_calls=[call(0, "1}"), call(1, "2}")]),
            wire.chunk(finish="tool_calls"),
        )
        async with wire.serve(told) as provider:
            events = await wire.play(provider.model(CHAT), wire.hello, wire.run)
        args: dict[str, str] = {}
        ended = []
        for event in events:
            if isinstance(event, ToolCallArgsEvent):
                assert event.tool_call_id not in ended
                args[event.tool_call_id] = args.get(event.tool_call_id, "") + event.delta
            if isinstance(event, ToolCallEndEvent):
                ended.append(event.tool_call_id)
        assert args == {"c1": '{"a":1}', "c2": '{"b":2}'}
        assert ended == ["c1", "c2"]
        assert isinstance(events[-1], ModelFinished)
        assert events[-1].finish_reason == "tool_calls"

    asyncio.run(main())


def test_usage_names_the_model_that_answered_and_counts_parts_within_the_totals(wire: Wire) -> None:
    async def main() -> None:
        usage = {
            "prompt_tokens": 50,
            "completion_tokens": 20,
            "total_tokens": 70,
            "prompt_tokens_details": {"cached_tokens": 30},
            "completion_tokens_details": {"reasoning_tokens": 12},
        }
        last = {**wire.chunk(), "choices": [], "usage": usage}
        async with wire.serve(
            wire.chat(wire.chunk(content="ok"), wire.chunk(finish="stop"), last)
        ) as provider:
            [*_, finished] = await wire.play(provider.model(CHAT), wire.hello, wire.run)
        assert isinstance(finished, ModelFinished)
        assert [each.model_dump(exclude_none=True) for each in finished.usage] == [
            {
                "provider": "openai",
                "model": "gpt-4o-2024-11-20",
                "input_tokens": 50,
                "output_tokens": 20,
                "total_tokens": 70,
                "reasoning_tokens": 12,
                "cached_input_tokens": 30,
            }
        ]
        async with wire.serve(wire.claude(*claude_text("ok"), STOP, END)) as provider:
            [*_, finished] = await wire.play(provider.model(CLAUDE), wire.hello, wire.run)
        assert isinstance(finished, ModelFinished)
        assert [each.model_dump(exclude_none=True) for each in finished.usage] == [
            {
                "provider": "anthropic",
                "model": "claude-sonnet-4-6",
                "input_tokens": 45,
                "output_tokens": 4,
                "total_tokens": 49,
                "cached_input_tokens": 30,
                "cache_write_input_tokens": 5,
            }
        ]

    asyncio.run(main())


@pytest.mark.parametrize("name", [CHAT, CLAUDE])
def test_an_answer_that_ends_without_a_reason_was_cut_off(name: str, wire: Wire) -> None:
    async def main() -> None:
        told = (
            wire.chat(wire.chunk(content="half"))
            if name == CHAT
            else wire.claude(*claude_text("half"))
        )
        async with wire.serve(told, told) as provider:
            with pytest.raises(ModelUnavailable, match="broke off: it says no reason to end"):
                await wire.play(provider.model(name), wire.hello, wire.run)
            lenient = provider.model(name, needs_finish_reason=False)
            assert texts(await wire.play(lenient, wire.hello, wire.run)) == "half"

    asyncio.run(main())


@pytest.mark.parametrize("name", [CHAT, CLAUDE])
def test_a_connection_that_breaks_is_unavailable_after_what_came(name: str, wire: Wire) -> None:
    async def main() -> None:
        said = wire.chat(wire.chunk(content="half"), then="break")
        thought = wire.claude(*claude_text("half")[:2], then="break")
        async with wire.serve(said if name == CHAT else thought) as provider:
            model = provider.model(name)
            events: list[Any] = []
            with pytest.raises(ModelUnavailable) as caught:
                await wire.collect(model, events)
        assert texts(events) == "half"
        assert events[-1].type.value == "TEXT_MESSAGE_CONTENT"
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None

    asyncio.run(main())


def test_a_call_that_was_cut_off_never_ends(wire: Wire) -> None:
    async def main() -> None:
        call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}
        text = wire.chunk(content="after it")
        async with wire.serve(
            wire.chat(wire.chunk(tool_calls=[call]), text, then="break")
        ) as provider:
            model = provider.model(CHAT)
            events: list[Any] = []
            with pytest.raises(ModelUnavailable):
                await wire.collect(model, events)
        told = [event.type.value for event in events]
        assert "TOOL_CALL_START" in told
        assert "TOOL_CALL_END" not in told

    asyncio.run(main())


def test_a_refused_answer_without_content_is_a_refusal(wire: Wire) -> None:
    async def main() -> None:
        async with wire.serve(
            wire.chat(wire.chunk(refusal="I cannot"), wire.chunk(finish="stop"))
        ) as provider:
            with pytest.raises(ModelRefused):
                await wire.play(provider.model(CHAT), wire.hello, wire.run)
        refused = {**STOP, "delta": {"stop_reason": "refusal"}}
        async with wire.serve(wire.claude(refused, END)) as provider:
            with pytest.raises(ModelRefused):
                await wire.play(provider.model(CLAUDE), wire.hello, wire.run)
        told = wire.chat(wire.chunk(content="Well"), wire.chunk(finish="content_filter"))
        async with wire.serve(told) as provider:
            [*_, finished] = await wire.play(provider.model(CHAT), wire.hello, wire.run)
            assert isinstance(finished, ModelFinished)
            assert finished.finish_reason == "content_filter"

    asyncio.run(main())


# What goes wrong --------------------------------------------------------------------------------
def error(message: str = "Sorry.", **fields: str) -> dict[str, Any]:
    return {"type": "error", "error": {"message": message, **fields}}


KINDS: list[tuple[str, int, dict[str, Any], type[ModelFailed]]] = [
    (CHAT, 429, error(code="rate_limit_exceeded"), RateLimited),
    (CHAT, 429, error(code="insufficient_quota"), QuotaExceeded),
    (CHAT, 400, error(code="context_length_exceeded"), RequestTooLong),
    (CHAT, 400, error(code="content_policy_violation"), ModelRefused),
    (CHAT, 400, error(code="unknown_parameter"), InvalidModelRequest),
    (CHAT, 401, error(code="invalid_api_key"), InvalidModelRequest),
    (CHAT, 404, error(code="model_not_found"), InvalidModelRequest),
    (CHAT, 408, error(), ModelUnavailable),
    (CHAT, 413, error(), RequestTooLong),
    (CHAT, 418, error(), InvalidModelRequest),
    (CHAT, 500, error(), ModelUnavailable),
    (CHAT, 503, error(), ModelUnavailable),
    (CLAUDE, 429, error(type="rate_limit_error"), RateLimited),
    (CLAUDE, 402, error(type="billing_error"), QuotaExceeded),
    (
        CLAUDE,
        400,
        error("prompt is too long: 9 tokens > 8", type="invalid_request_error"),
        RequestTooLong,
    ),
    (CLAUDE, 400, error(type="invalid_request_error"), InvalidModelRequest),
    (CLAUDE, 401, error(type="authentication_error"), InvalidModelRequest),
    (CLAUDE, 413, error(type="request_too_large"), RequestTooLong),
    (CLAUDE, 500, error(type="api_error"), ModelUnavailable),
    (CLAUDE, 529, error(type="overloaded_error"), ModelUnavailable),
    (RESPONSES, 429, error(code="rate_limit_exceeded"), RateLimited),
    (RESPONSES, 400, error(code="context_length_exceeded"), RequestTooLong),
]


@pytest.mark.parametrize(("name", "status", "body", "kind"), KINDS)
def test_a_status_is_the_failure_that_it_stands_for(
    name: str, status: int, body: dict[str, Any], kind: type[ModelFailed], wire: Wire
) -> None:
    async def main() -> None:
        async with wire.serve(wire.refusing(status, body, "retry-after: 7")) as provider:
            with pytest.raises(ModelFailed) as caught:
                await wire.play(provider.model(name), wire.hello, wire.run)
        assert type(caught.value) is kind
        assert caught.value.message.startswith(f"{name} ")
        assert len(provider.bodies) == 1
        if kind in {RateLimited, ModelUnavailable}:
            assert caught.value.retry_after == 7  # type: ignore[attr-defined]

    asyncio.run(main())


def test_a_failure_inside_a_stream_has_the_same_kind(wire: Wire) -> None:
    async def main() -> None:
        told = wire.chat(
            wire.chunk(content="half"), {"error": {"message": "No.", "code": "rate_limit_exceeded"}}
        )
        async with wire.serve(told) as provider:
            with pytest.raises(RateLimited) as caught:
                await wire.play(provider.model(CHAT), wire.hello, wire.run)
        assert caught.value.message == (
            f"{CHAT} answered with HTTP 429 inside its answer (rate_limit_exceeded): No."
        )
        overloaded = error("Busy.", type="overloaded_error")
        async with wire.serve(wire.claude(*claude_text("half"), overloaded)) as provider:
            with pytest.raises(ModelUnavailable, match="overloaded_error"):
                await wire.play(provider.model(CLAUDE), wire.hello, wire.run)

    asyncio.run(main())


def test_retries_are_left_to_layers_unless_the_operator_wants_them_here(wire: Wire) -> None:
    async def main() -> None:
        failing = wire.refusing(500, error(), "retry-after-ms: 1")
        async with wire.serve(
            failing, wire.chat(wire.chunk(content="ok"), wire.chunk(finish="stop"))
        ) as provider:
            events = await wire.play(provider.model(CHAT, max_retries=1), wire.hello, wire.run)
        assert texts(events) == "ok"
        assert len(provider.bodies) == 2

    asyncio.run(main())


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
@pytest.mark.parametrize("name", [CHAT, CLAUDE, RESPONSES])
def test_no_failure_repeats_the_key(name: str, status: int, wire: Wire) -> None:
    async def main() -> None:
        body = error(f"Incorrect key {KEY[:8]}**** with {KEY} given", type="some_error", code=KEY)
        async with wire.serve(wire.refusing(status, body)) as provider:
            with pytest.raises(ModelFailed) as caught:
                await wire.play(provider.model(name), wire.hello, wire.run)
        failure = caught.value
        assert KEY[:8] not in f"{failure} {failure!r} {vars(failure)} {failure.args}"
        assert failure.__cause__ is None
        assert failure.__context__ is None

    asyncio.run(main())


def test_a_secret_header_is_not_repeated_and_a_placeholder_is_no_secret(wire: Wire) -> None:
    async def main() -> None:
        body = error("The header is header-value-9, the key is ollama.")
        headers = {"extra_headers": {"x-key": "header-value-9"}}
        async with wire.serve(*[wire.refusing(400, body)] * 2) as provider:
            with pytest.raises(InvalidModelRequest) as caught:
                await wire.play(provider.model(CHAT, settings=headers), wire.hello, wire.run)
            assert caught.value.message == f"{CHAT} answered with HTTP 400."
            with pytest.raises(InvalidModelRequest) as caught:
                await wire.play(provider.model(CHAT, api_key="ollama"), wire.hello, wire.run)
            assert caught.value.message.endswith(
                "HTTP 400: The header is header-value-9, the key is ollama."
            )

    asyncio.run(main())


@pytest.mark.parametrize("name", [CHAT, CLAUDE])
def test_nothing_is_repeated_of_what_a_provider_says_of_a_key(name: str, wire: Wire) -> None:
    async def main() -> None:
        body = error("Incorrect key: sk-...cdef", type="authentication_error")
        async with wire.serve(wire.refusing(401, body)) as provider:
            with pytest.raises(InvalidModelRequest) as caught:
                await wire.play(provider.model(name), wire.hello, wire.run)
        assert caught.value.message == f"{name} answered with HTTP 401 (authentication_error)."
        assert caught.value.hint.startswith("Check api_key of the model")

    asyncio.run(main())


@pytest.mark.parametrize("name", [CHAT, CLAUDE])
def test_a_redirect_is_not_followed(name: str, wire: Wire) -> None:
    async def main() -> None:
        told = wire.chat(wire.chunk(content="ok"), wire.chunk(finish="stop"))
        async with wire.serve(told) as elsewhere:
            moved = wire.refusing(307, error(), f"location: {elsewhere.url}/v1/chat/completions")
            async with wire.serve(moved) as provider:
                with pytest.raises(ModelUnavailable):
                    await wire.play(provider.model(name), wire.hello, wire.run)
            assert elsewhere.heads == []

    asyncio.run(main())


def test_a_text_of_the_provider_is_one_line_and_cut_short(wire: Wire) -> None:
    async def main() -> None:
        body = error("No.\nNever.\n" + "x" * 1000, code="bad")
        async with wire.serve(wire.refusing(400, body)) as provider:
            with pytest.raises(InvalidModelRequest) as caught:
                await wire.play(provider.model(CHAT), wire.hello, wire.run)
        said = caught.value.message
        assert said.startswith(f"{CHAT} answered with HTTP 400 (bad): No. Never. xxx")
        assert said.endswith("x …")
        assert len(said) < 400

    asyncio.run(main())


def test_a_provider_that_is_not_there_or_silent_is_unavailable(wire: Wire) -> None:
    async def main() -> None:
        async with wire.serve(wire.chat(wire.chunk(content="half"), then="hang")) as provider:
            with pytest.raises(ModelUnavailable) as caught:
                await wire.play(provider.model(CHAT, timeout=0.2), wire.hello, wire.run)
            gone = provider.model(CHAT, base_url="http://127.0.0.1:1/v1")
            with pytest.raises(ModelUnavailable, match="could not be reached"):
                await wire.play(gone, wire.hello, wire.run)
        assert "Timeout" in caught.value.message

    asyncio.run(main())


def test_a_setting_that_does_not_exist_is_refused_before_anything_is_sent(wire: Wire) -> None:
    async def main() -> None:
        async with wire.serve() as provider:
            for settings, said in (
                ({"temprature": 0}, "There is no setting 'temprature'"),
                ({"temperature": "hot"}, "temperature: Input should be a valid number"),
            ):
                with pytest.raises(InvalidModelRequest, match=said):
                    await wire.play(
                        provider.model(CHAT), wire.hello.replace(settings=settings), wire.run
                    )
        assert provider.bodies == []

    asyncio.run(main())


# Ending early -----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [CHAT, CLAUDE])
@pytest.mark.parametrize("how", ["close", "cancel"])
def test_leaving_in_the_middle_closes_the_connection_at_once(
    name: str, how: str, wire: Wire
) -> None:
    async def main() -> None:
        said = wire.chat(wire.chunk(content="half"), then="hang")
        thought = wire.claude(*claude_text("half")[:2], then="hang")
        async with wire.serve(said if name == CHAT else thought) as provider:
            model = provider.model(name)
            stream = model.stream(wire.hello, wire.run.context)
            first = await anext(stream)
            assert first.type.value == "TEXT_MESSAGE_START"
            since = time.monotonic()
            if how == "close":
                await stream.aclose()
            else:
                await anext(stream)
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0.05)
                assert not provider.gone.is_set()
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            await asyncio.wait_for(provider.gone.wait(), 5)
            assert time.monotonic() - since < 2
            await model.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("name", [CHAT, CLAUDE])
def test_a_closed_stream_leaves_no_generator_to_the_garbage_collector(
    name: str, wire: Wire
) -> None:
    async def main() -> None:
        hooks = sys.get_asyncgen_hooks()
        left: list[str] = []
        sys.set_asyncgen_hooks(hooks.firstiter, lambda each: left.append(repr(each)))
        said = wire.chat(wire.chunk(content="half"), then="hang")
        thought = wire.claude(*claude_text("half")[:2], then="hang")
        async with wire.serve(said if name == CHAT else thought) as provider:
            model = provider.model(name)
            stream = model.stream(wire.hello, wire.run.context)
            await anext(stream)
            await stream.aclose()
            await model.aclose()
            del stream
            gc.collect()
        assert left == []

    asyncio.run(main())


def test_a_model_serves_several_calls_and_is_closed_once(wire: Wire) -> None:
    async def main() -> None:
        told: Callable[..., Any] = wire.chat(wire.chunk(content="ok"), wire.chunk(finish="stop"))
        async with wire.serve(told, told, told) as provider:
            model = provider.model(CHAT)

            async def once() -> str:
                return texts([event async for event in model.stream(wire.hello, wire.run.context)])

            answers = await asyncio.gather(once(), once(), once())
            assert list(answers) == ["ok", "ok", "ok"]
            await model.aclose()
            with pytest.raises(RuntimeError, match="closed"):
                await once()

    asyncio.run(main())
