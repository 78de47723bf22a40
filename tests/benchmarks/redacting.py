"""Runs through interpose-redact, and the same work done on a whole text at once."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from interpose import Host, Layer
from interpose_redact import Redact
from interpose_redact.entities import CHECKS, PATTERNS

_ASKED: Final = RunAgentInput(thread_id="t", run_id="r", messages=[])


def message(pieces: Sequence[str]) -> list[BaseEvent]:
    """Return the events of a message that comes in these pieces."""
    held: dict[str, BaseEvent] = {}
    for piece in pieces:
        if piece not in held:
            held[piece] = TextMessageContentEvent(message_id="m", delta=piece)
    return [
        TextMessageStartEvent(message_id="m", role="assistant"),
        *(held[piece] for piece in pieces),
        TextMessageEndEvent(message_id="m"),
    ]


def tool_call(pieces: Iterable[str]) -> list[BaseEvent]:
    """Return the events of a tool call whose arguments come in these pieces."""
    return [
        ToolCallStartEvent(tool_call_id="c", tool_call_name="tool"),
        *(ToolCallArgsEvent(tool_call_id="c", delta=piece) for piece in pieces),
        ToolCallEndEvent(tool_call_id="c"),
    ]


def tool_result(content: str) -> list[BaseEvent]:
    """Return the events of a tool call, with its result."""
    return [
        *tool_call(["{}"]),
        ToolCallResultEvent(message_id="r", tool_call_id="c", content=content),
    ]


async def _play(
    events: Iterable[BaseEvent], layers: Sequence[Any], consume: Callable[[BaseEvent], object]
) -> float:
    """Run an agent that sends the events in a host; return the seconds of the run alone."""

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
        for event in events:
            yield event
        yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)

    async with Host(layers=layers, agent=agent) as host:
        since = time.thread_time()
        async for event in host.run(_ASKED):
            consume(event)
        taken = time.thread_time() - since
    if not isinstance(event, RunFinishedEvent):
        raise TypeError(f"the run ended with {event!r}")  # it has not done its work
    return taken


def in_host(
    events: Iterable[BaseEvent],
    settings: dict[str, Any] | None,
    consume: Callable[[BaseEvent], object] = lambda _: None,
) -> float:
    """Return the seconds of a run through the layer, without it if there are no settings."""
    layers = [] if settings is None else [Layer(Redact, settings)]
    return asyncio.run(_play(events, layers, consume))


def heard(events: Sequence[BaseEvent], settings: dict[str, Any]) -> str:
    """Return the text that leaves: deltas, and the content of tools' results."""
    out: list[str] = []

    def consume(event: BaseEvent) -> None:
        out.append(getattr(event, "delta", "") or getattr(event, "content", ""))

    in_host(events, settings, consume)
    return "".join(out)


class AtOnce:
    """The patterns of all entities, one after the other, over a whole text: what one would write.

    The same patterns and the same checks, with Python's ``re``.
    """

    def __init__(self) -> None:
        self._patterns = [
            (re.compile(pattern), partial(self._replaced, name))
            for name, patterns in PATTERNS.items()
            for pattern in patterns
        ]

    def __call__(self, text: str) -> str:
        """Return the text as it would leave."""
        for pattern, replaced in self._patterns:
            text = pattern.sub(replaced, text)
        return text

    def value(self, value: Any) -> Any:
        """Return a JSON value with all of its strings as they would leave."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value

    @staticmethod
    def _replaced(name: str, found: re.Match[str]) -> str:
        check = CHECKS.get(name)
        return found[0] if check is not None and not check(found[0]) else f"[{name}]"


def lag(events: Sequence[BaseEvent], settings: dict[str, Any]) -> list[int]:
    """Return how many characters have come and not left, after each delta."""
    lags: list[int] = []
    left = 0

    def watched() -> Iterable[BaseEvent]:
        """Note the lag when the next event is asked for: all that may leave has left."""
        come = 0
        for event in events:
            delta = getattr(event, "delta", None)
            yield event
            if delta:
                come += len(delta)
                lags.append(come - left)

    def consume(event: BaseEvent) -> None:
        nonlocal left
        left += len(getattr(event, "delta", ""))

    in_host(watched(), settings, consume)
    return lags
