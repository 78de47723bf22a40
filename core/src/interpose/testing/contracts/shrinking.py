"""Making the stream that shows a breach smaller, so that an author sees what matters."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    ToolCallArgsEvent,
)

from interpose.agui import Verifier
from interpose.errors import InvalidStream
from interpose.testing.contracts.cutting import joined, text_of
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import expanded
from interpose.testing.events import finished, started

_MOST_TRIES: Final = 300

Look = Callable[[Sequence[BaseEvent]], Awaitable[Finding | None]]
Events = list[BaseEvent]


async def smallest(events: Sequence[BaseEvent], look: Look) -> Finding | None:
    """Return what ``look`` finds on the smallest stream that still shows it; None if nothing.

    ``events``: between RUN_STARTED and RUN_FINISHED. Whole messages and calls are taken out
    first, then what is said by whom, pieces of text, and characters, as long as ``look`` still
    finds something. Arguments that are JSON stay JSON.
    """
    found = await look(events)
    if found is None:
        return None
    hunt = _Hunt(look, list(events), found)
    await hunt.run()
    return Finding(
        hunt.found.happened, hunt.found.expected, hunt.found.stream or tuple(hunt.current)
    )


class _Hunt:
    """The smallest stream so far, and what is left to be tried."""

    def __init__(self, look: Look, events: Events, found: Finding) -> None:
        self._look = look
        self.current = events
        self.found = found
        self._left = _MOST_TRIES
        self._seen = {_written(events)}
        self._json = {call for call, args in _arguments(events).items() if _is_json(args)}

    async def run(self) -> None:
        """Go on until nothing can be left out, or enough has been tried."""
        if await self._works([]):
            return
        size = -1
        while size != len(self._seen) and self._left:
            size = len(self._seen)
            await self._fewer(_big_group)
            await self._fewer(_small_group)
            await self._all_of(_by_the_main_agent)
            await self._fewer(id)
            await self._all_of(_with_less_json)
            await self._all_of(_with_pieces_joined)
            for index in range(len(self.current)):
                await self._shorter(index)

    async def _works(self, candidate: Events) -> bool:
        written = _written(candidate)
        if written in self._seen or not self._left or not _is_valid(candidate):
            return False
        args = _arguments(candidate)
        if not all(_is_json(args[call]) for call in self._json & args.keys() if args[call]):
            return False
        self._seen.add(written)
        self._left -= 1
        found = await self._look(candidate)
        if found is None:
            return False
        self.current, self.found = candidate, found
        return True

    async def _fewer(self, group: Callable[[BaseEvent], object]) -> None:
        """Leave out groups of events: many at once, and then each."""
        keys = list(dict.fromkeys(map(group, self.current)))
        size = max(1, len(keys) // 2)
        while True:
            at = 0
            while at < len(keys):
                without = set(keys[at : at + size])
                rest = [event for event in self.current if group(event) not in without]
                if await self._works(rest):
                    del keys[at : at + size]
                else:
                    at += size
            if size == 1:
                return
            size //= 2

    async def _all_of(self, ways: Callable[[Events], Iterator[Events]]) -> None:
        """Take each way that helps, and look at what it leaves anew."""
        helped = True
        while helped:
            helped = False
            for candidate in ways(self.current):
                if await self._works(candidate):
                    helped = True
                    break

    async def _shorter(self, index: int) -> None:
        """Leave out parts of an event's text: halves first, single characters last."""
        event = self.current[index]
        field = "delta" if text_of(event) else "content"
        text = getattr(event, field, None)
        if not isinstance(text, str):
            return
        size = max(1, len(text) // 2)
        while len(text) > 1:
            at = 0
            while at < len(text):
                rest = text[:at] + text[at + size :]
                changed = event.model_copy(update={field: rest})
                candidate = [*self.current[:index], changed, *self.current[index + 1 :]]
                if rest and await self._works(candidate):
                    text = rest
                else:
                    at += size
            if size == 1:
                return
            size //= 2


def _big_group(event: BaseEvent) -> object:
    """Return what an event is part of as a whole: a subagent, a message, a call, a step."""
    return getattr(event, "subagent_run_id", None) or _small_group(event)


def _small_group(event: BaseEvent) -> object:
    """Return the message, the call or the step of an event."""
    for name in ("tool_call_id", "message_id", "step_name", "subagent_run_id"):
        value = getattr(event, name, None)
        if isinstance(value, str):
            return (name, value)
    return id(event)


def _by_the_main_agent(events: Events) -> Iterator[Events]:
    """Yield the stream with one subagent's events as the main agent's own."""
    subagents = dict.fromkeys(getattr(event, "subagent_run_id", None) for event in events)
    for subagent in filter(None, subagents):
        yield [
            event.model_copy(update={"subagent_run_id": None})
            if getattr(event, "subagent_run_id", None) == subagent
            else event
            for event in events
            if not (
                isinstance(event, SubagentStartedEvent | SubagentFinishedEvent)
                and event.subagent_run_id == subagent
            )
        ]


def _with_pieces_joined(events: Events) -> Iterator[Events]:
    """Yield the stream with two neighbouring pieces of a text as one."""
    last: dict[Any, int] = {}
    for index, event in enumerate(events):
        key = text_of(event)
        if key is None:
            continue
        before = last.get(key)
        if before is not None:
            text = events[before].delta + event.delta  # type: ignore[attr-defined]
            whole = event.model_copy(update={"delta": text})
            yield [*events[:before], whole, *events[before + 1 : index], *events[index + 1 :]]
        last[key] = index


def _with_less_json(events: Events) -> Iterator[Events]:
    """Yield the stream with one key less in the arguments of a call, in as many pieces."""
    for call, args in _arguments(events).items():
        try:
            value = json.loads(args)
        except ValueError:
            continue
        if not isinstance(value, dict):
            continue
        places = [
            index
            for index, event in enumerate(events)
            if isinstance(event, ToolCallArgsEvent) and event.tool_call_id == call
        ]
        for key in value:
            less = json.dumps({name: held for name, held in value.items() if name != key})
            size = -(-len(less) // len(places))
            yield [
                event.model_copy(update={"delta": less[size * number : size * (number + 1)]})
                if (number := places.index(index) if index in places else -1) >= 0
                else event
                for index, event in enumerate(events)
            ]


def _arguments(events: Events) -> dict[str, str]:
    """Return the arguments of each call, as text."""
    args: dict[str, str] = {}
    for event in events:
        if isinstance(event, ToolCallArgsEvent):
            args[event.tool_call_id] = args.get(event.tool_call_id, "") + event.delta
    return args


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _written(events: Events) -> tuple[str, ...]:
    return tuple(map(repr, events))  # half a character cannot be written as JSON


def _is_valid(events: Sequence[BaseEvent]) -> bool:
    verifier = Verifier()
    whole: list[BaseEvent] = [*events]
    if not whole or not isinstance(whole[0], RunStartedEvent):
        whole.insert(0, started())
    if not isinstance(whole[-1], RunFinishedEvent | RunErrorEvent):
        whole.append(finished())
    try:
        for event in expanded(whole):
            verifier.check(event)
        verifier.finish()
    except InvalidStream:
        return False
    return not any(map(_has_half_a_character, joined(events)))


def _has_half_a_character(event: BaseEvent) -> bool:
    text = getattr(event, "delta", None)
    if not isinstance(text, str) or text.isascii():
        return False
    try:
        text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return True
    return False
