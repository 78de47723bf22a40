"""One model call: its events with ids of their own, and what they come to."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ag_ui.core import (
    BaseEvent,
    EventType,
    ReasoningEndEvent,
    ReasoningMessageEndEvent,
    RunErrorEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from interpose.agui import Expander
from interpose.errors import InvalidStream, described
from interpose.loop.event_facts import instance_check, is_event, value_of
from interpose.loop.ids import FreshIds
from interpose.loop.streams import owned
from interpose.loop_errors import ModelFailed, ModelUnavailable
from interpose.model import FinishReason, ModelFinished

PROVIDER_EXECUTED: Final = "interpose:provider-executed"
"""Metadata of the TOOL_CALL_START of a call that the provider itself has run."""

_NOT_A_MODELS: Final = frozenset(
    {
        EventType.RUN_STARTED,
        EventType.RUN_FINISHED,
        EventType.STEP_STARTED,
        EventType.STEP_FINISHED,
        EventType.MESSAGES_SNAPSHOT,
    }
)

_OPENS: Final[Mapping[EventType, type[BaseEvent]]] = {
    EventType.TEXT_MESSAGE_START: TextMessageEndEvent,
    EventType.REASONING_START: ReasoningEndEvent,
    EventType.REASONING_MESSAGE_START: ReasoningMessageEndEvent,
    EventType.TOOL_CALL_START: ToolCallEndEvent,
}

is_finished: Final = instance_check(ModelFinished)
_is_failure: Final = instance_check(RunErrorEvent)
_is_text: Final = instance_check(TextMessageContentEvent)
_starts_call: Final = instance_check(ToolCallStartEvent)
_is_args: Final = instance_check(ToolCallArgsEvent)
_is_result: Final = instance_check(ToolCallResultEvent)


@dataclass(slots=True)
class WrittenCall:
    """A tool call as the model wrote it. ``text``: its arguments, perhaps no JSON."""

    id: str
    name: str
    parts: list[str] = field(default_factory=list)
    by_provider: bool = False

    @property
    def text(self) -> str:
        """The arguments."""
        return "".join(self.parts)


class Answer:
    """Reads the stream of one model call as it leaves the layers around it.

    ``taken``: ids that the conversation has already; a stream that repeats one (a cached answer)
    gets fresh ones. ``message_id``: the id of the first message. ``text``: of the last message, as
    the model wrote it; ``content``: as the history has it.
    """

    def __init__(self, message_id: str, taken: set[str]) -> None:
        self.calls: list[WrittenCall] = []
        self.finish_reason: FinishReason | None = None
        self.text = ""
        self.content = ""
        self._finished = False
        self._message_id = message_id
        self._ids = FreshIds(taken, message_id)
        self._open: dict[tuple[type[BaseEvent], str], None] = {}
        self._written: dict[str, WrittenCall] = {}
        self._texts: dict[str, list[str]] = {}

    async def read(self, stream: AsyncIterator[BaseEvent]) -> AsyncIterator[BaseEvent]:
        """Yield the events of the call, expanded, with fresh ids, and closed at the end."""
        expander = Expander()
        given = False
        async with owned(stream) as events:
            async for event in events:
                given = True
                if is_finished(event):
                    self.finish_reason, self._finished = event.finish_reason, True
                    continue
                _refuse(event, "a model call")
                for part in expander.push(event):
                    yield self._taken_in(part)
        for part in expander.close():
            yield self._taken_in(part)
        if not self._finished:
            self._check_whole(given=given)
        for end in self._closing():
            yield end
        self._open.clear()
        self.calls = [call for call in self._written.values() if not call.by_provider]
        self.text = "".join(list(self._texts.values())[-1]) if self._texts else ""
        if self.finish_reason is None:
            self.finish_reason = "tool_calls" if self.calls else "stop"

    def _check_whole(self, *, given: bool) -> None:
        """Refuse a stream that stopped without a word in the middle of a call, or at once."""
        if not given:
            raise ModelUnavailable("the model gave nothing")
        if any(kind is ToolCallEndEvent for kind, _ in self._open):
            raise ModelUnavailable("the model's stream ended in the middle of a tool call")

    def _closing(self) -> Sequence[BaseEvent]:
        """Return the ends that the model left out, of what was opened last first."""
        ends: list[BaseEvent] = []
        for kind, ident in reversed(self._open):
            field_name = "tool_call_id" if kind is ToolCallEndEvent else "message_id"
            ends.append(kind.model_validate({field_name: ident}))
        return ends

    def _taken_in(self, event: BaseEvent) -> BaseEvent:
        """Return the event with the ids of this run, and take note of what it says."""
        event = self._ids.renamed(event)
        if _starts_call(event) and event.parent_message_id is None:
            event = event.model_copy(update={"parent_message_id": self._message_id})
        self._note(event)
        return event

    def _note(self, event: BaseEvent) -> None:
        opened = _OPENS.get(event.type)
        ident = str(value_of(event, "tool_call_id") or value_of(event, "message_id") or "")
        if opened is not None:
            self._open[opened, ident] = None
        self._open.pop((type(event), ident), None)
        if event.type is EventType.TEXT_MESSAGE_START:
            self._texts.setdefault(ident, [])
        elif _is_text(event):
            self._texts.setdefault(ident, []).append(event.delta)
        elif _starts_call(event):
            by_provider = bool((event.metadata or {}).get(PROVIDER_EXECUTED))
            self._written[ident] = WrittenCall(ident, event.tool_call_name, by_provider=by_provider)
        elif _is_args(event) and ident in self._written:
            self._written[ident].parts.append(event.delta)
        elif _is_result(event) and ident in self._written:
            self._written[ident].by_provider = True


async def checked(stream: object, model: str) -> AsyncIterator[BaseEvent]:
    """Yield the events of a model; what is none, or not a model's to say, is refused."""
    if not isinstance(stream, AsyncIterable):
        if isinstance(stream, Coroutine):
            stream.close()
        raise InvalidStream(
            f"the model {model!r} gave {described(stream)}, and no stream: its `stream` has to be "
            "an async generator",
            rule="model-stream",
        )
    async for event in stream:
        if not is_event(event):
            raise InvalidStream(
                f"the model {model!r} yielded {described(event)}, and no event of ag_ui.core",
                rule="model-stream",
            )
        _refuse(event, f"the model {model!r}")
        yield event


def _refuse(event: BaseEvent, who: str) -> None:
    """Raise for an event that a model call must not have."""
    if _is_failure(event):
        failed = ModelFailed(event.message)
        failed.code = event.code or failed.code
        raise failed
    if event.type in _NOT_A_MODELS:
        raise InvalidStream(
            f"{who} gave {event.type.value}, which is the loop's to say", rule="model-stream"
        )
