"""The built-in script: one run that gives every stream middleware something to do.

The e-mail address and the card number are split across chunks, as a model's tokens split them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextMessageChunkEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

_REASONING = ("The customer asks about an order. ", "I look it up ", "before I answer.")
_ARGUMENTS = ('{"order": ', '"A-1815"}')
_RESULT = '{"order": "A-1815", "status": "shipped", "contact": "ada.lovelace@example.com"}'
_ANSWER = (
    "Your order A-1815 has shipped. ",
    "We wrote to ada.love",
    "lace@exam",
    "ple.com, and charged ",
    "card 4111 11",
    "11 1111 1",
    "111 as agreed.",
)


def built_in_script(thread_id: str, run_id: str) -> Iterator[BaseEvent]:
    """Yield the events of the built-in run: reasoning, a tool call, and an answer in chunks."""
    yield RunStartedEvent(thread_id=thread_id, run_id=run_id, protocol_version=PROTOCOL_VERSION)
    yield ReasoningStartEvent(message_id="thought-1")
    yield ReasoningMessageStartEvent(message_id="thought-1", role="reasoning")
    for delta in _REASONING:
        yield ReasoningMessageContentEvent(message_id="thought-1", delta=delta)
    yield ReasoningMessageEndEvent(message_id="thought-1")
    yield ReasoningEndEvent(message_id="thought-1")
    yield ToolCallStartEvent(tool_call_id="call-1", tool_call_name="lookup_order")
    for delta in _ARGUMENTS:
        yield ToolCallArgsEvent(tool_call_id="call-1", delta=delta)
    yield ToolCallEndEvent(tool_call_id="call-1")
    yield ToolCallResultEvent(message_id="result-1", tool_call_id="call-1", content=_RESULT)
    for delta in _ANSWER:
        yield TextMessageChunkEvent(message_id="answer-1", role="assistant", delta=delta)
    yield RunFinishedEvent(
        thread_id=thread_id,
        run_id=run_id,
        outcome=RunFinishedSuccessOutcome(),
        usage=[TokenUsage(provider="scripted", model="demo", input_tokens=42, output_tokens=57)],
    )
