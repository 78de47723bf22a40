"""What the conformance cases share: short events, and streams that everybody finds valid."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageChunkEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from independent import complaints

from interpose.agui import Expander, Transcript, Verifier, violations
from interpose.errors import InvalidStream

START = RunStartedEvent(thread_id="t", run_id="r")
FINISH = RunFinishedEvent(thread_id="t", run_id="r")
ERROR = RunErrorEvent(message="no")

CASES: frozenset[int] = frozenset(
    {
        *range(1, 9),
        *range(11, 17),
        *(18, 20, 21, 22, 24, 27),
        *range(28, 33),
        *(34, 35, 36, 40, 42, 43, 44, 46, 47, 48, 49),
        *(52, 53, 56, 57, 58),
    }
)
"""The numbers of the cases, as in README.md of the folder ``conformance``."""


def text_chunk(id_: str | None = None, delta: str | None = None, **more: Any) -> BaseEvent:
    return TextMessageChunkEvent(message_id=id_, delta=delta, **more)


def tool_chunk(
    id_: str | None = None, name: str | None = None, delta: str | None = None, **more: Any
) -> BaseEvent:
    return ToolCallChunkEvent(tool_call_id=id_, tool_call_name=name, delta=delta, **more)


def call(id_: str, name: str, *deltas: str, result: str | None = None) -> list[BaseEvent]:
    """Return a whole tool call, with its result if there is one."""
    events: list[BaseEvent] = [
        ToolCallStartEvent(tool_call_id=id_, tool_call_name=name),
        *(ToolCallArgsEvent(tool_call_id=id_, delta=delta) for delta in deltas),
        ToolCallEndEvent(tool_call_id=id_),
    ]
    if result is not None:
        events.append(
            ToolCallResultEvent(message_id=f"result-{id_}", tool_call_id=id_, content=result)
        )
    return events


def expand(*events: BaseEvent) -> list[BaseEvent]:
    """Return the events without chunks."""
    expander = Expander()
    return [part for event in events for part in expander.push(event)]


def outline(events: Iterable[BaseEvent]) -> list[str]:
    """Return one line for each event: its type, and the id, name or text that it carries."""
    fields = ("message_id", "tool_call_id", "step_name", "tool_call_name", "delta", "role")
    return [
        " ".join(
            [
                event.type.value,
                *(str(v) for f in fields if (v := getattr(event, f, None)) is not None),
            ]
        )
        for event in events
    ]


def valid(events: Iterable[BaseEvent]) -> list[BaseEvent]:
    """Return a whole stream that both our verifier and a checker of others accept."""
    stream = list(events)
    assert list(violations(stream)) == []
    assert complaints(stream) == []
    return stream


def in_a_run(*events: BaseEvent) -> list[BaseEvent]:
    """Return the events of a whole run that has these, expanded; it is valid."""
    return valid([START, *expand(*events, FINISH)])[1:]


def refusal(*events: BaseEvent) -> InvalidStream:
    """Return what refuses the last of the events, when all before it are accepted."""
    expander, verifier = Expander(), Verifier()

    def take(event: BaseEvent) -> None:
        for part in expander.push(event):
            verifier.check(part)

    for event in events[:-1]:
        take(event)
    with pytest.raises(InvalidStream) as caught:
        take(events[-1])
    return caught.value


def accepted(*events: BaseEvent) -> None:
    """Check that our verifier takes a whole stream."""
    assert list(violations(events)) == []


def transcript(*events: BaseEvent, messages: Sequence[Any] = (), state: Any = None) -> Transcript:
    """Return what a run with these events builds."""
    built = Transcript(messages, state)
    for event in expand(START, *events):
        built.apply(event)
    return built


def agent(*events: Any, calls: list[RunAgentInput] | None = None) -> Callable[..., Any]:
    """Return an agent that plays events, with RUN_STARTED and RUN_FINISHED around them."""

    async def play(run_input: RunAgentInput) -> AsyncIterator[Any]:
        if calls is not None:
            calls.append(run_input)
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        for event in events:
            yield event
        yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)

    return play
