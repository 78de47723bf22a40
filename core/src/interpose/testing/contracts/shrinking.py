"""Making the stream that shows a breach smaller, so that an author sees what matters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from ag_ui.core import BaseEvent, RunFinishedEvent, RunStartedEvent

from interpose.agui import Verifier
from interpose.errors import InvalidStream
from interpose.testing.contracts.finding import Finding
from interpose.testing.events import finished, started

_MOST_TRIES: Final = 300

Look = Callable[[Sequence[BaseEvent]], Awaitable[Finding | None]]


async def smallest(events: Sequence[BaseEvent], look: Look) -> Finding | None:
    """Return what ``look`` finds on the smallest stream that still shows it; None if nothing.

    ``events``: between RUN_STARTED and RUN_FINISHED. Whole messages and calls are taken out
    first, then pieces of text, then characters, as long as ``look`` still finds something.
    """
    found = await look(events)
    if found is None:
        return None
    left = _MOST_TRIES
    current = list(events)
    progress = True
    while progress and left > 0:
        progress = False
        for candidate in _smaller(current):
            if left <= 0:
                break
            if not _is_valid(candidate):
                continue
            left -= 1
            still = await look(candidate)
            if still is not None:
                found, current, progress = still, candidate, True
                break
    return Finding(found.happened, found.expected, found.stream or tuple(current))


def _smaller(events: list[BaseEvent]) -> Iterator[list[BaseEvent]]:
    """Yield smaller streams, the biggest steps first."""
    keys = [_group(event) for event in events]
    for group in dict.fromkeys(keys):
        rest = [event for event, key in zip(events, keys, strict=True) if key != group]
        if rest and len(rest) < len(events):
            yield rest
    for index, event in enumerate(events):
        delta = getattr(event, "delta", None)
        if not isinstance(delta, str):
            continue
        yield [*events[:index], *events[index + 1 :]]
        for shorter in _shorter(delta):
            changed = event.model_copy(update={"delta": shorter})
            yield [*events[:index], changed, *events[index + 1 :]]


def _shorter(delta: str) -> Iterator[str]:
    """Yield a text without a part of it: halves first, single characters last."""
    size = len(delta) // 2
    while size:
        for at in range(0, len(delta), size):
            rest = delta[:at] + delta[at + size :]
            if rest:
                yield rest
        size //= 2


def _group(event: BaseEvent) -> str:
    """Return what an event belongs to and must not be taken from."""
    for name in ("subagent_run_id", "tool_call_id", "message_id", "step_name"):
        value = getattr(event, name, None)
        if isinstance(value, str):
            return f"{name} {value}"
    return f"{event.type.value} {id(event)}"


def _is_valid(events: Sequence[BaseEvent]) -> bool:
    verifier = Verifier()
    whole: list[BaseEvent] = [*events]
    if not whole or not isinstance(whole[0], RunStartedEvent):
        whole.insert(0, started())
    if not isinstance(whole[-1], RunFinishedEvent):
        whole.append(finished())
    try:
        for event in whole:
            verifier.check(event)
        verifier.finish()
    except InvalidStream:
        return False
    return True
