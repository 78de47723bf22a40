"""The compatibility boundary: what was written before AG-UI 1.0."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunStartedEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    ToolCallResultEvent,
    UserMessage,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from loguru import logger
from playing import play

from interpose import CallRun, Middleware, RunContext
from interpose.agui import (
    EVENT_CLASSES,
    Compatibility,
    Stripper,
    check_input,
    read_capture,
    strip,
    to_json,
    typed,
    violations,
)
from interpose.errors import InvalidStream

STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
THINKING: list[dict[str, Any]] = [
    {"type": "THINKING_START", "title": "Plan"},
    {"type": "THINKING_TEXT_MESSAGE_START"},
    {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "hm"},
    {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "m"},
    {"type": "THINKING_TEXT_MESSAGE_END"},
    {"type": "THINKING_END"},
]
PNG = {"type": "binary", "mimeType": "image/png", "data": "aGk="}


def converted(*raws: dict[str, Any]) -> tuple[list[Any], list[str]]:
    numbers = count(1)
    compatibility = Compatibility(lambda: f"id-{next(numbers)}")
    return [dict(compatibility.convert(raw)) for raw in raws], compatibility.warnings


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": "1", "role": "user", "content": list(parts)}


# -- thinking -----------------------------------------------------------------------------------


def test_thinking_becomes_reasoning_with_one_id_a_span_and_one_a_message() -> None:
    events, warnings = converted(*THINKING)
    assert events == [
        {"type": "REASONING_START", "messageId": "id-1"},
        {"type": "REASONING_MESSAGE_START", "messageId": "id-2", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "id-2", "delta": "hm"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "id-2", "delta": "m"},
        {"type": "REASONING_MESSAGE_END", "messageId": "id-2"},
        {"type": "REASONING_END", "messageId": "id-1"},
    ]
    assert warnings == [
        "read THINKING_* events as REASONING_* events, with ids made up",
        "lost the title of THINKING_START: 1.0 has no place for it",
    ]


def test_every_span_of_thinking_has_its_own_id_and_the_stream_is_valid() -> None:
    stripper = Stripper(Compatibility())
    raws = [STARTED, *THINKING, *THINKING, FINISHED, STARTED, *THINKING, FINISHED]
    events = [event for raw in raws if (event := stripper.admit(raw)) is not None]
    assert list(violations(events)) == []
    spans = [getattr(event, "message_id", None) for event in events]
    assert len({span for span in spans if span is not None}) == 6
    assert len(stripper.warnings) == 2


def test_thinking_without_its_opener_is_a_violation_and_not_repaired() -> None:
    stripper = Stripper(Compatibility())
    raws = [STARTED, THINKING[2], FINISHED]
    events = [event for raw in raws if (event := stripper.admit(raw)) is not None]
    assert [violation.rule for violation in violations(events)] == ["not-open"]  # type: ignore[union-attr]


def test_thinking_of_two_subagents_keeps_apart() -> None:
    mine = {"type": "THINKING_TEXT_MESSAGE_START", "subagentRunId": "a"}
    theirs = {"type": "THINKING_TEXT_MESSAGE_START", "subagentRunId": "b"}
    content = {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "x", "subagentRunId": "a"}
    events, _ = converted(mine, theirs, content)
    assert events[2]["messageId"] == events[0]["messageId"] != events[1]["messageId"]


# -- nulls --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "rawEvent": None}, "rawEvent"),
        ({**FINISHED, "result": None}, "result"),
        ({**FINISHED, "outcome": None}, "outcome"),
        ({"type": "SUBAGENT_FINISHED", "subagentRunId": "a", "result": None}, "result"),
        ({"type": "SUBAGENT_FINISHED", "subagentRunId": "a", "outcome": None}, "outcome"),
        (
            {
                "type": "TOOL_CALL_START",
                "toolCallId": "c",
                "toolCallName": "f",
                "parentMessageId": None,
            },
            "parentMessageId",
        ),
        (
            {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "parentMessageId": None},
            "parentMessageId",
        ),
        (
            {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "parent_message_id": None},
            "parent_message_id",
        ),
    ],
)
def test_a_null_of_old_reads_as_absent_with_one_warning(raw: dict[str, Any], key: str) -> None:
    before = copy.deepcopy(raw)
    events, warnings = converted(raw, raw)
    assert key not in events[0]
    assert raw == before
    assert warnings == [f"read {key}: null as absent, as AG-UI before 1.0 meant it"]
    stripper = Stripper(Compatibility())
    stripper.admit(raw)
    assert stripper.warnings == warnings, "enforcement has nothing more to say of it"


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "CUSTOM", "name": "n", "value": None},
        {"type": "STATE_SNAPSHOT", "snapshot": None},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": None}]},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x", "metadata": {"a": None}},
        {"type": "MESSAGES_SNAPSHOT", "messages": [user({"type": "text", "text": "hi"})]},
    ],
)
def test_what_has_the_form_of_1_0_is_the_same_object(raw: dict[str, Any]) -> None:
    compatibility = Compatibility()
    assert compatibility.convert(raw) is raw
    assert compatibility.warnings == []


def test_nulls_that_carry_meaning_survive_the_whole_way_in() -> None:
    stripper = Stripper(Compatibility())
    assert stripper.admit({"type": "CUSTOM", "name": "n", "value": None}) == CustomEvent(
        name="n", value=None
    )
    snapshot = stripper.admit({"type": "STATE_SNAPSHOT", "snapshot": None})
    assert snapshot == StateSnapshotEvent(snapshot=None)
    assert stripper.warnings == []


def test_a_null_owner_stays_an_error() -> None:
    raw = {"type": "TEXT_MESSAGE_END", "messageId": "m", "subagentRunId": None}
    with pytest.raises(InvalidStream, match="subagentRunId: null"):
        Stripper(Compatibility()).admit(raw)


# -- binary parts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "media"),
    [
        (
            PNG,
            {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
        ),
        (
            {"type": "binary", "mimeType": "audio/wav", "url": "https://x/a.wav"},
            {
                "type": "audio",
                "source": {"type": "url", "value": "https://x/a.wav", "mimeType": "audio/wav"},
            },
        ),
        (
            {"type": "binary", "mime_type": "video/mp4", "id": "f1", "filename": "a.mp4"},
            {
                "type": "video",
                "source": {"type": "file", "value": "f1", "mimeType": "video/mp4"},
                "metadata": {"filename": "a.mp4"},
            },
        ),
        (
            {
                "type": "binary",
                "mimeType": "application/pdf",
                "data": "aGk=",
                "url": "u",
                "id": "i",
            },
            {
                "type": "document",
                "source": {"type": "data", "value": "aGk=", "mimeType": "application/pdf"},
            },
        ),
        (
            {"type": "binary", "url": "https://x/a"},
            {"type": "document", "source": {"type": "url", "value": "https://x/a"}},
        ),
    ],
)
def test_a_binary_part_becomes_the_media_part_of_its_type(
    part: dict[str, Any], media: dict[str, Any]
) -> None:
    carriers: list[dict[str, Any]] = [
        {"type": "MESSAGES_SNAPSHOT", "messages": [user(part)]},
        {**STARTED, "input": {"threadId": "t", "runId": "r", "messages": [user(part)]}},
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": [part]},
    ]
    before = copy.deepcopy(carriers)
    events, warnings = converted(*carriers)
    assert carriers == before
    assert events[0]["messages"][0]["content"] == [media]
    assert events[1]["input"]["messages"][0]["content"] == [media]
    assert events[2]["content"] == [media]
    assert warnings == ["read binary content parts as image, audio, video or document parts"]
    snapshot, started, answer = (strip(event).event for event in events)
    assert isinstance(snapshot, MessagesSnapshotEvent)
    assert isinstance(started, RunStartedEvent)
    assert isinstance(answer, ToolCallResultEvent)
    assert json.loads(to_json(answer))["content"] == [media]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "binary", "mimeType": "image/png"},
        {"type": "binary", "data": "aGk="},
        {"type": "binary", "mimeType": "image/png", "data": ""},
    ],
)
def test_a_binary_part_that_shows_nothing_is_left_to_enforcement(part: dict[str, Any]) -> None:
    stripper = Stripper(Compatibility())
    event = stripper.admit({"type": "MESSAGES_SNAPSHOT", "messages": [user(part)]})
    assert isinstance(event, MessagesSnapshotEvent)
    assert event.messages[0].content == []
    assert stripper.warnings == [
        "MESSAGES_SNAPSHOT: removed messages[0].content[0], which AG-UI does not describe"
    ]


# -- inputs -------------------------------------------------------------------------------------

OLD_INPUT: dict[str, Any] = {
    "threadId": "t",
    "runId": "r",
    "messages": [
        user(
            {"type": "text", "text": "look"},
            PNG,
            {"type": "image", "source": {"type": "url", "value": "u"}, "metadata": None},
        )
    ],
    "tools": [{"name": "f", "description": "", "parameters": None}],
    "context": [],
    "forwardedProps": None,
    "resume": [{"interruptId": "i", "status": "cancelled", "payload": None}],
}
WARNINGS = {
    "read forwardedProps: null as absent, as AG-UI before 1.0 meant it",
    "read parameters: null as absent, as AG-UI before 1.0 meant it",
    "read payload: null as absent, as AG-UI before 1.0 meant it",
    "read metadata: null as absent, as AG-UI before 1.0 meant it",
    "read binary content parts as image, audio, video or document parts",
}


def test_the_input_of_an_old_client_is_read_with_one_warning_a_kind() -> None:
    before = copy.deepcopy(OLD_INPUT)
    checked, warnings = check_input(OLD_INPUT)
    assert before == OLD_INPUT
    assert set(warnings) == {f"the input: {warning}" for warning in WARNINGS}
    assert len(warnings) == len(WARNINGS)
    written = json.loads(checked.model_dump_json(by_alias=True))
    assert written["messages"][0]["content"][1:] == [
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "url", "value": "u"}},
    ]
    assert written["tools"] == [{"name": "f", "description": ""}]
    assert written["resume"] == [{"interruptId": "i", "status": "cancelled"}]
    assert "forwardedProps" not in written


def test_the_echoed_input_of_an_old_agent_is_read_alike() -> None:
    events, warnings = converted({**STARTED, "input": OLD_INPUT})
    assert set(warnings) == WARNINGS
    started = strip(events[0])
    assert started.warnings == ()
    assert isinstance(started.event, RunStartedEvent)
    assert started.event.input == check_input(OLD_INPUT).input


def test_a_new_input_is_read_without_a_warning_and_a_typed_one_is_the_same_object() -> None:
    new = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "x"}]}
    checked, warnings = check_input(new)
    assert warnings == ()
    assert check_input(checked).input is checked


# -- where it is wired --------------------------------------------------------------------------


def test_a_capture_of_an_old_agent_is_read_with_its_lines() -> None:
    text = "\n".join(json.dumps(raw) for raw in [STARTED, *THINKING, FINISHED])
    events, warnings = typed(read_capture(text, "old.jsonl"), "old.jsonl")
    assert [event.type.value for event in events][1:3] == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
    ]
    assert warnings == (
        "old.jsonl:2: read THINKING_* events as REASONING_* events, with ids made up",
        "old.jsonl:2: lost the title of THINKING_START: 1.0 has no place for it",
    )


async def old_agent(run_input: RunAgentInput) -> AsyncIterator[Any]:
    ids = {"threadId": run_input.thread_id, "runId": run_input.run_id}
    yield {"type": "RUN_STARTED", **ids}
    for raw in [*THINKING, *THINKING]:
        yield raw
    yield {"type": "RUN_FINISHED", **ids, "result": None, "outcome": None}


class Twice(Middleware):
    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for _ in call_next(run_input):
            pass
        async for event in call_next(run_input):
            yield event


@pytest.fixture
def logged() -> Any:
    lines: list[str] = []
    logger.enable("interpose")
    number = logger.add(lambda message: lines.append(message.record["message"]), level="WARNING")
    yield lines
    logger.remove(number)
    logger.disable("interpose")


@pytest.mark.parametrize("layers", [[], [Twice]])
def test_an_old_agent_runs_and_is_warned_of_once_a_run_and_kind(
    layers: list[Any], logged: list[str]
) -> None:
    played = play(layers, old_agent)
    assert played.result.outcome == "success"
    assert played.types[1:3] == ["REASONING_START", "REASONING_MESSAGE_START"]
    assert sorted(logged) == [
        "lost the title of THINKING_START: 1.0 has no place for it",
        "read THINKING_* events as REASONING_* events, with ids made up",
        "read outcome: null as absent, as AG-UI before 1.0 meant it",
        "read result: null as absent, as AG-UI before 1.0 meant it",
    ]


def test_the_binary_part_of_an_old_client_reaches_the_agent_as_media() -> None:
    seen: list[Any] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[Any]:
        seen.append(run_input.messages[0].content)
        async for event in old_agent(run_input):
            yield event

    asked = {"threadId": "t", "runId": "r", "messages": [user(PNG)], "forwardedProps": None}
    assert play([], agent, asked=asked).result.outcome == "success"
    [[part]] = seen
    assert part.type == "image"


def test_a_typed_event_never_meets_the_boundary() -> None:
    class Unused(Compatibility):
        def convert(self, raw: Any) -> Any:
            raise AssertionError

    event = TextMessageContentEvent(message_id="m", delta="x")
    assert Stripper(Unused()).admit(event) is event


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = ["input", "messages", "content", "role", "tools", "resume", "rawEvent", "result", "outcome"]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([*EVENT_CLASSES, *(raw["type"] for raw in THINKING), "NEW"]),
    st.dictionaries(st.sampled_from(KEYS), json_values, max_size=4),
)
def test_nothing_given_is_changed_or_makes_it_fail(kind: str, rest: dict[str, Any]) -> None:
    raw = {"type": kind, **rest}
    before = copy.deepcopy(raw)
    result = Compatibility().convert(raw)
    assert raw == before
    again = Compatibility()
    assert again.convert(result) is result
    assert again.warnings == []


def test_a_user_message_built_from_models_is_left_alone() -> None:
    message = UserMessage(id="1", content="hi")
    given = {"threadId": "t", "runId": "r", "messages": [message]}
    assert check_input(given).input.messages[0] == message
