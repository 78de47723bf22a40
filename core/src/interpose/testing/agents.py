"""Agents for tests: they play what they are told, and remember what they were asked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from interpose.agents.rebind import rebind
from interpose.agents.scripted import read_recording
from interpose.context import AgentContext
from interpose.errors import UsageError
from interpose.loop.streams import owned
from interpose.testing.events import finished, started

Part: TypeAlias = "str | BaseEvent | BaseException | Iterable[BaseEvent]"
"""What an agent plays: a piece of text, an event, several, or an exception that it raises."""


class ScriptedAgent:
    """Plays ``parts`` in every run. See :func:`scripted`."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._script = tuple(_script(parts))

    async def run(self, run_input: RunAgentInput, _: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play the script, bound to the ids of the run."""
        events, failure = _until_failure(self._script)
        bound = list(rebind(events, run_input.thread_id, run_input.run_id).events)
        if not bound or not isinstance(bound[0], RunStartedEvent):
            yield started(run_input)
        for event in bound:
            # As a real agent does: others run between two of its events.
            await asyncio.sleep(0)
            yield event
        if failure is not None:
            raise failure
        if not bound or not isinstance(bound[-1], RunFinishedEvent | RunErrorEvent):
            yield finished(run_input)


class RecordingAgent(ScriptedAgent):
    """Plays ``parts``, as :func:`scripted`, and remembers its runs.

    ``inputs``: what each run was asked with. ``sent``: how many events each run sent before it
    ended or was closed. ``closed``: how many of its streams were closed or came to an end.
    """

    def __init__(self, *parts: Part) -> None:
        super().__init__(parts)
        self.inputs: list[RunAgentInput] = []
        self.sent: list[int] = []
        self.closed = 0

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play the script, and take notes."""
        index = len(self.inputs)
        self.inputs.append(run_input)
        self.sent.append(0)
        try:
            async with owned(super().run(run_input, ctx)) as events:
                async for event in events:
                    self.sent[index] += 1
                    yield event
        finally:
            self.closed += 1


def scripted(*parts: Part) -> ScriptedAgent:
    """Return an agent that plays ``parts`` in every run.

    Strings that follow each other are the pieces of one message; events and lists of events are
    played as they are; an exception is raised. RUN_STARTED and RUN_FINISHED are added where the
    parts do not say them. Without parts it ends at once.

    Example: ``scripted("Ask ada@exam", "ple.com.", tool_call("search", {"q": "ada"}))``
    """
    return ScriptedAgent(parts)


def recorded(path: str | os.PathLike[str]) -> ScriptedAgent:
    """Return an agent that plays a recording: JSON lines, an SSE capture or a JSON array.

    Raises :class:`ReplayError` naming file and line.
    """
    events, _ = read_recording(Path(path), str(path))
    return ScriptedAgent(events)


def _script(parts: Iterable[Part]) -> Iterator[BaseEvent | BaseException]:
    messages = 0
    is_open = False
    for part in parts:
        if isinstance(part, str):
            if not is_open:
                messages += 1
                is_open = True
                yield TextMessageStartEvent(message_id=f"message-{messages}", role="assistant")
            yield TextMessageContentEvent(message_id=f"message-{messages}", delta=part)
            continue
        if is_open:
            yield TextMessageEndEvent(message_id=f"message-{messages}")
            is_open = False
        if isinstance(part, BaseEvent | BaseException):
            yield part
            continue
        if not isinstance(part, Iterable):
            raise UsageError(
                f"an agent cannot play a {type(part).__name__}",
                hint="give pieces of text, events, lists of events, or an exception",
            )
        yield from _script(part)
    if is_open:
        yield TextMessageEndEvent(message_id=f"message-{messages}")


def _until_failure(
    script: Iterable[BaseEvent | BaseException],
) -> tuple[list[BaseEvent], BaseException | None]:
    events: list[BaseEvent] = []
    for part in script:
        if isinstance(part, BaseException):
            return events, part
        events.append(part)
    return events, None
