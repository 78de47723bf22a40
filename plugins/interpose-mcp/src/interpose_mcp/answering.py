"""One run out of several passes: answer the calls that an agent leaves open, and go on with it.

For agents that run no tools of the host's. They are given the tools in their input, and what they
call of them is executed between two passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final
from uuid import uuid4

from ag_ui.core import BaseEvent, CustomEvent, RunAgentInput, Tool, ToolCallResultEvent

from interpose import CallRun, MiddlewareError, RunContext, ToolResult
from interpose_mcp.calling import MARKER
from interpose_mcp.open_calls import OpenCalls, WrittenCall

PROGRESS: Final = "tool.progress"
"""The name of the CUSTOM event that reports progress, as that of the built-in loop."""
MOST_ROUNDS: Final = 10
"""Passes that may follow the first. What one more would need is not executed."""
AT_ONCE: Final = 10
"""Calls of one pass that are executed side by side."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call, and the events that follow it."""

    result: ToolResult
    events: Sequence[BaseEvent] = ()


Send = Callable[[BaseEvent], None]
Execute = Callable[[WrittenCall, Send], Awaitable[Answer]]


async def answered(
    ctx: RunContext,
    run_input: RunAgentInput,
    tools: Sequence[Tool],
    execute: Execute,
    call_next: CallRun,
) -> AsyncIterator[BaseEvent]:
    """Yield the run of an agent that is given ``tools``, whose calls ``execute`` answers.

    What the consumer has to answer is waited for: then the run ends, with our own results in it.
    """
    given = run_input.model_copy(update={"tools": [*(run_input.tools or ()), *tools]})
    names = {tool.name for tool in tools}
    stream = call_next(given)
    for rounds in count():
        calls = OpenCalls()
        async for event in stream:
            calls.note(event)
            yield event
        waiting = calls.open()
        ours = [call for call in waiting if call.name in names]
        if not ours:
            return
        if rounds == MOST_ROUNDS and len(ours) == len(waiting):
            raise MiddlewareError(
                f"the agent called tools of MCP servers in more than {MOST_ROUNDS} passes of a run"
            )
        async for event in _executed(ours, execute, ctx.until_cancelled()):
            for out in await ctx.rewrite(event):
                yield out
        if len(ours) < len(waiting) or ctx.cancelled:
            return
        stream = call_next(given, continues=True)


async def _executed(
    calls: Sequence[WrittenCall], execute: Execute, cancelled: Coroutine[Any, Any, None]
) -> AsyncIterator[BaseEvent]:
    """Yield what the calls report while they run, and their results in the order of the calls.

    When the run is cancelled, the calls are, and nothing more is yielded.
    """
    news: asyncio.Queue[BaseEvent | None] = asyncio.Queue()
    slots = asyncio.Semaphore(AT_ONCE)

    async def run(call: WrittenCall) -> Answer:
        async with slots:
            return await execute(call, news.put_nowait)

    tasks = [asyncio.create_task(run(call), name=f"tool call {call.id}") for call in calls]
    ending = asyncio.create_task(cancelled)
    for each in (*tasks, ending):
        each.add_done_callback(lambda _: news.put_nowait(None))
    try:
        for call, task in zip(calls, tasks, strict=True):
            while not task.done() or not news.empty():
                event = await news.get()
                if ending.done():
                    return
                if event is not None:
                    yield event
            answer = task.result()
            yield result_event(call, answer.result)
            lane = {"subagent_run_id": call.subagent_run_id}
            for event in answer.events:
                yield event.model_copy(update=lane)
    finally:
        for each in (*tasks, ending):
            each.cancel()
        await asyncio.gather(*tasks, ending, return_exceptions=True)


def result_event(call: WrittenCall, result: ToolResult) -> ToolCallResultEvent:
    """Return the event of a result; a failure, even an empty one, is marked in its metadata."""
    metadata: dict[str, Any] = dict(result.metadata)
    if result.error is not None:
        metadata[MARKER] = {"error": result.error}
    return ToolCallResultEvent(
        message_id=str(uuid4()),
        tool_call_id=call.id,
        content=result.content,
        role="tool",
        metadata=metadata or None,
        subagent_run_id=call.subagent_run_id,
    )


def progress_event(call_id: str, value: Any, subagent_run_id: str | None = None) -> CustomEvent:
    """Return the event that reports progress of a call."""
    told = {"toolCallId": call_id, "value": value}
    return CustomEvent(name=PROGRESS, value=told, subagent_run_id=subagent_run_id)
