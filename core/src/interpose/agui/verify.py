"""Verification: whether a stream of whole events keeps the order that AG-UI prescribes.

Rules: AG-UI 1.1, processing, "Verification", and run-input, "Identity". Each violation carries
one of these rules:

``first-event``      the stream begins with something else than RUN_STARTED or RUN_ERROR
``run-active``       RUN_STARTED inside a run
``run-finished``     an event after RUN_FINISHED (a late RUN_ERROR is allowed)
``run-errored``      an event after RUN_ERROR
``already-open``     a START of something that is open
``not-open``         a CONTENT, ARGS, END or FINISHED of something that is not open
``open-at-finish``   RUN_FINISHED before everything was closed (RUN_ERROR needs nothing closed)
``owner``            a continuation that names another subagent than its opener
``subagent``         a subagent that ran before, or whose parent never ran
``identity``         a thread or run id that is not this run's
``chunk``            a chunk: expansion comes before verification
``unknown-event``    an event of no known class: enforcement comes before verification
"""

# ruff: noqa: SLF001 - the dispatch table below the class names the class's own methods

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from interpose.agui.catalogue import KNOWN_EVENTS
from interpose.agui.expansion import CHUNKS
from interpose.agui.tracking import Opened, Owners, quote
from interpose.errors import InvalidStream, TruncatedStream


class _Phase(Enum):
    BEFORE = "before"
    ACTIVE = "active"
    FINISHED = "finished"
    ERRORED = "errored"


_NOTHING: Final = Opened(None)
"""What is open before a run: never changed, as nothing is checked against it."""


class Verifier:
    """Checks one stream, which may hold several runs one after another.

    ``thread_id`` and ``run_id``: the ids of the input; when given, RUN_STARTED and RUN_FINISHED
    must carry them (a second run on the stream has the same thread and its own run id).
    ``index``: number of the event checked last, from 0.

    A refused event changes nothing, so :meth:`open_events` still says how to end the run.
    """

    __slots__ = ("_phase", "_run", "_run_id", "_thread_id", "index")

    def __init__(self, thread_id: str | None = None, run_id: str | None = None) -> None:
        self.index = -1
        self._thread_id = thread_id
        self._run_id = run_id
        self._phase = _Phase.BEFORE
        self._run = _NOTHING

    def check(self, event: BaseEvent) -> None:
        """Raise InvalidStream if ``event`` may not come next; see the module for the rules."""
        self.index += 1
        if self._phase is not _Phase.ACTIVE:
            self._check_between_runs(event)
        check = _CHECKS.get(event.__class__)
        if check is not None:
            check(self, event)
        elif event.__class__ not in _UNORDERED:
            self._refuse_class(event)

    def finish(self) -> None:
        """Raise TruncatedStream if the stream may not end here."""
        if self._phase is _Phase.ACTIVE:
            raise TruncatedStream(
                "The stream ended without RUN_FINISHED or RUN_ERROR."
                + _listing(" Still open: ", self._run.names())
            )
        if self._phase is _Phase.BEFORE:
            raise TruncatedStream("The stream is empty: it ended without RUN_STARTED.")

    def open_events(self) -> list[BaseEvent]:
        """Return the events that close what is open now, innermost first.

        Each carries its owner's ``subagent_run_id``. An open subagent is closed with
        SUBAGENT_ERROR: to say that it finished would report a success that never was.
        """
        return self._run.closing_events() if self._phase is _Phase.ACTIVE else []

    def resume(self, event: BaseEvent, rule: str) -> None:
        """After ``event`` was refused by ``rule``: go where its producer seems to be.

        For readers of recordings, who want the violations that follow too. A misplaced RUN_STARTED
        starts a run, a RUN_FINISHED ends it, and a missing RUN_STARTED is taken as said (then
        ``event`` is checked again, and may raise); anything else that was refused is left out.
        """
        if isinstance(event, RunStartedEvent):
            self._begin(event)
        elif rule == "first-event":
            self._begin(None)
            self.index -= 1
            self.check(event)
        elif isinstance(event, RunFinishedEvent) and rule in {"identity", "open-at-finish"}:
            self._phase = _Phase.FINISHED

    # -- the run -----------------------------------------------------------------------------------

    def _check_between_runs(self, event: BaseEvent) -> None:
        kind = event.__class__
        if kind is RunStartedEvent or (kind is RunErrorEvent and self._phase is not _Phase.ERRORED):
            return
        if self._phase is _Phase.BEFORE:
            raise self._violation(
                "first-event", f"The first event is {_name(event)}, not RUN_STARTED."
            )
        terminal = "RUN_FINISHED" if self._phase is _Phase.FINISHED else "RUN_ERROR"
        raise self._violation(
            f"run-{self._phase.value}", f"{_name(event)} came after {terminal} had ended the run."
        )

    def _run_started(self, event: RunStartedEvent) -> None:
        if self._phase is _Phase.ACTIVE:
            raise self._violation("run-active", "RUN_STARTED came while a run was active.")
        self._check_identity("RUN_STARTED", "thread", event.thread_id, self._thread_id)
        self._check_identity("RUN_STARTED", "run", event.run_id, self._run_id)
        self._begin(event)

    def _begin(self, started: RunStartedEvent | None) -> None:
        self._run = Opened(started)
        self._run_id = None  # a second run on this stream has an id of its own
        self._phase = _Phase.ACTIVE

    def _run_finished(self, event: RunFinishedEvent) -> None:
        self._check_identity("RUN_FINISHED", "thread", event.thread_id, self._run.thread_id)
        self._check_identity("RUN_FINISHED", "run", event.run_id, self._run.run_id)
        if self._run.is_anything_open:
            still_open = self._run.names()
            raise self._violation(
                "open-at-finish", _listing("RUN_FINISHED came while these were open: ", still_open)
            )
        self._phase = _Phase.FINISHED

    def _run_error(self, event: RunErrorEvent) -> None:  # noqa: ARG002 - the shape of a check
        self._phase = _Phase.ERRORED

    def _check_identity(self, event: str, what: str, given: str, expected: str | None) -> None:
        if expected is not None and given != expected:
            raise self._violation(
                "identity",
                f"{event} has {what} id {quote(given)}, not this run's {quote(expected)}.",
            )

    # -- messages, calls, reasoning ----------------------------------------------------------------

    def _text_start(self, event: TextMessageStartEvent) -> None:
        run = self._run
        self._open(event, "text message", event.message_id, run.texts, run.message_owners)

    def _text_content(self, event: TextMessageContentEvent) -> None:
        if event.message_id not in self._run.texts or event.subagent_run_id is not None:
            run = self._run
            self._continue(event, "text message", event.message_id, run.texts, run.message_owners)

    def _text_end(self, event: TextMessageEndEvent) -> None:
        run = self._run
        self._continue(event, "text message", event.message_id, run.texts, run.message_owners)
        del run.texts[event.message_id]

    def _call_start(self, event: ToolCallStartEvent) -> None:
        run = self._run
        if event.tool_call_id in run.calls:
            raise self._already_open(event, "tool call", event.tool_call_id)
        owner, parent = event.subagent_run_id, event.parent_message_id
        if parent is not None and parent in run.message_owners:
            holder = run.message_owners[parent]
            if owner is not None and owner != holder:
                raise self._other_owner(event, "its parent message", parent, holder)
            # A call has no owner field: untagged, it belongs to the message that carries it.
            owner = holder
        if event.tool_call_id in run.call_owners:
            known = run.call_owners[event.tool_call_id]
            if owner != known and (
                event.subagent_run_id is not None or parent in run.message_owners
            ):
                raise self._other_owner(event, "tool call", event.tool_call_id, known)
        else:
            run.call_owners[event.tool_call_id] = owner
        run.calls[event.tool_call_id] = run.opening()

    def _call_args(self, event: ToolCallArgsEvent) -> None:
        if event.tool_call_id not in self._run.calls or event.subagent_run_id is not None:
            run = self._run
            self._continue(event, "tool call", event.tool_call_id, run.calls, run.call_owners)

    def _call_end(self, event: ToolCallEndEvent) -> None:
        run = self._run
        self._continue(event, "tool call", event.tool_call_id, run.calls, run.call_owners)
        del run.calls[event.tool_call_id]

    def _call_result(self, event: ToolCallResultEvent) -> None:
        # Whoever executes a call may differ from who made it, so the result owns its message.
        self._run.message_owners[event.message_id] = event.subagent_run_id

    def _reasoning_start(self, event: ReasoningMessageStartEvent) -> None:
        run = self._run
        self._open(
            event, "reasoning message", event.message_id, run.reasoning, run.reasoning_owners
        )

    def _reasoning_content(self, event: ReasoningMessageContentEvent) -> None:
        if event.message_id not in self._run.reasoning or event.subagent_run_id is not None:
            run = self._run
            owners = run.reasoning_owners
            self._continue(event, "reasoning message", event.message_id, run.reasoning, owners)

    def _reasoning_end(self, event: ReasoningMessageEndEvent) -> None:
        run = self._run
        owners = run.reasoning_owners
        self._continue(event, "reasoning message", event.message_id, run.reasoning, owners)
        del run.reasoning[event.message_id]

    def _span_start(self, event: ReasoningStartEvent) -> None:
        run = self._run
        self._open(event, "reasoning span", event.message_id, run.spans, run.reasoning_owners)

    def _span_end(self, event: ReasoningEndEvent) -> None:
        run = self._run
        self._continue(event, "reasoning span", event.message_id, run.spans, run.reasoning_owners)
        del run.spans[event.message_id]

    def _encrypted_value(self, event: ReasoningEncryptedValueEvent) -> None:
        run = self._run
        if event.subtype == "tool-call":
            self._agree(event, "tool call", event.entity_id, run.call_owners)
        elif event.entity_id in run.message_owners:
            self._agree(event, "message", event.entity_id, run.message_owners)
        else:
            self._agree(event, "message", event.entity_id, run.reasoning_owners)

    def _open(
        self, event: Any, noun: str, id_: str, opened: dict[str, int], owners: Owners
    ) -> None:
        if id_ in opened:
            raise self._already_open(event, noun, id_)
        self._agree(event, noun, id_, owners)
        # An untagged reopening agrees with any owner, and must not take the id away from it.
        owners.setdefault(id_, event.subagent_run_id)
        opened[id_] = self._run.opening()

    def _continue(
        self, event: Any, noun: str, id_: str, opened: dict[str, int], owners: Owners
    ) -> None:
        if id_ not in opened:
            raise self._violation("not-open", f"{_name(event)}: no {noun} {quote(id_)} is open.")
        self._agree(event, noun, id_, owners)

    def _agree(self, event: Any, noun: str, id_: str, owners: Owners) -> None:
        tag = event.subagent_run_id
        if tag is not None and id_ in owners and owners[id_] != tag:
            raise self._other_owner(event, noun, id_, owners[id_])

    # -- steps, subagents, history -----------------------------------------------------------------

    def _step_started(self, event: StepStartedEvent) -> None:
        key = (event.subagent_run_id, event.step_name)
        if key in self._run.steps:
            raise self._already_open(event, "step", event.step_name)
        self._run.steps[key] = self._run.opening()

    def _step_finished(self, event: StepFinishedEvent) -> None:
        key = (event.subagent_run_id, event.step_name)
        if key not in self._run.steps:
            for owner, name in self._run.steps:
                if name == event.step_name:
                    raise self._other_owner(event, "step", name, owner)
            raise self._violation(
                "not-open", f"STEP_FINISHED: no step {quote(event.step_name)} is open."
            )
        del self._run.steps[key]

    def _subagent_started(self, event: SubagentStartedEvent) -> None:
        run, id_, parent = self._run, event.subagent_run_id, event.parent_subagent_run_id
        if id_ in run.subagents:
            raise self._already_open(event, "subagent", id_)
        if id_ in run.closed_subagents:
            raise self._violation(
                "subagent",
                f"SUBAGENT_STARTED: subagent {quote(id_)} has ended in this run; each invocation "
                "needs an id of its own.",
            )
        if (
            parent is not None
            and parent not in run.subagents
            and parent not in run.closed_subagents
        ):
            raise self._violation(
                "subagent", f"SUBAGENT_STARTED: parent subagent {quote(parent)} was never started."
            )
        run.subagents[id_] = run.opening()

    def _subagent_ended(self, event: SubagentFinishedEvent | SubagentErrorEvent) -> None:
        run, id_ = self._run, event.subagent_run_id
        if id_ not in run.subagents:
            raise self._violation(
                "not-open", f"{_name(event)}: no subagent {quote(id_)} is active."
            )
        del run.subagents[id_]
        run.closed_subagents[id_] = None

    def _messages_snapshot(self, event: MessagesSnapshotEvent) -> None:
        self._run.seed(event.messages, overwrite=True)

    def _activity_snapshot(self, event: ActivitySnapshotEvent) -> None:
        owners = self._run.activity_owners
        if event.message_id not in owners or event.replace is not False:
            owners[event.message_id] = event.subagent_run_id

    def _activity_delta(self, event: ActivityDeltaEvent) -> None:
        self._agree(event, "activity", event.message_id, self._run.activity_owners)

    # -- refusals ----------------------------------------------------------------------------------

    def _violation(self, rule: str, message: str) -> InvalidStream:
        return InvalidStream(message, rule=rule, index=self.index)

    def _already_open(self, event: BaseEvent, noun: str, id_: str) -> InvalidStream:
        return self._violation(
            "already-open", f"{_name(event)}: {noun} {quote(id_)} is already open."
        )

    def _other_owner(self, event: Any, noun: str, id_: str, owner: str | None) -> InvalidStream:
        return self._violation(
            "owner",
            f"{_name(event)} of {_who(event.subagent_run_id)}: {noun} {quote(id_)} belongs to "
            f"{_who(owner)}.",
        )

    def _refuse_class(self, event: BaseEvent) -> None:
        if event.__class__ in CHUNKS:
            raise self._violation("chunk", f"{_name(event)} must be expanded before verification.")
        raise self._violation(
            "unknown-event", f"{event.__class__.__name__} is not an event class of AG-UI."
        )


def is_open(verifier: Verifier, kind: type[BaseEvent], id_: str) -> bool:
    """Whether the message or call that deltas of a class add to is open."""
    if verifier._phase is not _Phase.ACTIVE:
        return False
    run = verifier._run
    if kind is ToolCallArgsEvent:
        return id_ in run.calls
    return id_ in (run.texts if kind is TextMessageContentEvent else run.reasoning)


_CHECKS: Final[Mapping[type[BaseEvent], Callable[[Verifier, Any], None]]] = {
    ActivityDeltaEvent: Verifier._activity_delta,
    ActivitySnapshotEvent: Verifier._activity_snapshot,
    MessagesSnapshotEvent: Verifier._messages_snapshot,
    ReasoningEncryptedValueEvent: Verifier._encrypted_value,
    ReasoningEndEvent: Verifier._span_end,
    ReasoningMessageContentEvent: Verifier._reasoning_content,
    ReasoningMessageEndEvent: Verifier._reasoning_end,
    ReasoningMessageStartEvent: Verifier._reasoning_start,
    ReasoningStartEvent: Verifier._span_start,
    RunErrorEvent: Verifier._run_error,
    RunFinishedEvent: Verifier._run_finished,
    RunStartedEvent: Verifier._run_started,
    StepFinishedEvent: Verifier._step_finished,
    StepStartedEvent: Verifier._step_started,
    SubagentErrorEvent: Verifier._subagent_ended,
    SubagentFinishedEvent: Verifier._subagent_ended,
    SubagentStartedEvent: Verifier._subagent_started,
    TextMessageContentEvent: Verifier._text_content,
    TextMessageEndEvent: Verifier._text_end,
    TextMessageStartEvent: Verifier._text_start,
    ToolCallArgsEvent: Verifier._call_args,
    ToolCallEndEvent: Verifier._call_end,
    ToolCallResultEvent: Verifier._call_result,
    ToolCallStartEvent: Verifier._call_start,
}

_UNORDERED: Final[frozenset[type[BaseEvent]]] = KNOWN_EVENTS - _CHECKS.keys() - CHUNKS


def _name(event: BaseEvent) -> str:
    return event.type.value


def _who(owner: str | None) -> str:
    return "the run itself" if owner is None else f"subagent {quote(owner)}"


_MOST_LISTED = 10


def _listing(start: str, items: list[str]) -> str:
    if not items:
        return ""
    more = len(items) - _MOST_LISTED
    return start + ", ".join(items[:_MOST_LISTED]) + (f" and {more} more." if more > 0 else ".")
