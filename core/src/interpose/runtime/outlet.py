"""The outer edge of a run: what leaves is always a valid AG-UI stream with one terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    CustomEvent,
    EventType,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
)

from interpose.agui import KNOWN_EVENTS, Stripper, Verifier
from interpose.agui.verify import is_open
from interpose.errors import InvalidStream, Reject, TruncatedStream
from interpose.loop_errors import OutputError
from interpose.runtime.control import Fail, Pause, Stop, ending
from interpose.runtime.failure import AGENT_FAILED
from interpose.runtime.output import completed
from interpose.runtime.record import RunRecord

_INNER: Final = KNOWN_EVENTS - {RunStartedEvent, RunFinishedEvent, RunErrorEvent}
"""The classes that neither begin nor end a run."""
_TEXTUAL: Final = _INNER - {CustomEvent}
"""Those that cannot hold its structured output either."""


class Outlet:
    """Checks each event on its way to the consumer.

    ``terminal``: the event that ended the run. ``rejected``: what refused it before its first
    event, if that is how it ended.
    """

    __slots__ = ("_begun", "_inner", "_record", "_verifier", "rejected", "terminal")

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._verifier = Verifier(record.thread_id, record.run_id)
        self._begun = False
        self._inner = _INNER if record.wanted is None else _TEXTUAL
        self.terminal: BaseEvent | None = None
        self.rejected: Reject | None = None

    def push(self, event: BaseEvent) -> Sequence[BaseEvent]:
        """Return what to hand over for ``event``; a violation becomes one RUN_ERROR."""
        if self.terminal is not None:
            self._record.log("host").warning("{} came after the terminal", event.type.value)
            return ()
        try:
            if self._begun and event.__class__ in self._inner:
                self._verifier.check(event)
                return (event,)
            return self._checked(event)
        except InvalidStream as error:
            return self.fail(error)

    def is_open(self, kind: type[BaseEvent], id_: str) -> bool:
        """Whether a message or call is open that deltas of this class add to."""
        return self.terminal is None and is_open(self._verifier, kind, id_)

    def count(self, events: int) -> None:
        """Take note of events that were in order, and were not checked one by one."""
        self._verifier.index += events

    def fail(self, error: BaseException, code: str = AGENT_FAILED) -> Sequence[BaseEvent]:
        """Return the ending of a run that failed outside its layers."""
        return self._checked(self._record.failures.event(error, code))

    def truncated(self) -> Sequence[BaseEvent]:
        """Return the ending of a stream that stopped without a terminal."""
        return self.fail(TruncatedStream("The stream ended without RUN_FINISHED or RUN_ERROR."))

    def _checked(self, event: BaseEvent) -> Sequence[BaseEvent]:
        if event.__class__ not in KNOWN_EVENTS:
            known = Stripper().admit(event)
            if known is None:
                raise InvalidStream(
                    f"{type(event).__name__} is no event of AG-UI.", rule="unknown-event"
                )
            event = known
        if not self._begun:
            ours = self._record.verdict is not None or event.type is EventType.RUN_ERROR
            if ours and event.type is not EventType.RUN_STARTED:
                return self._begin(event)
        if event.type is EventType.RUN_FINISHED or event.type is EventType.RUN_ERROR:
            return self._finish(event)
        self._verifier.check(event)
        self._begun = True
        if event.__class__ is CustomEvent and self._record.wanted is not None:
            return self._output(event)
        return (event,)

    def _output(self, event: BaseEvent) -> Sequence[BaseEvent]:
        """Keep the structured output as the consumer gets it; one that is invalid fails the run."""
        record = self._record
        if record.wanted is not None:
            try:
                found = completed(record.wanted, event)
            except OutputError as error:
                return self.fail(error)
            if found is not None:
                record.output = found[0]
        return (event,)

    def _begin(self, event: BaseEvent) -> Sequence[BaseEvent]:
        """Supply the RUN_STARTED that nobody sent, before an ending of the host's own."""
        record = self._record
        started = RunStartedEvent(
            thread_id=record.thread_id,
            run_id=record.run_id,
            parent_run_id=record.parent_run_id,
            protocol_version=PROTOCOL_VERSION,
        )
        self._begun = True
        if isinstance(event, RunErrorEvent):
            error = record.failures.original(event)
            self.rejected = error if isinstance(error, Reject) else None
        self._verifier.check(started)
        return (started, *self.push(event))  # what follows may be refused; this has been said

    def _finish(self, event: BaseEvent) -> Sequence[BaseEvent]:
        """Close what the host or a failure left open, then the terminal itself."""
        record = self._record
        event = self._as_decided(event)
        may_close = (
            record.verdict is not None
            or record.failures.raised
            or event.type is EventType.RUN_ERROR
        )
        try:
            closing = self._closed() if may_close else []
            self._verifier.check(event)
        except InvalidStream as error:
            if isinstance(record.verdict, Stop):
                event = RunErrorEvent(code="cancelled", message="The run was cancelled.")
            else:
                event = record.failures.event(error, AGENT_FAILED)
            if not self._begun:
                return self._begin(event)
            closing = self._closed()
            self._verifier.check(event)
        self.terminal = event
        return (*closing, event)

    def _as_decided(self, event: BaseEvent) -> BaseEvent:
        """Return the terminal that a cancelled or paused run ends with, whatever came instead.

        A RUN_ERROR without a code gets one.
        """
        record = self._record
        verdict = record.verdict
        if isinstance(verdict, Fail):
            return record.failures.event(verdict.error, AGENT_FAILED)
        if isinstance(verdict, Stop | Pause) and isinstance(event, RunFinishedEvent):
            decided = ending(verdict, record.thread_id, record.run_id)[-1]
            if type(event.outcome) is not type(getattr(decided, "outcome", None)):
                return decided
        if isinstance(event, RunErrorEvent) and event.code is None:
            # As a layer that wraps the run would have made of it.
            return event.model_copy(update={"code": AGENT_FAILED})
        return event

    def _closed(self) -> Sequence[BaseEvent]:
        closing = self._verifier.open_events()
        for event in closing:
            self._verifier.check(event)
        return closing
