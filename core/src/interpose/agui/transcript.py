"""The transcript: which messages and which state a stream builds.

Rules: AG-UI 1.1, processing, "Application", and metadata. Seeded from the input of the run,
where the reference client seeds from the agent's own list: a server-side host has no other.
"""

# ruff: noqa: SLF001 - the dispatch table below the class names the class's own methods

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    BaseEvent,
    DeveloperMessage,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    SystemMessage,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from interpose.agui.drafts import CallDraft, MessageDraft, TextDraft
from interpose.agui.expansion import CHUNKS
from interpose.agui.patching import Patcher, PatchFailed
from interpose.agui.snapshots import reconcile
from interpose.agui.tracking import quote
from interpose.errors import UsageError

_MOST_WARNINGS = 100
_MOST_PATHS = 5

_TEXT_ROLES: Final[Mapping[str, Callable[..., Message]]] = {
    "assistant": AssistantMessage,
    "developer": DeveloperMessage,
    "system": SystemMessage,
    "user": UserMessage,
}


class Transcript:
    """Applies a verified, expanded stream to messages and state.

    ``messages`` and ``state`` are those of the run's input (an absent state is ``{}``). Nothing
    given is ever mutated, and what is handed out is a value of its moment: it does not change
    when more events arrive. Treat it as read-only all the same: untouched messages are the
    objects that came in, not copies.

    ``warnings``: what could not be applied, such as a patch whose path does not exist. Such an
    event changes nothing and the run goes on.

    After RUN_FINISHED, until the next one: ``pending_interrupts`` are the interrupts that it ended
    with, and ``pending_tool_call_ids`` the calls that a success leaves to the consumer: those the
    producer lists, else those of the run that have no result.
    """

    __slots__ = (
        "_built",
        "_by_id",
        "_calls",
        "_drafts",
        "_patcher",
        "_stale",
        "_unanswered",
        "_view",
        "pending_interrupts",
        "pending_tool_call_ids",
        "state",
        "warnings",
    )

    _view: tuple[Message, ...] | None

    def __init__(self, messages: Iterable[Message] = (), state: Any = None) -> None:
        self.state: Any = {} if state is None else state
        self.warnings: list[str] = []
        self.pending_interrupts: tuple[Interrupt, ...] = ()
        self.pending_tool_call_ids: tuple[str, ...] = ()
        self._patcher = Patcher()
        self._unanswered: dict[str, None] = {}
        self._rebuild(MessageDraft(message, seeded=True) for message in messages)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages after the last applied event. Built when read, unchanged ones reused."""
        if self._view is None:
            for draft in self._stale:
                self._built[draft.position] = draft.message
            self._stale.clear()
            self._view = tuple(self._built)
        return self._view

    @property
    def text(self) -> str:
        """The text of the last assistant message that this run wrote, or ``""``.

        Messages of the input and messages of subagents do not count.
        """
        for draft in reversed(self._drafts):
            message = draft.message
            if message.role != "assistant" or draft.seeded or message.subagent_run_id is not None:
                continue
            if message.content:
                return message.content
        return ""

    def apply(self, event: BaseEvent) -> None:
        """Apply one event; events that build nothing are ignored.

        Raises UsageError for a chunk: expand the stream first.
        """
        apply = _APPLY.get(event.__class__)
        if apply is not None:
            apply(self, event)
        elif event.__class__ in CHUNKS:
            raise UsageError(
                f"{event.type.value} cannot be applied to a transcript.",
                hint="Pass the stream through an Expander first.",
            )

    # -- text and reasoning ----------------------------------------------------------------------

    def _text_start(self, event: TextMessageStartEvent) -> None:
        role = event.role or "assistant"
        make = _TEXT_ROLES[role]
        draft = self._message(event, role, lambda: make(
            id=event.message_id, content="", name=event.name, subagent_run_id=event.subagent_run_id
        ))  # fmt: skip
        if draft is not None:
            self._merge(draft, event)

    def _reasoning_start(self, event: ReasoningMessageStartEvent) -> None:
        draft = self._message(event, "reasoning", lambda: ReasoningMessage(
            id=event.message_id, content="", subagent_run_id=event.subagent_run_id
        ))  # fmt: skip
        if draft is not None:
            self._merge(draft, event)

    def _content(self, event: TextMessageContentEvent | ReasoningMessageContentEvent) -> None:
        draft = self._message(event)
        if draft is not None:
            draft.append(event.delta)
            self._merge(draft, event)

    def _end(self, event: TextMessageEndEvent | ReasoningMessageEndEvent) -> None:
        draft = self._message(event)
        if draft is not None:
            self._merge(draft, event)

    def _message(
        self, event: Any, role: str = "", make: Callable[[], Message] | None = None
    ) -> MessageDraft | None:
        """Find the message that text goes to, or make it; None, with a warning, if it cannot."""
        draft = self._by_id.get(event.message_id)
        if draft is None:
            if make is None:
                self._warn(event, f"there is no message {quote(event.message_id)}")
                return None
            draft = TextDraft(event.message_id, role, make)
            self._insert(len(self._drafts), draft)
        elif draft.role == "activity":
            self._warn(event, f"message {quote(event.message_id)} is an activity, it takes no text")
            return None
        return draft

    # -- tool calls ------------------------------------------------------------------------------

    def _call_start(self, event: ToolCallStartEvent) -> None:
        self._unanswered[event.tool_call_id] = None
        call = self._calls.get(event.tool_call_id)
        if call is None:
            draft = self._carrier(event)
            call = CallDraft(draft, event.tool_call_id, event.tool_call_name)
            draft.add_call(call)
            self._calls[event.tool_call_id] = call
        elif call.name != event.tool_call_name:
            self._warn(event, f"call {quote(event.tool_call_id)} was renamed")
            call.name = event.tool_call_name
        self._merge_call(call, event)

    def _carrier(self, event: ToolCallStartEvent) -> MessageDraft:
        """Return the assistant message that a new call goes into."""
        id_ = event.tool_call_id
        if event.parent_message_id:
            parent = self._by_id.get(event.parent_message_id)
            if parent is None:
                id_ = event.parent_message_id
            elif parent.role == "assistant":
                return parent
            else:
                self._warn(
                    event,
                    f"parent message {quote(event.parent_message_id)} is not an assistant message; "
                    "the call got a message of its own",
                )
        draft = MessageDraft(AssistantMessage(id=id_, subagent_run_id=event.subagent_run_id))
        self._insert(len(self._drafts), draft)
        return draft

    def _call_args(self, event: ToolCallArgsEvent) -> None:
        call = self._calls.get(event.tool_call_id)
        if call is None:
            self._warn(event, f"there is no tool call {quote(event.tool_call_id)}")
            return
        call.arguments.append(event.delta)
        self._merge_call(call, event)

    def _call_end(self, event: ToolCallEndEvent) -> None:
        call = self._calls.get(event.tool_call_id)
        if call is None:
            self._warn(event, f"there is no tool call {quote(event.tool_call_id)}")
            return
        self._merge_call(call, event)

    def _call_result(self, event: ToolCallResultEvent) -> None:
        self._unanswered.pop(event.tool_call_id, None)
        draft = MessageDraft(
            ToolMessage(
                id=event.message_id,
                tool_call_id=event.tool_call_id,
                content=event.content,
                metadata=event.metadata,
                subagent_run_id=event.subagent_run_id,
            )
        )
        # Models refuse a history in which text stands between a call and its result, and a result
        # may arrive late: it goes behind its call's message and the results that are there.
        position = len(self._drafts)
        call = self._calls.get(event.tool_call_id)
        if call is not None:
            position = call.carrier.position + 1
            while position < len(self._drafts) and self._drafts[position].role == "tool":
                position += 1
        self._insert(position, draft)

    # -- state, history, activities --------------------------------------------------------------

    def _state_snapshot(self, event: StateSnapshotEvent) -> None:
        self.state = event.snapshot

    def _state_delta(self, event: StateDeltaEvent) -> None:
        patched = self._patched(event, self.state, event.delta)
        if patched is not _FAILED:
            self.state = patched

    def _run_started(self, event: RunStartedEvent) -> None:
        self._unanswered.clear()
        for message in event.input.messages if event.input else ():
            if message.id not in self._by_id:
                self._insert(len(self._drafts), MessageDraft(message, seeded=True))

    def _run_finished(self, event: RunFinishedEvent) -> None:
        outcome = event.outcome
        self.pending_interrupts = ()
        self.pending_tool_call_ids = ()
        if isinstance(outcome, RunFinishedInterruptOutcome):
            self.pending_interrupts = tuple(outcome.interrupts)
        elif outcome is None:
            self.pending_tool_call_ids = tuple(self._unanswered)
        elif isinstance(outcome, RunFinishedSuccessOutcome):
            self.pending_tool_call_ids = tuple(outcome.pending_tool_call_ids or self._unanswered)

    def _messages_snapshot(self, event: MessagesSnapshotEvent) -> None:
        self._rebuild(reconcile(self._drafts, event))

    def _activity_snapshot(self, event: ActivitySnapshotEvent) -> None:
        draft = self._by_id.get(event.message_id)
        replace = event.replace is not False
        if draft is None or (replace and draft.role != "activity"):
            message = ActivityMessage(
                id=event.message_id,
                activity_type=event.activity_type,
                content=event.content,
                subagent_run_id=event.subagent_run_id,
            )
            if draft is None:
                draft = MessageDraft(message)
                self._insert(len(self._drafts), draft)
            else:
                for call in draft.calls:
                    self._calls.pop(call.id, None)
                draft.replace(message)
        elif replace:
            # Everything is minted anew but the metadata, which accumulates.
            draft.update(
                activity_type=event.activity_type,
                content=event.content,
                subagent_run_id=event.subagent_run_id,
            )
        elif draft.role != "activity":
            return
        self._merge(draft, event)

    def _activity_delta(self, event: ActivityDeltaEvent) -> None:
        draft = self._by_id.get(event.message_id)
        if draft is None:
            return
        message = draft.message
        if message.role != "activity":
            self._warn(event, f"message {quote(event.message_id)} is not an activity")
            return
        self._merge(draft, event)  # kept even if the patch fails
        content = self._patched(event, message.content, event.patch)
        if content is _FAILED:
            return
        if not isinstance(content, dict):
            self._warn(
                event, "the patch would replace the content by something else than an object"
            )
            return
        draft.update(content=content, activity_type=event.activity_type)
        self._touch(draft)

    def _encrypted_value(self, event: ReasoningEncryptedValueEvent) -> None:
        if event.subtype == "tool-call":
            call = self._calls.get(event.entity_id)
            if call is not None:
                call.encrypted_value = event.encrypted_value
                self._touch_call(call)
            return
        draft = self._by_id.get(event.entity_id)
        if draft is not None and draft.role != "activity":
            draft.update(encrypted_value=event.encrypted_value)
            self._touch(draft)

    def _patched(self, event: BaseEvent, document: Any, operations: Sequence[Any]) -> Any:
        """Return the patched copy, all operations or none; _FAILED, with a warning, if it fails."""
        try:
            return self._patcher.apply(document, operations)
        except PatchFailed as error:
            paths = ", ".join(f"{item.op} {quote(item.path)}" for item in operations[:_MOST_PATHS])
            self._warn(event, f"the patch does not fit ({error.reason}: {paths})")
            return _FAILED

    # -- the list --------------------------------------------------------------------------------

    def _rebuild(self, drafts: Iterable[MessageDraft]) -> None:
        self._drafts: list[MessageDraft] = []
        self._built: list[Any] = []
        self._stale: dict[MessageDraft, None] = {}
        self._by_id: dict[str, MessageDraft] = {}
        self._calls: dict[str, CallDraft] = {}
        self._view = None
        for draft in drafts:
            self._insert(len(self._drafts), draft)

    def _insert(self, position: int, draft: MessageDraft) -> None:
        self._drafts.insert(position, draft)
        self._built.insert(position, draft.message if draft.is_made else None)
        if not draft.is_made:
            self._stale[draft] = None
        for moved in range(position, len(self._drafts)):
            self._drafts[moved].position = moved
        self._by_id.setdefault(draft.id, draft)
        for call in draft.calls:
            self._calls.setdefault(call.id, call)
        self._view = None

    def _touch(self, draft: MessageDraft) -> None:
        self._stale[draft] = None
        self._view = None

    def _touch_call(self, call: CallDraft) -> None:
        call.carrier.changed()
        self._touch(call.carrier)

    def _merge(self, draft: MessageDraft, event: BaseEvent) -> None:
        """Fold an event's metadata into what it builds, the last write of a key winning."""
        if event.metadata is not None:
            draft.update(metadata={**(draft.metadata or {}), **event.metadata})
        self._touch(draft)

    def _merge_call(self, call: CallDraft, event: BaseEvent) -> None:
        if event.metadata is not None:
            call.metadata = {**(call.metadata or {}), **event.metadata}
        self._touch_call(call)

    def _warn(self, event: BaseEvent, why: str) -> None:
        if len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(f"{event.type.value} was not applied: {why}")


def adder(transcript: Transcript, kind: type[BaseEvent], id_: str) -> Callable[[str], None] | None:
    """Return what adds a delta to a message or a call, as its event would; None: there is none.

    ``kind``: the class of the deltas. For a run of deltas without metadata: it holds until the next
    event is applied, or until something is read.
    """
    if kind is ToolCallArgsEvent:
        call = transcript._calls.get(id_)
        if call is None:
            return None
        transcript._touch_call(call)
        return call.arguments.append
    draft = transcript._by_id.get(id_)
    if draft is None or draft.role == "activity":
        return None
    transcript._touch(draft)
    return draft.parts().append


_FAILED: Final = object()

_APPLY: Final[Mapping[type[BaseEvent], Callable[[Transcript, Any], None]]] = {
    ActivityDeltaEvent: Transcript._activity_delta,
    ActivitySnapshotEvent: Transcript._activity_snapshot,
    MessagesSnapshotEvent: Transcript._messages_snapshot,
    ReasoningEncryptedValueEvent: Transcript._encrypted_value,
    ReasoningMessageContentEvent: Transcript._content,
    ReasoningMessageEndEvent: Transcript._end,
    ReasoningMessageStartEvent: Transcript._reasoning_start,
    RunFinishedEvent: Transcript._run_finished,
    RunStartedEvent: Transcript._run_started,
    StateDeltaEvent: Transcript._state_delta,
    StateSnapshotEvent: Transcript._state_snapshot,
    TextMessageContentEvent: Transcript._content,
    TextMessageEndEvent: Transcript._end,
    TextMessageStartEvent: Transcript._text_start,
    ToolCallArgsEvent: Transcript._call_args,
    ToolCallEndEvent: Transcript._call_end,
    ToolCallResultEvent: Transcript._call_result,
    ToolCallStartEvent: Transcript._call_start,
}
