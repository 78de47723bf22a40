"""Chunk expansion: the ``*_CHUNK`` shorthand becomes START, CONTENT and END events.

A *lane* is one ``subagentRunId`` (None: the run itself); each lane assembles at most one stream
at a time, because a chunk without an id continues "the same as before". Lanes do not disturb
each other.

Rules: AG-UI 1.1, processing, "Chunk expansion". One divergence: the chunk's ``timestamp`` rides
on the content event too, where the reference client loses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    ReasoningEndEvent,
    ReasoningMessageChunkEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from interpose.errors import InvalidStream


class _Open:
    """A stream that chunks are assembling: what its opener established."""

    __slots__ = ("id", "owner", "said")
    noun: ClassVar[str]
    chunk: ClassVar[str]
    id_field: ClassVar[str]

    def __init__(self, chunk: Any, **said: str | None) -> None:
        self.id: str = getattr(chunk, self.id_field)
        self.owner: str | None = chunk.subagent_run_id
        self.said = said

    @classmethod
    def open(cls, chunk: Any) -> Self:
        """Open from a lane's first chunk. Raises InvalidStream when it lacks what START needs."""
        raise NotImplementedError

    def agree(self, chunk: Any) -> None:
        """Refuse a continuation that repeats a field of the opener with another value."""
        for field, established in self.said.items():
            repeated = getattr(chunk, field)
            if repeated is not None and repeated != established:
                raise InvalidStream(
                    f"A {self.chunk} continues {self.noun} {self.id!r} with another {field} than "
                    "its first chunk gave. A continuation repeats a field unchanged, or omits it.",
                    rule="chunk-conflict",
                )

    def start(self, common: dict[str, Any]) -> BaseEvent:
        raise NotImplementedError

    def content(self, common: dict[str, Any]) -> BaseEvent:
        raise NotImplementedError

    def end(self) -> BaseEvent:
        raise NotImplementedError


class _Text(_Open):
    __slots__ = ()
    noun = "text message"
    chunk = "TEXT_MESSAGE_CHUNK"
    id_field = "message_id"

    @classmethod
    def open(cls, chunk: TextMessageChunkEvent) -> Self:
        _require(chunk.message_id, cls.chunk, "messageId")
        return cls(chunk, role=chunk.role or "assistant", name=chunk.name)

    def start(self, common: dict[str, Any]) -> BaseEvent:
        return TextMessageStartEvent(**{**common, **self.said, "message_id": self.id})

    def content(self, common: dict[str, Any]) -> BaseEvent:
        return TextMessageContentEvent(**{**common, "message_id": self.id})

    def end(self) -> BaseEvent:
        return TextMessageEndEvent(message_id=self.id, subagent_run_id=self.owner)


class _Tool(_Open):
    __slots__ = ()
    noun = "tool call"
    chunk = "TOOL_CALL_CHUNK"
    id_field = "tool_call_id"

    @classmethod
    def open(cls, chunk: ToolCallChunkEvent) -> Self:
        _require(chunk.tool_call_id, cls.chunk, "toolCallId")
        _require(chunk.tool_call_name, cls.chunk, "toolCallName")
        return cls(
            chunk,
            tool_call_name=chunk.tool_call_name,
            parent_message_id=chunk.parent_message_id,
        )

    def start(self, common: dict[str, Any]) -> BaseEvent:
        return ToolCallStartEvent(**{**common, **self.said, "tool_call_id": self.id})

    def content(self, common: dict[str, Any]) -> BaseEvent:
        return ToolCallArgsEvent(**{**common, "tool_call_id": self.id})

    def end(self) -> BaseEvent:
        return ToolCallEndEvent(tool_call_id=self.id, subagent_run_id=self.owner)


class _Reasoning(_Open):
    __slots__ = ()
    noun = "reasoning message"
    chunk = "REASONING_MESSAGE_CHUNK"
    id_field = "message_id"

    @classmethod
    def open(cls, chunk: ReasoningMessageChunkEvent) -> Self:
        _require(chunk.message_id, cls.chunk, "messageId")
        return cls(chunk)

    def start(self, common: dict[str, Any]) -> BaseEvent:
        fixed = {"role": "reasoning", "message_id": self.id}
        return ReasoningMessageStartEvent(**{**common, **fixed})

    def content(self, common: dict[str, Any]) -> BaseEvent:
        return ReasoningMessageContentEvent(**{**common, "message_id": self.id})

    def end(self) -> BaseEvent:
        return ReasoningMessageEndEvent(message_id=self.id, subagent_run_id=self.owner)


_KINDS: Final[Mapping[type[BaseEvent], type[_Open]]] = {
    TextMessageChunkEvent: _Text,
    ToolCallChunkEvent: _Tool,
    ReasoningMessageChunkEvent: _Reasoning,
}

CHUNKS: Final[frozenset[type[BaseEvent]]] = frozenset(_KINDS)
"""The classes that need expansion: ``expander.idle and event.__class__ not in CHUNKS`` may skip."""

_CLOSE_OWN_LANE: Final[frozenset[type[BaseEvent]]] = frozenset(
    {
        CustomEvent,
        ReasoningEndEvent,
        ReasoningMessageContentEvent,
        ReasoningMessageEndEvent,
        ReasoningMessageStartEvent,
        ReasoningStartEvent,
        StateDeltaEvent,
        StateSnapshotEvent,
        StepFinishedEvent,
        StepStartedEvent,
        SubagentErrorEvent,
        SubagentFinishedEvent,
        TextMessageContentEvent,
        TextMessageEndEvent,
        TextMessageStartEvent,
        ToolCallArgsEvent,
        ToolCallEndEvent,
        ToolCallResultEvent,
        ToolCallStartEvent,
    }
)
_CLOSE_EVERY_LANE: Final[frozenset[type[BaseEvent]]] = frozenset(
    {MessagesSnapshotEvent, RunErrorEvent, RunFinishedEvent, RunStartedEvent}
)


class Expander:
    """Expands the chunks of one stream. Idempotent: an expanded stream passes unchanged.

    ``idle``: nothing is being assembled, so an event that is no chunk passes as it is; callers on
    a hot path test it together with ``CHUNKS`` and skip :meth:`push`.

    A stream that ends without a terminal leaves its open messages open: no END is made up.

    Example::

        expander = Expander()
        for event in events:
            yield from expander.push(event)
    """

    __slots__ = ("_lanes", "idle")

    def __init__(self) -> None:
        self.idle = True
        self._lanes: dict[str | None, _Open] = {}

    def push(self, event: BaseEvent) -> tuple[BaseEvent, ...]:
        """Return what ``event`` stands for, in order.

        Raises InvalidStream, rule ``chunk-first``, ``chunk-conflict``, ``chunk-owner`` or
        ``chunk-ambiguous``.
        """
        kind = _KINDS.get(event.__class__)
        if kind is not None:
            return self._expand(kind, event)
        if self.idle:
            return (event,)
        if event.__class__ in _CLOSE_EVERY_LANE:
            return (*self.close(), event)
        if event.__class__ in _CLOSE_OWN_LANE:
            return (*self._close(event.subagent_run_id), event)  # type: ignore[attr-defined]
        return (event,)

    def close(self) -> tuple[BaseEvent, ...]:
        """Return the ENDs of what chunks have opened, where a producer says that they are over."""
        closed = tuple(lane.end() for lane in self._lanes.values())
        self._lanes.clear()
        self.idle = True
        return closed

    def _close(self, lane: str | None) -> tuple[BaseEvent, ...]:
        pending = self._lanes.pop(lane, None)
        self.idle = not self._lanes
        return () if pending is None else (pending.end(),)

    def _expand(self, kind: type[_Open], chunk: Any) -> tuple[BaseEvent, ...]:
        named: str | None = getattr(chunk, kind.id_field)
        lane = self._lane(kind, named, chunk.subagent_run_id)
        pending = self._lanes.get(lane)
        # An empty id is an id: only an absent one means "the same as before".
        if pending is not None and pending.__class__ is kind and named in (None, pending.id):
            pending.agree(chunk)
            return _continuation(pending, chunk, opening=False)
        opened = kind.open(chunk)
        closed = self._close(lane)
        self._lanes[lane] = opened
        self.idle = False
        return closed + _continuation(opened, chunk, opening=True)

    def _lane(self, kind: type[_Open], named: str | None, tag: str | None) -> str | None:
        """Decide which lane a chunk belongs to; both its id and its tag may be absent."""
        holders = [lane for lane, held in self._lanes.items() if held.__class__ is kind]
        if named is not None:
            for lane in holders:
                if self._lanes[lane].id != named:
                    continue
                if tag is not None and tag != lane:
                    raise InvalidStream(
                        f"A {kind.chunk} of subagent {tag!r} continues {kind.noun} {named!r}, "
                        f"which {_owner(lane)} opened.",
                        rule="chunk-owner",
                    )
                return lane
            return tag
        if tag is not None or None in holders or not holders:
            return tag
        if len(holders) > 1:
            raise InvalidStream(
                f"A {kind.chunk} has neither an id nor a subagentRunId, but {len(holders)} "
                f"subagents have a {kind.noun} open. It must say which one it continues.",
                rule="chunk-ambiguous",
            )
        return holders[0]


def _continuation(stream: _Open, chunk: Any, *, opening: bool) -> tuple[BaseEvent, ...]:
    extra = chunk.__pydantic_extra__ or {}
    carries = chunk.delta is not None or chunk.raw_event is not None
    if not opening and (chunk.metadata is not None or extra):
        carries = True  # a final chunk with usage only must not vanish
    events: list[BaseEvent] = []
    if opening:
        common = {"metadata": chunk.metadata, "subagent_run_id": chunk.subagent_run_id}
        events.append(stream.start(common if carries else {**extra, **common}))
    if carries:
        events.append(
            stream.content(
                {
                    **extra,
                    "delta": chunk.delta or "",
                    "metadata": chunk.metadata,
                    "raw_event": chunk.raw_event,
                    "timestamp": chunk.timestamp,
                    "subagent_run_id": (
                        stream.owner if chunk.subagent_run_id is None else chunk.subagent_run_id
                    ),
                }
            )
        )
    return tuple(events)


def _require(value: str | None, chunk: str, field: str) -> None:
    if value is None:
        raise InvalidStream(
            f"A {chunk} that opens a stream needs {field}; no open stream could be continued.",
            rule="chunk-first",
        )


def _owner(lane: str | None) -> str:
    return "the run itself" if lane is None else f"subagent {lane!r}"
