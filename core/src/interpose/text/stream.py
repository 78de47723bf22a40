"""The text of one run's events: which lane a chunk belongs to, and what each event leaves as."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    CustomEvent,
    Message,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessageChunkEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
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

from interpose.errors import MiddlewareError
from interpose.events import DROP, Result
from interpose.text.carriers import (
    Kind,
    input_texts,
    interrupt_texts,
    message_texts,
    part_texts,
    result_metadata,
    unless_same,
    with_fields,
)
from interpose.text.covers import Covers
from interpose.text.jsontext import JsonLane, json_or_text, json_value
from interpose.text.lanes import Holding, Incremental, TextLane, Work, whole

Key: TypeAlias = tuple[Kind, str, str | None]
"""Kind, id, subagent."""

Handler: TypeAlias = Callable[[Any], Work[Result]]
"""Says what an event leaves as."""

_START: Final[Mapping[type[BaseEvent], Kind]] = {
    TextMessageStartEvent: "text",
    ReasoningMessageStartEvent: "reasoning",
    ToolCallStartEvent: "tool",
}
_CONTENT: Final[Mapping[type[BaseEvent], Kind]] = {
    TextMessageContentEvent: "text",
    ReasoningMessageContentEvent: "reasoning",
    ToolCallArgsEvent: "tool",
}
_END: Final[Mapping[type[BaseEvent], Kind]] = {
    TextMessageEndEvent: "text",
    ReasoningMessageEndEvent: "reasoning",
    ToolCallEndEvent: "tool",
}
_COVER: Final[Mapping[Kind, Covers]] = {
    "text": Covers.TEXT,
    "reasoning": Covers.REASONING,
    "tool": Covers.TOOL_ARGS,
}
_CHUNKS: Final = (TextMessageChunkEvent, ReasoningMessageChunkEvent, ToolCallChunkEvent)


HANDLED: Final[tuple[type[BaseEvent], ...]] = (
    *_START,
    *_CONTENT,
    *_END,
    *_CHUNKS,
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    CustomEvent,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
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
    SubagentStartedEvent,
    ToolCallResultEvent,
)
"""All classes of events: each may have a ``raw_event``."""


@dataclass(slots=True)
class _Open:
    """A message or tool call that has begun and not ended."""

    kind: Kind
    ident: str
    subagent: str | None
    lane: Incremental
    last: BaseEvent | None = None
    """The latest event with content: what is held leaves in its likeness."""
    metadata: dict[str, Any] | None = None
    """Metadata of events of which nothing has left yet."""


class TextStream:
    """The lanes of one run, and what happens to each event; asks for scans as ``lanes`` does."""

    def __init__(self, holding: Holding, covers: Covers, *, keep_raw: bool) -> None:
        self._holding = holding
        self._covers = covers
        self._keep_raw = keep_raw
        self._open: dict[Key, _Open] = {}
        self._handlers = self._choose()
        self._found: dict[type[BaseEvent], Handler | None] = {}

    def event(self, event: BaseEvent) -> Work[Result]:
        """Return what ``event`` leaves as.

        Raises :class:`MiddlewareError` for a chunk event, whose lane nobody could know.
        """
        handler = self._handler(event.__class__)
        if event.raw_event is not None:  # it may hold the text as the provider sent it
            event = event.model_copy(update={"raw_event": None})
        return event if handler is None else (yield from handler(event))

    def run_input(self, run_input: RunAgentInput) -> Work[RunAgentInput]:
        """Return the input as it goes on."""
        state = Covers.STATE in self._covers
        return (yield from input_texts(self._holding, run_input, state=state))

    @property
    def overflows(self) -> int:
        """How many candidates were longer than may be held."""
        return self._holding.overflows

    def discard(self) -> None:
        """Forget what is held: a scan failed, so nobody knows what may leave."""
        self._open.clear()

    def _handler(self, cls: type[BaseEvent]) -> Handler | None:
        """Return the handler of a class or of what it derives from; found once per class."""
        if cls not in self._found:
            chosen = (self._handlers[base] for base in cls.__mro__ if base in self._handlers)
            self._found[cls] = next(chosen, None)
        return self._found[cls]

    def _choose(self) -> dict[type[BaseEvent], Handler]:
        """Return a handler for each class of events that something has to happen to."""
        chosen: dict[type[BaseEvent], Handler] = {
            **dict.fromkeys(_CHUNKS, _refuse_chunk),
            RunFinishedEvent: self._run_finished,
            RunErrorEvent: self._error,
            SubagentFinishedEvent: self._subagent_finished,
            SubagentErrorEvent: self._error,
        }
        for events, handler in (
            (_START, self._start),
            (_CONTENT, self._content),
            (_END, self._end),
        ):
            for event, kind in events.items():
                if _COVER[kind] in self._covers:
                    chosen[event] = handler
        if not self._keep_raw:
            chosen[RawEvent] = _drop
        by_cover: dict[Covers, dict[type[BaseEvent], Handler]] = {
            Covers.TEXT: {SubagentStartedEvent: self._subagent_started},
            Covers.TOOL_RESULTS: {ToolCallResultEvent: self._tool_result},
            Covers.MESSAGES: {MessagesSnapshotEvent: self._messages},
            Covers.STATE: {StateSnapshotEvent: self._state, StateDeltaEvent: self._state_delta},
            Covers.ACTIVITY: {
                ActivitySnapshotEvent: self._activity,
                ActivityDeltaEvent: self._activity_delta,
            },
            Covers.CUSTOM: {CustomEvent: self._custom},
            Covers.INPUT: {RunStartedEvent: self._run_started},
        }
        for cover, handlers in by_cover.items():
            if cover in self._covers:
                chosen |= handlers
        return chosen

    # Text that crosses events ---------------------------------------------------------------
    def _start(self, event: Any) -> Work[Result]:
        kind, ident = _START[_known(event, _START)], _ident(event)
        left = yield from self._flush(self._find(kind, ident, event.subagent_run_id))
        self._begin(kind, ident, event.subagent_run_id)
        return [*left, event] if left else cast("BaseEvent", event)

    def _content(self, event: Any) -> Work[Result]:
        kind, ident = _CONTENT[_known(event, _CONTENT)], _ident(event)
        found = self._find(kind, ident, event.subagent_run_id)
        item = found or self._begin(kind, ident, event.subagent_run_id)
        item.last = event
        text = yield from item.lane.feed(event.delta)
        if event.delta and not text:
            item.metadata = _both(item.metadata, event.metadata)
            return DROP
        metadata, item.metadata = _both(item.metadata, event.metadata), None
        if text == event.delta and metadata is event.metadata:
            return cast("BaseEvent", event)
        changed: BaseEvent = event.model_copy(update={"delta": text, "metadata": metadata})
        return changed

    def _end(self, event: Any) -> Work[Result]:
        kind = _END[_known(event, _END)]
        left = yield from self._flush(self._find(kind, _ident(event), event.subagent_run_id))
        return [*left, event] if left else cast("BaseEvent", event)

    def _find(self, kind: Kind, ident: str, subagent: str | None) -> _Open | None:
        found = self._open.get((kind, ident, subagent))
        if found is None and subagent is None:
            # Only the event that opens a message has to name its subagent.
            matches = (item for key, item in self._open.items() if key[:2] == (kind, ident))
            found = next(matches, None)
        return found

    def _begin(self, kind: Kind, ident: str, subagent: str | None) -> _Open:
        item = _Open(kind, ident, subagent, self._lane(kind))
        self._open[kind, ident, subagent] = item
        return item

    def _lane(self, kind: Kind) -> Incremental:
        return JsonLane(self._holding) if kind == "tool" else TextLane(self._holding)

    def _flush(self, *items: _Open | None) -> Work[list[BaseEvent]]:
        """End these lanes; return the events that carry what they held."""
        events: list[BaseEvent] = []
        for item in items:
            if item is None:
                continue
            del self._open[item.kind, item.ident, item.subagent]
            text = yield from item.lane.finish()
            if text or item.metadata:
                last = item.last or _blank(item)
                update = {"delta": text, "metadata": item.metadata}
                events.append(last.model_copy(update=update))
        return events

    def _flush_all(self, subagent: str | None = None) -> Work[list[BaseEvent]]:
        items: Iterable[_Open] = list(self._open.values())
        if subagent is not None:
            items = [item for item in items if item.subagent == subagent]
        return (yield from self._flush(*items))

    # Snapshots ------------------------------------------------------------------------------
    def _messages(self, event: MessagesSnapshotEvent) -> Work[Result]:
        messages = []
        for message in event.messages:
            messages.append((yield from self._restated(message)))  # noqa: PERF401 - yields
        return with_fields(event, messages=unless_same(messages, event.messages))

    def _restated(self, message: Message) -> Work[Message]:
        """Transform a message of a snapshot, which may still be open.

        The snapshot says what an open message is so far, and what follows is added to it. So its
        lane begins anew with the snapshot's text, and the end of that text, which a later chunk
        could still change, is held back from the snapshot, too.
        """

        def reopen(kind: Kind, ident: str) -> Incremental | None:
            item = self._find(kind, ident, message.subagent_run_id)
            if item is not None:
                item.lane = self._lane(kind)
            return None if item is None else item.lane

        return (yield from message_texts(self._holding, message, reopen))

    # Whole values ---------------------------------------------------------------------------
    def _tool_result(self, event: ToolCallResultEvent) -> Work[Result]:
        left = yield from self._flush(self._find("tool", event.tool_call_id, event.subagent_run_id))
        if isinstance(event.content, str):
            content: Any = yield from json_or_text(self._holding, event.content)
        else:
            content = yield from part_texts(self._holding, event.content)
        metadata = yield from result_metadata(self._holding, event.metadata)
        changed = with_fields(event, content=content, metadata=metadata)
        return [*left, changed] if left else changed

    def _state(self, event: StateSnapshotEvent) -> Work[Result]:
        return with_fields(event, snapshot=(yield from json_value(self._holding, event.snapshot)))

    def _state_delta(self, event: StateDeltaEvent) -> Work[Result]:
        return with_fields(event, delta=(yield from self._operations(event.delta)))

    def _activity(self, event: ActivitySnapshotEvent) -> Work[Result]:
        return with_fields(event, content=(yield from json_value(self._holding, event.content)))

    def _activity_delta(self, event: ActivityDeltaEvent) -> Work[Result]:
        return with_fields(event, patch=(yield from self._operations(event.patch)))

    def _operations(self, operations: list[Any]) -> Work[list[Any]]:
        new = []
        for operation in operations:
            if operation.op in {"add", "replace", "test"}:
                value = yield from json_value(self._holding, operation.value)
                new.append(with_fields(operation, value=value))
            else:
                new.append(operation)
        return unless_same(new, operations)

    def _custom(self, event: CustomEvent) -> Work[Result]:
        return with_fields(event, value=(yield from json_value(self._holding, event.value)))

    def _run_started(self, event: RunStartedEvent) -> Work[Result]:
        if event.input is None:
            return event
        return with_fields(event, input=(yield from self.run_input(event.input)))

    def _subagent_started(self, event: SubagentStartedEvent) -> Work[Result]:
        if event.description is None:
            return event
        text = yield from whole(self._holding, event.description)
        return with_fields(event, description=text)

    # Endings --------------------------------------------------------------------------------
    def _run_finished(self, event: RunFinishedEvent) -> Work[Result]:
        left = yield from self._flush_all()
        if Covers.RESULT in self._covers:
            outcome = event.outcome
            if isinstance(outcome, RunFinishedInterruptOutcome):
                interrupts = []
                for interrupt in outcome.interrupts:
                    interrupts.append((yield from interrupt_texts(self._holding, interrupt)))  # noqa: PERF401 - yields
                new = unless_same(interrupts, outcome.interrupts)
                event = with_fields(event, outcome=with_fields(outcome, interrupts=new))
            event = with_fields(event, result=(yield from json_value(self._holding, event.result)))
        return [*left, event] if left else event

    def _subagent_finished(self, event: SubagentFinishedEvent) -> Work[Result]:
        left = yield from self._flush_all(event.subagent_run_id)
        if Covers.RESULT in self._covers:
            event = with_fields(event, result=(yield from json_value(self._holding, event.result)))
        return [*left, event] if left else event

    def _error(self, event: RunErrorEvent | SubagentErrorEvent) -> Work[Result]:
        subagent = event.subagent_run_id if isinstance(event, SubagentErrorEvent) else None
        left = yield from self._flush_all(subagent)
        if Covers.ERROR in self._covers:
            event = with_fields(event, message=(yield from whole(self._holding, event.message)))
        return [*left, event] if left else event


def _drop(_event: RawEvent) -> Work[Result]:
    yield from ()
    return DROP


def _refuse_chunk(event: BaseEvent) -> Work[Result]:
    yield from ()
    raise MiddlewareError(
        f"a text transform got {type(event).__name__}, which is expanded before layers",
        hint="expand the agent's chunks; the host does",
    )


def _known(event: BaseEvent, known: Mapping[type[BaseEvent], Any]) -> type[BaseEvent]:
    return next(base for base in type(event).__mro__ if base in known)


def _ident(event: Any) -> str:
    message_id: str | None = getattr(event, "message_id", None)
    return cast("str", event.tool_call_id) if message_id is None else message_id  # "" is an id


def _both(earlier: dict[str, Any] | None, later: dict[str, Any] | None) -> dict[str, Any] | None:
    return {**earlier, **(later or {})} if earlier else later


def _blank(item: _Open) -> BaseEvent:
    """Return an event to hold text that only a snapshot has brought."""
    if item.kind == "tool":
        return ToolCallArgsEvent(tool_call_id=item.ident, delta="", subagent_run_id=item.subagent)
    content = TextMessageContentEvent if item.kind == "text" else ReasoningMessageContentEvent
    return content(message_id=item.ident, delta="", subagent_run_id=item.subagent)
