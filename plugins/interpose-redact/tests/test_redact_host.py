"""The layer in a host: whole runs, the input, the plan, failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningMessageChunkEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateSnapshotEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallChunkEvent,
    ToolCallResultEvent,
    UserMessage,
)

from interpose import Host, Layer, Stage, StartupError
from interpose_redact import Redact

CARD = "4111 1111 1111 1111"


def started(run_input: RunAgentInput) -> RunStartedEvent:
    ids = run_input.thread_id, run_input.run_id
    return RunStartedEvent(thread_id=ids[0], run_id=ids[1], input=run_input)


def finished(run_input: RunAgentInput) -> RunFinishedEvent:
    ids = run_input.thread_id, run_input.run_id
    return RunFinishedEvent(thread_id=ids[0], run_id=ids[1], result={"card": CARD})


def played(
    settings: dict[str, Any], events: Sequence[BaseEvent], *, asked: Any = "hi", strict: bool = True
) -> tuple[list[BaseEvent], list[RunAgentInput]]:
    """Run an agent that sends these events; return what the consumer and the agent got."""
    inputs = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        inputs.append(run_input)
        yield started(run_input)
        for event in events:
            yield event
        yield finished(run_input)

    async def main() -> list[BaseEvent]:
        async with Host(layers=[Layer(Redact, settings)], agent=agent, strict=strict) as host:
            return [event async for event in host.run(asked)]

    return asyncio.run(main()), inputs


def text(events: Sequence[BaseEvent], kind: str) -> str:
    return "".join(getattr(event, "delta", "") for event in events if event.type.value == kind)


@pytest.mark.parametrize("strict", [True, False])
def test_nothing_of_a_value_reaches_the_consumer_by_any_way(*, strict: bool) -> None:
    chunks = [
        TextMessageChunkEvent(message_id="m", delta="Mail bob@exa", raw_event={"text": "bob@exa"}),
        TextMessageChunkEvent(delta="mple.com, card 4111 1111"),
        TextMessageChunkEvent(delta=" 1111 1111."),
        ReasoningMessageChunkEvent(message_id="r", delta="the card 4111 "),
        ReasoningMessageChunkEvent(delta="1111 1111 1111"),
        ToolCallChunkEvent(tool_call_id="c", tool_call_name="pay", delta='{"to": "bob\\u00'),
        ToolCallChunkEvent(delta='40example.com", "card": 41111111'),
        ToolCallChunkEvent(delta="11111111}"),
        ToolCallResultEvent(message_id="t", tool_call_id="c", content=f"paid with {CARD}"),
        StateSnapshotEvent(snapshot={"card": CARD, "number": 4111111111111111}),
        CustomEvent(name="n", value=[CARD]),
        RawEvent(event={"text": CARD}),
        MessagesSnapshotEvent(messages=[UserMessage(id="u", content=f"my card is {CARD}")]),
    ]
    message = UserMessage(id="u", content=f"my card is {CARD}")
    asked = RunAgentInput(thread_id="t", run_id="r", messages=[message])
    events, inputs = played({}, chunks, asked=asked, strict=strict)
    seen = "\n".join(event.model_dump_json(by_alias=True) for event in events)
    assert "4111" not in seen
    assert "1111" not in seen
    assert "bob" not in seen
    assert text(events, "TEXT_MESSAGE_CONTENT") == "Mail [email], card [card]."
    assert text(events, "REASONING_MESSAGE_CONTENT") == "the card [card]"
    assert text(events, "TOOL_CALL_ARGS") == '{"to": "[email]", "card": "[card]"}'
    assert "4111" not in inputs[0].model_dump_json()


def test_runs_at_the_same_time_share_no_text() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for part in (f"{run_input.run_id} 4111 1111", " 1111 ", "1111 bye"):
            await asyncio.sleep(0)
            yield TextMessageChunkEvent(message_id="m", delta=part)
        yield finished(run_input)

    async def main() -> list[str]:
        async with Host(layers=[Redact], agent=agent) as host:

            async def one(index: int) -> str:
                asked = RunAgentInput(thread_id="t", run_id=f"r{index}", messages=[])
                return text([event async for event in host.run(asked)], "TEXT_MESSAGE_CONTENT")

            return list(await asyncio.gather(*(one(index) for index in range(20))))

    assert asyncio.run(main()) == [f"r{index} [card] bye" for index in range(20)]


def test_it_stands_among_the_rewriters_of_content() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield RunErrorEvent(message="never run")

    [layer] = Host(layers=[Redact], agent=agent).plan().layers
    assert (layer.stage, Redact.rewrites_history) == (Stage.CONTENT, True)


def test_a_value_that_is_blocked_ends_the_run_with_a_safe_error() -> None:
    events, _ = played(
        {"action": "block"},
        [
            TextMessageStartEvent(message_id="m", role="assistant"),
            TextMessageContentEvent(message_id="m", delta="my card: 4111 1111"),
            TextMessageContentEvent(message_id="m", delta=" 1111 1111."),
        ],
    )
    assert text(events, "TEXT_MESSAGE_CONTENT") == "my card: "
    last = events[-1]
    assert isinstance(last, RunErrorEvent)
    assert last.code == "blocked-content"
    assert last.message == (
        "The run was stopped because its text contains something that must not be passed on: card."
    )


def test_a_pattern_that_backtracks_without_end_fails_the_run_and_nothing_leaves() -> None:
    evil = "x" * 60 + "!"
    events, _ = played(
        {"entities": [], "patterns": {"evil": "(?:x|xx)+[yz]"}, "timeout": 0.05},
        [TextMessageChunkEvent(message_id="m", delta=evil)],
    )
    assert text(events, "TEXT_MESSAGE_CONTENT") == ""
    last = events[-1]
    assert isinstance(last, RunErrorEvent)
    assert last.code == "deadline-exceeded"
    assert "xx" not in last.message


def test_settings_that_cannot_work_are_refused_at_startup_without_showing_a_secret() -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield RunErrorEvent(message="never run")

    bad = {"action": "hash", "patterns": {"badge": "hunter2("}, "literals": ["pa55word"]}
    with pytest.raises(StartupError) as caught:
        Host(layers=[Layer(Redact, bad)], agent=agent)
    assert "the pattern 'badge' is no valid regular expression" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "pa55word" not in str(caught.value)
