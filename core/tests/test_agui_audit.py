"""The auditor: raw and typed events, live, and on after each violation."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageChunkEvent,
    TextMessageEndEvent,
)

from interpose.agui import Auditor

START = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISH = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


def audit(*events: BaseEvent | dict[str, Any], **ids: str) -> list[tuple[int, str]]:
    auditor = Auditor(**ids)
    found = [(v.index, v.rule) for event in events for v in auditor.push(event)]
    return [(index or 0, rule) for index, rule in found]


def test_a_valid_raw_stream_has_no_violations_chunks_included() -> None:
    auditor = Auditor(thread_id="t", run_id="r")
    chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "x"}
    for event in (START, chunk, {**chunk, "new": 1}, {"type": "FUTURE"}, FINISH):
        assert auditor.push(event) == []
    assert auditor.finish() == ()
    assert auditor.index == 4
    assert auditor.warnings == [
        "TEXT_MESSAGE_CHUNK: removed new, which AG-UI does not describe",
        "dropped an event of unknown type: FUTURE",
    ]


def test_every_violation_is_found_and_malformed_events_are_some() -> None:
    content = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m"}
    nothing: Any = 7
    assert audit(content, START, {**content, "delta": 1}, nothing, {}, FINISH, FINISH) == [
        (0, "malformed-value"),
        (2, "malformed-value"),
        (3, "malformed-value"),
        (4, "malformed-value"),
        (6, "run-finished"),
    ]


def test_typed_events_are_taken_as_they_are() -> None:
    started = RunStartedEvent(thread_id="t", run_id="r")
    chunk = TextMessageChunkEvent(message_id="m", delta="x")
    end = TextMessageEndEvent(message_id="other")
    finish = RunFinishedEvent(thread_id="t", run_id="other")
    assert audit(started, chunk, end, finish) == [(2, "not-open"), (3, "identity")]


def test_the_ids_of_the_input_are_held_against_the_stream() -> None:
    assert audit(START, FINISH, thread_id="t", run_id="mine") == [(0, "identity")]


def test_a_stream_that_stops_is_truncated() -> None:
    auditor = Auditor()
    auditor.push(START)
    [error] = auditor.finish()
    assert error.message == "The stream ended without RUN_FINISHED or RUN_ERROR."


@pytest.mark.parametrize("raw", [START, RunStartedEvent(thread_id="t", run_id="r")])
def test_the_memory_does_not_grow_with_the_events(raw: Any) -> None:
    auditor = Auditor()
    auditor.push(raw)
    content = {"type": "CUSTOM", "name": "n", "value": "x" * 1000}
    tracemalloc.start()
    try:
        for number in range(2000):
            auditor.push({**content, f"new{number}": 1})
            if number == 500:
                before, _ = tracemalloc.get_traced_memory()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000, "1500 events of 1 KB have been looked at in between"
    assert len(auditor.warnings) == 100
