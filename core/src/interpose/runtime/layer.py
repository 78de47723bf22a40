"""A layer that has started, and what one attempt of one run has of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ag_ui.core import BaseEvent, EventType
from pydantic import BaseModel

from interpose.agui import Expander
from interpose.authoring import Declaration, Middleware, OnFailure, Point
from interpose.capability import Capability
from interpose.context import RunContext
from interpose.errors import MiddlewareError, Reject
from interpose.runtime.assembly import Assembler
from interpose.runtime.deadline import Deadline
from interpose.runtime.interruption import nobody_cancelled
from interpose.startup.inspection import MiddlewareFacts

if TYPE_CHECKING:
    from interpose.agui.transcript import Transcript
    from interpose.runtime.record import RunRecord

OBSERVERS = ("on_message", "on_tool_call", "on_usage")


@dataclass(frozen=True, slots=True)
class Handler:
    """The function of a class that takes events of one class."""

    function: Callable[..., Any]
    name: str
    is_async: bool


@dataclass(frozen=True, slots=True, eq=False)
class ActiveLayer:
    """A configured layer whose lifespan has started; shared by all runs, never changed.

    ``strict_observers``: the operator wrote ``on_failure = "fail"``, so isolated hooks count, too.
    ``deadline``: seconds.
    """

    id: str
    cls: type[Middleware[Any, Any]]
    facts: MiddlewareFacts
    settings: BaseModel
    shared: Any
    declaration: Declaration
    on_failure: OnFailure
    strict_observers: bool = False
    deadline: float | None = None
    _handlers: dict[type[BaseEvent], Handler | None] = field(default_factory=dict, repr=False)
    observes: bool = field(init=False)
    """Whether whole messages, calls or usage are assembled for the layer."""
    has_events: bool = field(init=False)
    """Whether something of the layer looks at single events."""
    has_stage: bool = field(init=False)
    """Whether events stop at this layer on their way out."""
    is_expanded: bool = field(init=False)
    """Whether it sees no chunks."""
    run_provides: tuple[Capability[Any], ...] = field(init=False)
    """The capabilities that ``setup`` must give a value."""

    def __post_init__(self) -> None:
        facts, declaration = self.facts, self.declaration
        observes = any(name in facts.hooks for name in OBSERVERS)
        has_events = facts.has_event_hooks or declaration.tracks_state or observes
        found = {
            "observes": observes,
            "has_events": has_events,
            "has_stage": has_events or "around_run" in facts.hooks,
            "is_expanded": declaration.form == "expanded",
            "run_provides": tuple(c for c in declaration.provides if c.scope == "run"),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def handler(self, event: type[BaseEvent]) -> Handler | None:
        """Return what takes events of this class, or None; found once per class."""
        try:
            return self._handlers[event]
        except KeyError:
            return self._handlers.setdefault(event, self._find(event))

    def _find(self, event: type[BaseEvent]) -> Handler | None:
        method = self.facts.on_method(event)
        if method is not None:
            return Handler(getattr(self.cls, method.name), method.name, method.is_async)
        if "on_event" in self.facts.hooks:
            return Handler(self.cls.on_event, "on_event", self.facts.hooks["on_event"])
        return None


_NONE: Middleware[Any, Any] = Middleware()
"""The instance of a layer whose own could not be made, and that is skipped."""


class Frame:
    """One attempt's own instance of a layer, with its context and what it has seen.

    ``skipped``: its first failure has taken it out of the run. ``strict``: whether it is watched
    for changes in place. ``inbox``: events that layers further in have emitted. ``unusual``: where
    it says that it must be looked at before the next event. ``expander``: of the chunks that the
    layer returns, once it has.
    """

    __slots__ = (
        "_record",
        "around_deadline",
        "assembler",
        "ctx",
        "deadline",
        "expander",
        "inbox",
        "instance",
        "layer",
        "skipped",
        "strict",
        "transcript",
        "unusual",
    )

    def __init__(self, layer: ActiveLayer, record: RunRecord, attempt: int) -> None:
        self.layer = layer
        self.ctx = RunContext(record, layer.id, attempt)
        self.instance: Middleware[Any, Any] = _NONE
        self.skipped = False
        self._record = record
        self.strict = record.program.strict
        self.inbox: list[BaseEvent] = []
        self.unusual: set[Any] = record.unusual
        self.expander: Expander | None = None
        self.transcript: Transcript | None = None
        self.assembler: Assembler | None = None
        self.deadline: Deadline | None = None
        self.around_deadline: Deadline | None = None
        if layer.observes:
            reports_usage = Point.MODEL not in record.program.points  # else the loop does
            self.assembler = Assembler(usage=reports_usage)
        seconds = layer.deadline
        if seconds is not None:
            self.deadline = Deadline(layer.id, seconds, record.clock)
            self.around_deadline = Deadline(layer.id, seconds, record.clock)

    def make(self) -> None:
        """Make the run's own instance; a layer that may be skipped is, when that fails."""
        try:
            instance = self.layer.cls()
        except Exception as error:
            if not self.fail("__init__", error):
                raise
            return
        instance.settings = self.layer.settings
        instance.shared = self.layer.shared
        self.instance = instance

    def has(self, hook: str) -> bool:
        """Whether the hook is to be called."""
        return hook in self.layer.facts.hooks and not self.skipped

    async def call(self, hook: str, *args: Any) -> Any:
        """Call a hook of the instance, under the layer's deadline; returns what it returns."""
        try:
            answer = getattr(self.instance, hook)(self.ctx, *args)
            if self.layer.facts.hooks[hook]:
                if self.layer.deadline is None:
                    return await answer
                # One of its own: a loop calls hooks of one layer side by side.
                own = Deadline(self.layer.id, self.layer.deadline, self._record.clock)
                return await own.run(answer)
            self.refuse_awaitable(hook, answer)
        except Exception as error:
            self.blame(hook, error)
            raise
        return answer

    async def within(self, work: Awaitable[Any]) -> Any:
        """Await what an async hook does, under the layer's deadline if it has one."""
        return await (work if self.deadline is None else self.deadline.run(work))

    def refuse_awaitable(self, hook: str, answer: object) -> None:
        """Raise :class:`MiddlewareError` for a coroutine from a hook that is no ``async def``."""
        if not inspect.isawaitable(answer):
            return
        if inspect.iscoroutine(answer):
            answer.close()
        raise MiddlewareError(
            f"{hook} of layer {self.layer.id!r} returned an awaitable, but is no `async def`",
            hint="make the method itself `async def`, also when a decorator wraps it",
        )

    def refuse_change(self, before: object, after: object, what: str) -> None:
        """Raise :class:`MiddlewareError` if the layer changed something in place (strict)."""
        if before is not after and before != after:
            raise MiddlewareError(
                f"layer {self.layer.id!r} changed {what} in place, which every other layer sees",
                hint="return a changed copy: model_copy(update={...})",
            )

    def receive(self, event: BaseEvent) -> None:
        """Take an event that a layer further in emitted."""
        self.inbox.append(event)
        self.unusual.add(self)

    def queue(self, event: BaseEvent) -> None:
        """Put the next event behind what was emitted before it, but RUN_STARTED before all."""
        if event.type is EventType.RUN_STARTED:
            self.inbox.insert(0, event)
        else:
            self.inbox.append(event)

    def review(self) -> None:
        """Say whether something is still to be looked at before the next event."""
        if self.inbox or (self.expander is not None and not self.expander.idle):
            self.unusual.add(self)
        else:
            self.unusual.discard(self)

    def blame(self, hook: str, error: Exception) -> None:
        """Note on an exception which layer it came out of; a refusal explains itself."""
        self._record.failures.blame(error)
        if not isinstance(error, Reject):
            error.add_note(f"in {hook} of layer {self.layer.id!r}")

    async def observe(self, hook: str, *args: Any, ended: bool = False) -> None:
        """Call an isolated hook: its failure is logged, and the run goes on.

        Unless the operator asked for ``on_failure = "fail"`` and the run has not ``ended``.
        """
        try:
            await self.call(hook, *args)
        except Exception as error:
            if not ended and (self.layer.strict_observers or isinstance(error, Reject)):
                raise
            self._record.report(self.layer.id, error, f"{hook} failed")
        except asyncio.CancelledError as error:
            if not (ended and nobody_cancelled()):
                raise
            self._record.report(self.layer.id, error, f"{hook} failed")

    def fail(self, hook: str, error: Exception) -> bool:
        """Take note of a failure; True when the layer is only taken out and the run goes on."""
        if self.layer.on_failure != "skip" or isinstance(error, Reject):
            return False
        self.skipped = True
        said = f"{hook} failed; the layer is skipped for the rest of the run"
        self._record.report(self.layer.id, error, said)
        return True
