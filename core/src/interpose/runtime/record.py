"""What one run is: ids, input, values, verdict. The contexts of its layers stand on it."""

from __future__ import annotations

import asyncio
import traceback
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar
from uuid import uuid4

from ag_ui.core import BaseEvent, Interrupt, Message, RunAgentInput, TokenUsage

from interpose.agui import CHUNKS
from interpose.capability import Capability
from interpose.errors import (
    CapabilityError,
    MiddlewareError,
    Reject,
    RunError,
    UsageError,
    described,
)
from interpose.logs import bound, cause
from interpose.runtime.control import COLLECTOR, EndRun, Fail, Finish, Pause, Stop, Verdict
from interpose.runtime.failure import Failures
from interpose.runtime.interruption import Interruption
from interpose.runtime.loop_hooks import LoopHooks
from interpose.runtime.models import Handle
from interpose.runtime.open_runs import OpenRuns
from interpose.services import Clock, Wanted

if TYPE_CHECKING:
    from loguru import Logger

    from interpose.authoring import Point
    from interpose.model import Model, ModelHandle
    from interpose.runtime.layer import Frame
    from interpose.runtime.program import Program
    from interpose.runtime.tracing import Trace

T = TypeVar("T")
Deferred = tuple[str, Callable[..., Awaitable[None] | None], tuple[Any, ...]]


class RunRecord:
    """The state of one run. Nothing of it is shared with another run."""

    __slots__ = (
        "__weakref__",
        "_closed",
        "_is_closed",
        "_models",
        "_request_id",
        "_stopping",
        "_values",
        "agent",
        "asked",
        "attributes",
        "clock",
        "current",
        "deferred",
        "driver",
        "ended",
        "event_index",
        "failures",
        "frames",
        "input",
        "interruption",
        "loop",
        "metadata",
        "open_runs",
        "outbox",
        "output",
        "parent_run_id",
        "program",
        "rewriting",
        "rewriting_end",
        "rewriting_of",
        "run_id",
        "setting_up",
        "side_usage",
        "started",
        "stream",
        "thread_id",
        "trace",
        "unusual",
        "verdict",
        "verdict_given",
        "wanted",
        "warned",
    )

    def __init__(
        self,
        program: Program,
        run_input: RunAgentInput,
        *,
        clock: Clock,
        provided: Mapping[Capability[Any], Any],
        attributes: Mapping[str, Any],
        metadata: Mapping[str, Any],
        open_runs: OpenRuns,
        trace: Trace | None = None,
        wanted: Wanted | None = None,
    ) -> None:
        self.program = program
        self.run_id = run_input.run_id
        self.thread_id = run_input.thread_id
        self.parent_run_id = run_input.parent_run_id
        self._request_id: str | None = None
        self._stopping: asyncio.Event | None = None
        self.agent = program.agent_id
        self.loop = LoopHooks(self)
        self.wanted = wanted
        self.output: Any = None
        self.event_index = 0
        self.current: BaseEvent | None = None
        self.input = run_input
        self.metadata = dict(metadata)
        self.attributes = dict(attributes)
        self.clock = clock
        self.started = clock.monotonic()
        self.failures = Failures()
        self.verdict: Verdict | None = None
        self.verdict_given = False
        self.frames: dict[str, Frame] = {}
        self.deferred: list[Deferred] = []
        self.outbox: list[BaseEvent] = []
        self.unusual: set[object] = set()
        """What keeps the next event from the short way: a verdict, or something emitted."""
        self.warned: dict[str, None] = {}
        self.setting_up: str | None = None
        self.rewriting: Callable[[AsyncIterator[BaseEvent]], AsyncIterator[BaseEvent]] | None = None
        self.rewriting_end: Callable[[Sequence[BaseEvent]], AsyncIterator[BaseEvent]] | None = None
        self.rewriting_of: Callable[[str, BaseEvent], Awaitable[Sequence[BaseEvent]]] | None = None
        self._closed: asyncio.Event | None = None
        self._is_closed = False
        self.driver: asyncio.Task[Any] | None = None
        self.stream: weakref.ref[AsyncGeneratorType[BaseEvent, None]] | None = None
        self.open_runs = open_runs
        self.interruption = Interruption(program.ending_deadline)
        self.trace = trace
        if trace is not None:
            trace.start(tuple(layer.id for layer in program.layers))
        self.ended = False
        self._values: dict[Capability[Any], Any] = dict(provided)
        self._models: dict[str, Model] = {}
        self.asked: dict[str, str] = {}
        """Who asks which question in the pause that the run comes to: layers by ids."""
        self.side_usage: dict[str, list[TokenUsage]] = {}
        """What layers' own model calls used, by purpose."""

    # Being open ------------------------------------------------------------------------------
    def open(self) -> None:
        """Count as one of the host's open runs. Raises :class:`Reject` (503) when it is full."""
        self.driver = asyncio.current_task()
        self.open_runs.add(self)

    @property
    def is_left_alone(self) -> bool:
        """Whether nobody else will drive the run: its task is this one, or is over."""
        driver = self.driver
        return driver is None or driver.done() or driver is asyncio.current_task()

    def close(self) -> None:
        """No longer count as open; every layer has heard of the end."""
        self.ended = True
        self.open_runs.discard(self)
        self._is_closed = True
        if self._closed is not None:
            self._closed.set()

    async def wait_closed(self) -> None:
        """Wait until it no longer counts as open."""
        if not self._is_closed:
            if self._closed is None:
                self._closed = asyncio.Event()
            await self._closed.wait()

    # What layers see -------------------------------------------------------------------------
    @property
    def request_id(self) -> str:
        """An id that the client cannot choose."""
        if self._request_id is None:
            self._request_id = str(uuid4())
        return self._request_id

    @property
    def phase(self) -> str:
        """Where the run is."""
        return self.loop.position.phase

    @phase.setter
    def phase(self, phase: str) -> None:
        self.loop.position.phase = phase

    @property
    def points(self) -> tuple[Point, ...]:
        """Where the agent lets the host in."""
        return self.program.points

    @property
    def iteration(self) -> int:
        """The pass of the loop."""
        return self.loop.position.iteration

    @property
    def provider(self) -> str | None:
        """The provider of the model being called."""
        return self.loop.position.provider

    @property
    def model(self) -> str | None:
        """The id of the model being called."""
        return self.loop.position.model

    @property
    def cancelled(self) -> bool:
        """Whether the run is being ended from outside or by ``ctx.abort``."""
        return isinstance(self.verdict, Stop | Fail)

    async def until_cancelled(self) -> None:
        """Wait until that is so."""
        if self._stopping is None:
            self._stopping = asyncio.Event()
        while not self.cancelled:
            await self._stopping.wait()

    @property
    def message_id(self) -> str | None:
        """The message that the event at hand belongs to, or that the loop works on."""
        return getattr(self.current, "message_id", None) or self.loop.position.message_id

    @property
    def subagent_run_id(self) -> str | None:
        """The subagent that works, or that the event at hand belongs to."""
        return self.loop.position.subagent_run_id or getattr(self.current, "subagent_run_id", None)

    @property
    def duration(self) -> float:
        """Seconds since the run was made."""
        return self.clock.monotonic() - self.started

    def read(self, layer: str, capability: Capability[T], /) -> T:
        """Return a capability's value."""
        self.program.check_declared(layer, capability)
        for values in (self._values, self.program.values):
            if capability in values:
                return values[capability]  # type: ignore[no-any-return]
        raise CapabilityError(
            f"{layer!r} read the capability {capability.name!r}, which has no value",
            hint=f"declare it in requires of {layer!r}, or read it with ctx.get(...)",
        )

    def find(self, layer: str, capability: Capability[T], /) -> T | None:
        """Return a capability's value, or None."""
        self.program.check_declared(layer, capability)
        return self._values.get(capability, self.program.values.get(capability))

    def offer(self, layer: str, capability: Capability[T], value: T, /) -> None:
        """Take a run-scope value from a layer's setup."""
        if self.setting_up != layer:
            raise UsageError(
                f"layer {layer!r} called ctx.provide outside its setup",
                hint="provide run-scope capabilities in setup",
            )
        if capability not in self.program.layer(layer).run_provides:
            raise CapabilityError(
                f"layer {layer!r} provides {capability.name!r} without declaring it",
                hint="name it in the class attribute provides, with scope='run'",
            )
        missing = capability.missing_members(value)
        if missing:
            raise CapabilityError(
                f"layer {layer!r} provides {capability.name!r} with {described(value)} "
                f"that lacks {', '.join(missing)}",
            )
        self._values[capability] = value

    def provided(self, capability: Capability[Any]) -> bool:
        """Whether this run has the value."""
        return capability in self._values

    def finish(self, layer: str, text: str | None, /) -> NoReturn:
        """End as a success."""
        if text is not None and not isinstance(text, str):
            raise MiddlewareError(
                f"layer {layer!r} called ctx.finish with {described(text)}",
                hint="give it the text of the last message, or nothing",
            )
        self._decide(Finish(layer, text))

    def interrupt(self, layer: str, interrupts: tuple[Interrupt, ...], /) -> NoReturn:
        """End with the interrupt outcome."""
        if not interrupts or not all(isinstance(item, Interrupt) for item in interrupts):
            raise MiddlewareError(
                f"layer {layer!r} called ctx.interrupt without interrupts",
                hint="give it ag_ui.core.Interrupt objects",
            )
        collected = COLLECTOR.get()
        if collected is not None and self.verdict is None:
            for each in interrupts:
                self._ask(layer, each.id)
            collected += interrupts
            raise EndRun
        self._decide(Pause(layer, interrupts))

    def _ask(self, layer: str, question: str) -> None:
        """Take note of a question of this pause; its id has to be its own."""
        other = self.asked.get(question)
        if other is not None:
            raise MiddlewareError(
                f"{layer!r} asks with the id {question!r}, and so does {other!r} in the same pause",
                hint="give each question another key, as the id of its tool call",
            )
        self.asked[question] = layer

    def abort(self, layer: str, reason: str, /) -> NoReturn:
        """End with the cancelled outcome."""
        del layer
        self._decide(Stop(reason, "abort"))

    def _decide(self, verdict: Verdict) -> NoReturn:
        if self.ended:
            raise UsageError(
                "the run has ended, and nothing can end it otherwise",
                hint="call ctx.finish, ctx.interrupt and ctx.abort before the terminal",
            )
        if self.verdict is None:
            self._conclude(verdict)
            self.interruption.strike_from_elsewhere()
        raise EndRun

    def emit(self, layer: str, event: BaseEvent, /) -> None:
        """Put an event into the inbox of the next layer further out that looks at events."""
        if not isinstance(event, BaseEvent):
            raise MiddlewareError(
                f"layer {layer!r} called ctx.emit with {described(event)}",
                hint="give it an event of ag_ui.core",
            )
        if event.__class__ in CHUNKS:
            raise MiddlewareError(
                f"layer {layer!r} called ctx.emit with {described(event)}, which is no whole event",
                hint="emit START, CONTENT and END; what opens and what closes is then certain",
            )
        if self.ended:
            self.log(layer).warning("an event that layer {} emitted came after the terminal", layer)
            return
        outer = self.program.outside(layer, self.frames)
        if outer is None:
            self.outbox.append(event)
            self.unusual.add("outbox")
        else:
            outer.receive(event)

    async def rewrite_of(self, layer: str, event: BaseEvent, /) -> Sequence[BaseEvent]:
        """Return what the layers that rewrite history, further in, make of a layer's event."""
        given: object = event
        if not isinstance(given, BaseEvent) or given.__class__ in CHUNKS:
            raise MiddlewareError(
                f"layer {layer!r} called ctx.rewrite with {described(event)}",
                hint="give it a whole event of ag_ui.core",
            )
        if self.rewriting_of is None:
            return (event,)
        return await self.rewriting_of(layer, event)

    def rewrite(self, events: AsyncIterator[BaseEvent], /) -> AsyncIterator[BaseEvent]:
        """Return what the layers inside the history cut make of the agent's events."""
        if self.rewriting is None:
            raise UsageError(
                f"agent {self.agent!r} called ctx.rewrite, but does not offer HISTORY",
                hint="set points = (Point.RUN, Point.EVENTS, Point.HISTORY) on the agent",
            )
        return self.rewriting(events)

    def model_of(self, model: str, /) -> Model:
        """Return a model by its id; one of run scope is made once in a run."""
        if model not in self._models:
            self._models[model] = self.program.model(model)
        return self._models[model]

    def handle_of(self, layer: str, model: str, /) -> ModelHandle:
        """Return a model for a layer's own calls."""
        return Handle(self, layer, model)

    def defer(
        self, layer: str, fn: Callable[..., Awaitable[None] | None], args: tuple[Any, ...], /
    ) -> None:
        """Keep a function for after the terminal hooks."""
        self.deferred.append((layer, fn, args))

    def messages(self, layer: str, /) -> tuple[Message, ...]:
        """Return the conversation as the layer receives it."""
        return tuple(self._transcript(layer).messages)

    def state(self, layer: str, /) -> Any:
        """Return the state as the layer receives it."""
        return self._transcript(layer).state

    def _transcript(self, layer: str) -> Any:
        frame = self.frames.get(layer)
        if frame is None or frame.transcript is None:
            raise UsageError(
                f"layer {layer!r} read ctx.messages or ctx.state, which are not kept for it",
                hint="set tracks_state = True on the middleware",
            )
        return frame.transcript

    def log(self, layer: str, /) -> Logger:
        """Return a logger bound to run and layer."""
        return bound(
            request=self.request_id,
            run=self.run_id,
            thread=self.thread_id,
            agent=self.agent,
            layer=layer,
        )

    def report(self, layer: str, error: BaseException, said: str) -> None:
        """Log a failure for the operator, without any known secret; the traceback at DEBUG."""
        log = self.log(layer).opt(depth=1)
        scrub = self.program.scrub
        log.error("{}: {} ({})", layer, said, scrub(cause(error)))
        log.debug("{}", scrub("".join(traceback.format_exception(error))))

    def report_refusal(self, refusal: Reject) -> None:
        """Log that the run was refused: no failure, as what the client asked was not taken."""
        said = self.program.scrub(refusal.message)
        self.log("host").opt(depth=1).warning("host: run refused: {} ({})", refusal.code, said)

    # Cancellation ----------------------------------------------------------------------------
    def cancel(
        self, reason: str, cause: Literal["cancelled", "consumer-gone"] = "cancelled"
    ) -> None:
        """Stop the run: at once if it awaits its agent, otherwise at the next step."""
        self._stop(Stop(reason, cause))

    def fail(self, error: RunError) -> None:
        """Stop the run in the same way, but for a failure outside it: it ends with ``error``."""
        self._stop(Fail(error))

    def _stop(self, verdict: Verdict) -> None:
        if self.verdict is None and not self.ended:
            self._conclude(verdict)
            self.interruption.strike()

    def _conclude(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.unusual.add("verdict")
        if self._stopping is not None and self.cancelled:
            self._stopping.set()

    def force(self) -> None:
        """Interrupt the run whatever it awaits, if it is being driven: a layer that hangs, too."""
        stream = None if self.stream is None else self.stream()
        driver = self.driver
        if self.ended or stream is None or driver is None or driver.done():
            return
        if stream.ag_running:
            self.interruption.force(driver)

    def absorb_cancel(self) -> bool:
        """Undo our own cancellation of the task; True when nobody else cancelled it as well."""
        return self.interruption.absorb()
