"""What clients before AG-UI 1.0 get in place of what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import BaseEvent, RunAgentInput

from interpose.agui import EVENT_CLASSES
from interpose.server.older import for_older_client

IDS = {"thread_id": "t", "run_id": "r"}
PARTS = [
    {"type": "text", "text": "18 degrees"},
    {"type": "image", "source": {"type": "url", "value": "https://example.com/sky.png"}},
    {"type": "text", "text": "and dry"},
]
FILE = {"type": "document", "source": {"type": "file", "value": "file-7"}}
TOLD = {"type": "text", "text": "Read:"}
RESULT = {"id": "t1", "role": "tool", "tool_call_id": "c1"}
QUESTION = {"id": "u1", "role": "user"}


def event(kind: str, **fields: Any) -> BaseEvent:
    made: BaseEvent = EVENT_CLASSES[kind](**fields)
    return made


def messages(*given: dict[str, Any]) -> BaseEvent:
    return event("MESSAGES_SNAPSHOT", messages=list(given))


def echoed(**fields: Any) -> BaseEvent:
    return event("RUN_STARTED", **IDS, input=RunAgentInput.model_validate({**IDS, **fields}))


@pytest.mark.parametrize(
    "same",
    [
        event("TEXT_MESSAGE_CONTENT", message_id="m1", delta="a"),
        event("RUN_STARTED", **IDS),
        event("RUN_FINISHED", **IDS),
        event("RUN_FINISHED", **IDS, outcome={"type": "success"}, result=0),
        event("RUN_FINISHED", **IDS, outcome={"type": "interrupt", "interrupts": [{"id": "i", "reason": "r"}]}),
        event("TOOL_CALL_RESULT", message_id="t1", tool_call_id="c1", content="18 degrees"),
        messages({**RESULT, "content": "a"}, {**QUESTION, "content": [TOLD]}, {**QUESTION, "content": "b"}),
    ],
)  # fmt: skip
def test_what_they_understand_stays_as_it_is(same: BaseEvent) -> None:
    assert for_older_client(same) is same


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (
            event("RUN_FINISHED", **IDS, outcome={"type": "cancelled"}, usage=[{"input_tokens": 1}]),
            event("RUN_ERROR", code="cancelled", message="The run was cancelled.", usage=[{"input_tokens": 1}]),
        ),
        (
            event("RUN_FINISHED", **IDS, result=0, outcome={"type": "success", "pending_tool_call_ids": ["c1"]}),
            event("RUN_FINISHED", **IDS, result=0, outcome={"type": "success"}),
        ),
        (
            event("RUN_FINISHED", **IDS, outcome={"type": "success", "pending_tool_call_ids": []}),
            event("RUN_FINISHED", **IDS, outcome={"type": "success"}),
        ),
        (
            event("TOOL_CALL_RESULT", message_id="t1", tool_call_id="c1", content=PARTS),
            event("TOOL_CALL_RESULT", message_id="t1", tool_call_id="c1", content="18 degrees\nand dry"),
        ),
        (
            messages({**RESULT, "content": PARTS[1:2]}, {**QUESTION, "content": [FILE, TOLD]}),
            messages({**RESULT, "content": ""}, {**QUESTION, "content": [TOLD]}),
        ),
        (
            echoed(messages=[{**QUESTION, "content": [FILE]}]),
            echoed(messages=[{**QUESTION, "content": []}], tools=[], context=[]),
        ),
    ],
)  # fmt: skip
def test_what_they_refuse_becomes_what_they_know(new: BaseEvent, old: BaseEvent) -> None:
    before = new.model_dump_json(by_alias=True)
    assert for_older_client(new) == old
    assert new.model_dump_json(by_alias=True) == before
