"""Characters that an agent splits over two deltas."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    ReasoningMessageContentEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    StateDeltaEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import finished, play, started

from interpose.errors import InvalidStream
from interpose.runtime.halves import Halves

SMILE = "\U0001f600"
HIGH, LOW = "\ud83d", "\ude00"
FINISHED = RunFinishedEvent(thread_id="t", run_id="r")


def content(delta: str, id_: str = "m") -> BaseEvent:
    return TextMessageContentEvent(message_id=id_, delta=delta)


def thought(delta: str) -> BaseEvent:
    return ReasoningMessageContentEvent(message_id="m", delta=delta)


def args(delta: str, id_: str = "m") -> BaseEvent:
    return ToolCallArgsEvent(tool_call_id=id_, delta=delta)


def chunk(delta: str | None, id_: str | None = None, owner: str | None = None) -> BaseEvent:
    return TextMessageChunkEvent(message_id=id_, delta=delta, subagent_run_id=owner)


def deltas(*events: BaseEvent) -> list[Any]:
    halves = Halves()
    joined = [halves.join(event) for event in events]
    halves.join(FINISHED)
    return [getattr(event, "delta", None) for event in joined]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([content("a" + HIGH), content(LOW + "b")], ["a", SMILE + "b"]),
        ([content(HIGH), content(LOW)], ["", SMILE]),
        ([content(HIGH), content(""), content(LOW)], ["", "", SMILE]),
        ([content(HIGH), content(LOW + HIGH), content(LOW)], ["", SMILE, SMILE]),
        ([content(HIGH), args("é"), args("x", "n"), content(LOW)], ["", "é", "x", SMILE]),
        (
            [content(HIGH), content(HIGH, "n"), content(LOW), content(LOW, "n")],
            ["", "", SMILE, SMILE],
        ),
        ([content(HIGH), thought(HIGH), thought(LOW), content(LOW)], ["", "", SMILE, SMILE]),
        ([args('{"a": "' + HIGH), args(LOW + '"}')], ['{"a": "', SMILE + '"}']),
        ([chunk(HIGH, "m"), chunk(None), chunk(LOW)], ["", None, SMILE]),
        ([chunk(HIGH, "m", "a"), chunk("é"), chunk(LOW, None, "a")], ["", "é", SMILE]),
    ],
)
def test_a_split_character_is_joined_in_the_delta_that_completes_it(
    events: list[BaseEvent], expected: list[str]
) -> None:
    assert deltas(*events) == expected


def test_whole_text_is_the_same_object() -> None:
    halves = Halves()
    patch = StateDeltaEvent.model_validate({"delta": [{"op": "remove", "path": "/a"}]})
    for event in (content("ä" + SMILE), content("plain"), args(SMILE), patch, FINISHED):
        assert halves.join(event) is event


@pytest.mark.parametrize(
    "events",
    [[content(LOW)], [content(HIGH), content("x")], [content(HIGH + "x")], [content(HIGH)]],
)
def test_half_a_character_that_nothing_completes_is_refused(events: list[BaseEvent]) -> None:
    with pytest.raises(InvalidStream, match="half a character"):
        deltas(*events)


def test_a_run_that_fails_may_leave_half_a_character_behind() -> None:
    halves = Halves()
    halves.join(content(HIGH))
    error = RunErrorEvent(message="no")
    assert halves.join(error) is error


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), st.data())
def test_any_split_of_the_utf_16_form_gives_the_same_text(text: str, data: st.DataObject) -> None:
    units = text.encode("utf-16-le")
    cuts = data.draw(st.lists(st.integers(0, len(units) // 2), max_size=6).map(sorted))
    edges = [0, *cuts, len(units) // 2]
    parts = [
        units[2 * start : 2 * end].decode("utf-16-le", "surrogatepass")
        for start, end in pairwise(edges)
    ]
    assert "".join(deltas(*(content(part) for part in parts))) == text


@pytest.mark.parametrize("raw", [False, True])
def test_a_run_survives_an_agent_that_splits_characters(raw: bool) -> None:  # noqa: FBT001
    async def agent(run_input: RunAgentInput) -> AsyncIterator[Any]:
        yield started(run_input)
        yield TextMessageStartEvent(message_id="m")
        for delta in ("a" + HIGH, LOW + "b"):
            event = content(delta)
            yield event.model_dump(by_alias=True) if raw else event
        yield TextMessageEndEvent(message_id="m")
        yield finished(run_input)

    result = play([], agent).result
    assert (result.outcome, result.text) == ("success", f"a{SMILE}b")
