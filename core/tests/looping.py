"""What the tests of the built-in loop share: a model that remembers, and calls that play a loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    Message,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolMessage,
    UserMessage,
)
from playing import Played

from interpose import Host, InvalidStream, ModelContext, ModelRequest, Run
from interpose.agui import Verifier
from interpose.loop import LoopAgent, ScriptedModel

T = TypeVar("T")
THREAD = "thread-1"


class Spy(ScriptedModel):
    """A scripted model that remembers its requests, also those that its turns do not answer."""

    def __init__(self, *turns: Any, **options: Any) -> None:
        super().__init__(*turns, **options)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        self.requests.append(request)
        async for event in super().stream(request, ctx):
            yield event

    @property
    def tools(self) -> list[list[str]]:
        """The names of the tools that each request showed."""
        return [[tool.name for tool in request.tools] for request in self.requests]

    @property
    def prompts(self) -> list[list[str]]:
        """The system prompts of each request."""
        return [list(request.system_prompts) for request in self.requests]

    def told(self, request: int = -1) -> list[str]:
        """The tool results in a request."""
        messages = self.requests[request].messages
        return [str(message.content) for message in messages if isinstance(message, ToolMessage)]


class Hanging:
    """A model that says a word, then waits for ever; ``closed`` counts its closed streams."""

    def __init__(self, said: str = "Well") -> None:
        self._said = said
        self.waits = asyncio.Event()
        self.closed = 0

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        try:
            yield TextMessageStartEvent(message_id=ctx.message_id, role="assistant")
            yield TextMessageContentEvent(message_id=ctx.message_id, delta=self._said)
            self.waits.set()
            await asyncio.Event().wait()
            yield TextMessageEndEvent(message_id=ctx.message_id)
        finally:
            self.closed += 1


def calls(*written: tuple[str, Any] | str, text: str = "") -> dict[str, Any]:
    """Return a turn of a model that calls these tools: names, or names with arguments."""
    pairs = [(each, {}) if isinstance(each, str) else each for each in written]
    return {"text": text, "calls": [{"name": name, "args": args} for name, args in pairs]}


async def seen(run: Run[Any], *, valid: bool = True) -> Played:
    """Play a run to its end; its stream must be as AG-UI says."""
    events = [event async for event in run]
    if valid:
        verifier = Verifier()
        for event in events:
            verifier.check(event)
        verifier.finish()
        starts = [event.type.value for event in events].count("RUN_STARTED")
        ends = sum(isinstance(event, RunFinishedEvent | RunErrorEvent) for event in events)
        assert (starts, ends) in ((1, 1), (0, 1)), [event.type.value for event in events]
    played = Played(events, await run)
    assert not (valid and isinstance(played.result.error, InvalidStream)), played.result.error
    return played


def host_of(layers: Sequence[Any], agent: LoopAgent, **options: Any) -> Host:
    """Return a host that is strict about what its layers do."""
    return Host(layers, agent=agent, **{"strict": True, **options})


def loop(
    layers: Sequence[Any],
    model: Any,
    tools: Sequence[Any] = (),
    *,
    asked: Any = "hi",
    run: dict[str, Any] | None = None,
    host: dict[str, Any] | None = None,
    **options: Any,
) -> Played:
    """Play one run of a loop; ``options`` are the agent's."""

    async def main() -> Played:
        agent = LoopAgent(model, tools, **options)
        async with host_of(layers, agent, **(host or {})) as entered:
            return await seen(entered.run(asked, **(run or {})))

    return asyncio.run(main())


def within(
    layers: Sequence[Any],
    agent: LoopAgent,
    use: Callable[[Host], Awaitable[T]],
    **options: Any,
) -> T:
    """Use a host; nothing may be left behind: no task, within a generous time."""

    async def main() -> T:
        async with asyncio.timeout(20):
            async with host_of(layers, agent, **options) as host:
                found = await use(host)
            await asyncio.sleep(0)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, left
            return found

    return asyncio.run(main())


def user(text: str = "hi", ident: str = "u1") -> UserMessage:
    return UserMessage(id=ident, content=text)


def asking(
    messages: Sequence[Message] | None = None,
    *,
    run_id: str = "run-1",
    thread_id: str = THREAD,
    **fields: Any,
) -> RunAgentInput:
    """Return the input of a run."""
    given: list[Message] = [user()] if messages is None else list(messages)
    return RunAgentInput(thread_id=thread_id, run_id=run_id, messages=given, **fields)


def answering(
    before: Played,
    *payloads: Any,
    run_id: str = "run-2",
    more: Sequence[Message] = (),
    **fields: Any,
) -> RunAgentInput:
    """Return the input that answers the interrupts of a run, in their order."""
    entries = [
        entry(interrupt, payload)
        for interrupt, payload in zip(before.result.interrupts, payloads, strict=True)
    ]
    messages = [*before.result.messages, *more]
    return asking(messages, run_id=run_id, resume=entries, **fields)


CANCELLED = object()
"""Answers an interrupt by cancelling it."""


def entry(interrupt: Interrupt, payload: Any) -> ResumeEntry:
    if payload is CANCELLED:
        return ResumeEntry(interrupt_id=interrupt.id, status="cancelled")
    return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload=payload)


def results(played: Played) -> dict[str, str]:
    """Return the result of each tool call, in the order in which they came."""
    found: dict[str, str] = {}
    for event in played.events:
        if event.type.value == "TOOL_CALL_RESULT":
            assert event.tool_call_id not in found, "a second result for a call"  # type: ignore[attr-defined]
            found[event.tool_call_id] = event.content  # type: ignore[attr-defined]
    return found


def written(played: Played) -> dict[str, Any]:
    """Return the arguments of each tool call as the consumer saw them, parsed."""
    found: dict[str, str] = {}
    for event in played.events:
        if event.type.value == "TOOL_CALL_ARGS":
            found.setdefault(event.tool_call_id, "")  # type: ignore[attr-defined]
            found[event.tool_call_id] += event.delta  # type: ignore[attr-defined]
    return {ident: json.loads(text) for ident, text in found.items()}
