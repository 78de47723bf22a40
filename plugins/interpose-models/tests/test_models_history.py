"""From AG-UI's messages to those of the library."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    DataSource,
    DeveloperMessage,
    DocumentPart,
    FileSource,
    FunctionCall,
    ImagePart,
    Message,
    ReasoningMessage,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UrlSource,
    UserMessage,
)
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from interpose import InvalidModelRequest
from interpose_models.history import history
from interpose_models.sealed import unseal


def made(*messages: Message, prompts: tuple[str, ...] = ()) -> tuple[list[Any], list[str]]:
    noted: list[str] = []
    return history(messages, prompts, noted.append), noted


def outline(*messages: Message, prompts: tuple[str, ...] = ()) -> list[tuple[str, list[str]]]:
    return [
        (each.kind, [f"{part.part_kind} {part.content}" for part in each.parts])
        for each in made(*messages, prompts=prompts)[0]
    ]


def call(id_: str, name: str = "f", **fields: Any) -> ToolCall:
    return ToolCall(id=id_, function=FunctionCall(name=name, arguments='{"a":1}'), **fields)


def test_neighbours_of_one_side_become_one_message() -> None:
    assert outline(
        SystemMessage(id="1", content="System."),
        UserMessage(id="2", content="One."),
        UserMessage(id="3", content="Two."),
        AssistantMessage(id="4", content="Three."),
        AssistantMessage(id="5", content="Four."),
        DeveloperMessage(id="6", content="Developer."),
        UserMessage(id="7", content="Five."),
        prompts=("First.", "Second."),
    ) == [
        (
            "request",
            [
                "system-prompt First.",
                "system-prompt Second.",
                "system-prompt System.",
                "user-prompt One.",
                "user-prompt Two.",
            ],
        ),
        ("response", ["text Three.", "text Four."]),
        ("request", ["system-prompt Developer.", "user-prompt Five."]),
    ]


def test_activities_empty_messages_and_reasoning_of_nobody_are_not_sent() -> None:
    assert outline(
        ActivityMessage(id="1", activity_type="plan", content={}),
        UserMessage(id="2", content="Hi."),
        AssistantMessage(id="3", content=""),
        ReasoningMessage(id="4", content="I wonder."),
        ReasoningMessage(id="5", content="I wonder.", encrypted_value="of another producer"),
        ReasoningMessage(id="6", content="I wonder.", encrypted_value='["no", "object"]'),
        UserMessage(id="7", content=[]),
    ) == [("request", ["user-prompt Hi."])]


def test_calls_and_their_results_keep_name_arguments_and_failure() -> None:
    [response, request], _ = made(
        AssistantMessage(id="1", tool_calls=[call("c1", "f"), call("c2", "g")]),
        ToolMessage(id="2", tool_call_id="c2", content="", error="it broke"),
        ToolMessage(id="3", tool_call_id="c1", content="fine"),
        ToolMessage(id="4", tool_call_id="c1", content=[TextPart(text="a"), TextPart(text="b")]),
    )
    assert isinstance(response, ModelResponse)
    assert response.parts == [
        ToolCallPart("f", '{"a":1}', "c1"),
        ToolCallPart("g", '{"a":1}', "c2"),
    ]
    assert isinstance(request, ModelRequest)
    told = [
        (part.tool_name, part.tool_call_id, part.content, part.outcome)
        for part in request.parts
        if isinstance(part, ToolReturnPart)
    ]
    assert told == [
        ("g", "c2", "it broke", "failed"),
        ("f", "c1", "fine", "success"),
        ("f", "c1", ["a", "b"], "success"),
    ]


def test_a_result_that_answers_no_call_is_invalid() -> None:
    with pytest.raises(InvalidModelRequest) as caught:
        made(ToolMessage(id="t1", tool_call_id="c9", content="x"))
    assert caught.value.message == (
        "The tool message 't1' answers the call 'c9', which no message before it makes."
    )


def test_what_the_provider_ran_itself_is_not_sent() -> None:
    elsewhere = call("c1", "web_search", metadata={"interpose:provider-executed": True})
    assert outline(
        AssistantMessage(id="1", content="Found it.", tool_calls=[elsewhere]),
        ToolMessage(id="2", tool_call_id="c1", content="pages"),
        UserMessage(id="3", content="Thanks."),
    ) == [("response", ["text Found it."]), ("request", ["user-prompt Thanks."])]


def test_reasoning_and_calls_get_back_what_the_provider_sealed() -> None:
    value = {
        "id": "rs_1",
        "signature": "signed",
        "provider_name": "openai",
        "provider_details": {"a": 1},
        "canonical_system": "azure",
    }
    details = json.dumps({"provider_name": "google", "provider_details": {"thought": "x"}})
    [response], _ = made(
        ReasoningMessage(id="1", content="Hm.", encrypted_value=json.dumps(value)),
        AssistantMessage(id="2", tool_calls=[call("c1", encrypted_value=details)]),
    )
    thinking, called = response.parts
    assert thinking == ThinkingPart(
        "Hm.",
        id="rs_1",
        signature="signed",
        provider_name="openai",
        provider_details={"a": 1},
    )
    assert (response.provider_name, response.canonical_system) == ("openai", "azure")
    assert (called.provider_name, called.provider_details) == ("google", {"thought": "x"})


def test_reasoning_after_the_first_text_stands_before_the_calls_that_it_led_to() -> None:
    sealed = json.dumps({"signature": "s", "provider_name": "anthropic"})
    messages, _ = made(
        ReasoningMessage(id="m1-reasoning-1", content="One.", encrypted_value=sealed),
        AssistantMessage(id="m1", content="Text.", tool_calls=[call("c1")]),
        ToolMessage(id="2", tool_call_id="c1", content="fine"),
        ReasoningMessage(id="m1-reasoning-2", content="Two.", encrypted_value=sealed),
        AssistantMessage(id="m2", content="Text."),
        ReasoningMessage(id="m2-reasoning-1", content="Three.", encrypted_value=sealed),
    )
    assert [[part.part_kind for part in each.parts] for each in messages] == [
        ["thinking", "text", "thinking", "tool-call"],
        ["tool-return"],
        ["text", "thinking"],
    ]


@pytest.mark.parametrize("value", [None, "", "{", "[" * 100_000, "7", '{"id": 7, "more": "x"}'])
def test_a_value_that_is_none_of_ours_has_no_fields(value: str | None) -> None:
    assert unseal(value) == {}


def test_parts_of_a_message_keep_their_order_and_kind() -> None:
    data = base64.b64encode(b"%PDF").decode()
    [request], noted = made(
        UserMessage(
            id="1",
            content=[
                TextPart(text="See:"),
                ImagePart(source=UrlSource(value="https://example.org/a.png")),
                DocumentPart(source=DataSource(value=data, mime_type="application/pdf")),
            ],
        )
    )
    [part] = request.parts
    assert isinstance(part, UserPromptPart)
    text, image, document = list(part.content)
    assert text == "See:"
    assert isinstance(image, ImageUrl)
    assert (image.url, image.force_download) == ("https://example.org/a.png", False)
    assert document == BinaryContent(data=b"%PDF", media_type="application/pdf")
    assert noted == []


def test_what_would_lend_the_hosts_rights_is_left_out_and_noted() -> None:
    messages, noted = made(
        UserMessage(
            id="1",
            content=[
                ImagePart(source=UrlSource(value="file:/etc/passwd")),
                ImagePart(source=UrlSource(value="s3://bucket/a.png")),
                DocumentPart(source=FileSource(value="file-of-another", provider="openai")),
            ],
        )
    )
    assert messages == []
    assert noted == [
        "An address (image) was left out: it is neither http nor https.",
        "An address (image) was left out: it is neither http nor https.",
        "A handle of a file at the provider (document) was left out.",
    ]


def test_data_that_is_not_base64_is_invalid() -> None:
    part = ImagePart(source=DataSource(value="!", mime_type="image/png"))
    with pytest.raises(InvalidModelRequest, match=r"The data of a part \(image\) is not base64\."):
        made(UserMessage(id="1", content=[part]))
