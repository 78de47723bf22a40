"""From the library's parts to AG-UI's events: what no provider need be asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any, cast

from ag_ui.core import BaseEvent, RunFinishedEvent, RunStartedEvent, UserMessage
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryImage,
    FilePart,
    ModelMessage,
    NativeToolCallPart,
    NativeToolReturnPart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from wiring import Run, run_fixture  # noqa: F401 - a fixture

from interpose import ModelFinished, ModelRequest
from interpose.agui import Transcript, Verifier
from interpose_models import ModelsSettings
from interpose_models.model import ProviderModel
from interpose_models.opening import OpenedModel
from interpose_models.translation import Translation


def translated(*events: Any, parts: list[Any] | None = None) -> list[BaseEvent]:
    translation = Translation("m1")
    made = [each for event in events for each in translation.push(event)]
    made += translation.close(parts or [])
    return valid(made)


def valid(events: list[BaseEvent]) -> list[BaseEvent]:
    verifier = Verifier()
    verifier.check(RunStartedEvent(thread_id="t", run_id="r"))
    for event in events:
        verifier.check(event)
    verifier.check(RunFinishedEvent(thread_id="t", run_id="r"))
    return events


def transcript(events: list[BaseEvent]) -> list[dict[str, Any]]:
    built = Transcript()
    for event in events:
        built.apply(event)
    return [message.model_dump(exclude_none=True) for message in built.messages]


def names(events: list[BaseEvent]) -> list[str]:
    return [event.type.value for event in events]


def start(index: int, part: Any) -> PartStartEvent:
    return PartStartEvent(index=index, part=part)


def end(index: int, part: Any, **fields: Any) -> PartEndEvent:
    return PartEndEvent(index=index, part=part, **fields)


def delta(index: int, delta: Any) -> PartDeltaEvent:
    return PartDeltaEvent(index=index, delta=delta)


def test_text_that_a_call_interrupts_is_one_message() -> None:
    first, call, second = TextPart("One. "), ToolCallPart("f", "{}", "c1"), TextPart("Two.")
    events = translated(
        start(0, first),
        end(0, first),
        start(1, call),
        end(1, call),
        start(2, second),
        end(2, second),
        parts=[first, call, second],
    )
    [message] = transcript(events)
    assert message["content"] == "One. Two."
    assert [each["id"] for each in message["tool_calls"]] == ["c1"]
    assert names(events)[2:5] == ["TEXT_MESSAGE_END", "TOOL_CALL_START", "TOOL_CALL_ARGS"]


def test_empty_text_is_no_message() -> None:
    text = TextPart("")
    assert translated(start(0, text), delta(0, TextPartDelta("")), end(0, text), parts=[text]) == []


def test_reasoning_gets_a_message_of_its_own_and_its_seal() -> None:
    part = ThinkingPart("First. Then.", signature="signed", provider_name="anthropic")
    text = TextPart("Done.")
    events = translated(
        start(0, ThinkingPart("First.")),
        delta(0, ThinkingPartDelta(content_delta=" Then.")),
        delta(0, ThinkingPartDelta(signature_delta="signed")),
        end(0, part, canonical_system="anthropic"),
        start(1, text),
        end(1, text),
        parts=[part, text],
    )
    assert names(events) == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_ENCRYPTED_VALUE",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
    ]
    reasoning, answer = transcript(events)
    assert (reasoning["id"], reasoning["content"]) == ("m1-reasoning-1", "First. Then.")
    assert json.loads(reasoning["encrypted_value"]) == {
        "signature": "signed",
        "provider_name": "anthropic",
        "canonical_system": "anthropic",
    }
    assert (answer["id"], answer["content"]) == ("m1", "Done.")


def test_reasoning_without_text_is_told_if_the_provider_wants_it_back() -> None:
    sealed = ThinkingPart("", id="rs_1", signature="s", provider_name="openai")
    empty = ThinkingPart("")
    events = translated(
        start(0, empty), end(0, empty), start(1, sealed), end(1, sealed), parts=[empty, sealed]
    )
    [message] = transcript(events)
    assert json.loads(message["encrypted_value"])["id"] == "rs_1"
    assert message["content"] == ""


def test_reasoning_that_goes_on_after_something_else_is_a_new_stretch() -> None:
    thought, text = ThinkingPart("One."), TextPart("So.")
    events = translated(
        start(0, thought),
        end(0, thought),
        start(1, text),
        delta(0, ThinkingPartDelta(content_delta="Two.")),
        delta(1, TextPartDelta(" And.")),
        end(1, text),
        parts=[thought, text],
    )
    first, answer, second = transcript(events)
    assert [first["content"], second["content"]] == ["One.", "Two."]
    assert answer["content"] == "So. And."


def test_arguments_that_come_as_a_value_are_told_whole() -> None:
    whole = ToolCallPart("f", {"a": 1, "b": 2}, "c1")
    events = translated(
        start(0, ToolCallPart("f", {"a": 1}, "c1")),
        delta(0, ToolCallPartDelta(args_delta={"b": 2}, tool_call_id="c1")),
        end(0, whole),
        parts=[whole],
    )
    [message] = transcript(events)
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"a": 1, "b": 2}


def test_a_call_without_arguments_has_an_empty_object() -> None:
    call = ToolCallPart("f", None, "c1")
    [message] = transcript(translated(start(0, call), end(0, call), parts=[call]))
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}


def test_two_calls_with_one_id_or_none_get_ids_of_their_own() -> None:
    calls = [ToolCallPart("f", "{}", id_) for id_ in ("c1", "c1", "")]
    pushed = [each for i, call in enumerate(calls) for each in (start(i, call), end(i, call))]
    [message] = transcript(translated(*pushed, parts=calls))
    ids = [each["id"] for each in message["tool_calls"]]
    assert ids[0] == "c1"
    assert len({*ids, ""}) == 4


def test_a_call_keeps_what_the_provider_sealed() -> None:
    call = ToolCallPart("f", "{}", "c1", provider_name="google", provider_details={"t": "x"})
    [message] = transcript(translated(start(0, call), end(0, call), parts=[call]))
    assert json.loads(message["tool_calls"][0]["encrypted_value"]) == {
        "provider_name": "google",
        "provider_details": {"t": "x"},
    }


def test_a_call_that_the_provider_runs_is_marked_and_has_its_result() -> None:
    call = NativeToolCallPart("web_search", '{"q":"x"}', "s1", provider_name="anthropic")
    result = NativeToolReturnPart("web_search", {"hits": 2}, "s1", provider_name="anthropic")
    text = TextPart("Found.")
    events = translated(
        start(0, call),
        end(0, call),
        start(1, result),
        start(2, text),
        end(2, text),
        parts=[call, result, text],
    )
    assert names(events)[:4] == [
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
    ]
    message, answer = transcript(events)
    assert message["tool_calls"][0]["metadata"] == {"interpose:provider-executed": True}
    assert message["content"] == "Found."
    assert (answer["tool_call_id"], answer["content"]) == ("s1", '{"hits":2}')


def test_a_result_that_answers_no_call_is_not_told() -> None:
    result = NativeToolReturnPart("web_search", "x", "s9", provider_name="anthropic")
    assert translated(start(0, result), parts=[result]) == []


def test_a_part_that_has_no_place_is_left_out() -> None:
    picture = FilePart(content=BinaryImage(data=b"x", media_type="image/png"))
    translation = Translation("m1")
    assert list(translation.push(start(0, picture))) == []
    assert translation.left_out == {"file"}


@st.composite
def fragments(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Draw calls whose fragments come in any order; return the events and what they come to."""
    count = draw(st.integers(1, 4))
    texts = [
        draw(st.lists(st.text("abc", min_size=1, max_size=3), max_size=4)) for _ in range(count)
    ]
    order = draw(st.permutations([i for i, text in enumerate(texts) for _ in text]))
    feeds = [iter(text) for text in texts]
    events: list[Any] = [start(i, ToolCallPart("f", None, f"c{i}")) for i in range(count)]
    events += [delta(i, ToolCallPartDelta(args_delta=next(feeds[i]))) for i in order]
    parts = [ToolCallPart("f", "".join(text) or None, f"c{i}") for i, text in enumerate(texts)]
    return events, parts


@given(fragments())
def test_fragments_of_calls_never_mix(drawn: tuple[list[Any], list[Any]]) -> None:
    events, parts = drawn
    [message] = transcript(translated(*events, parts=parts))
    told = {each["id"]: each["function"]["arguments"] for each in message["tool_calls"]}
    assert told == {part.tool_call_id: part.args or "{}" for part in parts}


def test_a_model_of_the_library_plays_as_one_of_ours(run: Run) -> None:
    async def answer(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        assert [tool.name for tool in info.function_tools] == []
        yield "Let me"
        yield " look."
        yield {1: DeltaToolCall(name="f", json_args='{"a":', tool_call_id="c1")}
        yield {1: DeltaToolCall(json_args="1}")}

    async def main() -> list[BaseEvent]:
        opened = OpenedModel(
            FunctionModel(stream_function=answer), cast("Any", SimpleNamespace()), ()
        )
        settings = ModelsSettings(name="openai:any", needs_finish_reason=False)
        request = ModelRequest("main", (UserMessage(id="u", content="Hi"),))
        model = ProviderModel(opened, settings)
        return [event async for event in model.stream(request, run.context)]

    *events, finished = asyncio.run(main())
    [message] = transcript(valid(events))
    assert message["content"] == "Let me look."
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert isinstance(finished, ModelFinished)


def test_events_are_made_as_they_come() -> None:
    translation = Translation("m1")
    first: Iterator[BaseEvent] = translation.push(start(0, TextPart("a")))
    assert names(list(first)) == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
    assert names(list(translation.push(delta(0, TextPartDelta("b"))))) == ["TEXT_MESSAGE_CONTENT"]
