"""``call_next`` of ``around_run``: the discipline of calling, attempts, and the exception face."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, cast

from ag_ui.core import BaseEvent, EventType, RunAgentInput, RunErrorEvent

from interpose.agui import Expander
from interpose.errors import MiddlewareError, RepeatAfterOutput
from interpose.runtime.closing import close, close_all
from interpose.runtime.continuation import Continuation
from interpose.runtime.edge import TERMINALS
from interpose.runtime.going_on import DELTA_CLASSES
from interpose.runtime.layer import Frame

if TYPE_CHECKING:
    from interpose.runtime.pipeline import Pipeline


class Gate:
    """What one ``around_run`` calls to go on with the run.

    ``raised``: the failure that it gave to the layer last; such an exception is not the layer's.
    ``inner_ended``: the terminal of the inner part is what it gave last.
    """

    __slots__ = (
        "_calls",
        "_closed",
        "_continuation",
        "_expander",
        "_frame",
        "_index",
        "_is_plain",
        "_output",
        "_pipeline",
        "_run_input",
        "_started",
        "_streams",
        "_waiting",
        "inner_ended",
        "raised",
    )

    def __init__(
        self, pipeline: Pipeline, index: int, frame: Frame, run_input: RunAgentInput
    ) -> None:
        self._pipeline = pipeline
        self._run_input = run_input
        self._index = index
        self._frame = frame
        self._calls = 0
        self._closed = False
        self._output = False
        self._started = False
        layer = frame.layer
        watched = layer.declaration.observes_only or layer.on_failure == "skip"
        self._waiting: deque[BaseEvent] | None = deque() if watched else None
        self._streams: list[AsyncGenerator[BaseEvent, None]] = []
        self._expander = Expander()
        self._continuation = (
            Continuation(frame.layer.id, run_input)
            if frame.layer.declaration.may_continue
            else None
        )
        self._is_plain = self._waiting is None and self._continuation is None
        self.raised: BaseException | None = None
        self.inner_ended = False

    @property
    def is_idle(self) -> bool:
        """Whether the layer answers by itself: nothing further in gives it events now."""
        return not self._streams or self.inner_ended

    def leaving(self, event: BaseEvent) -> Iterable[BaseEvent]:
        """Return what leaves the layer for an event that its ``around_run`` gave."""
        if event.__class__ in DELTA_CLASSES and self._is_plain and self._expander.idle:
            self._output = True
            return (event,)
        return self._leaving(event)

    def _leaving(self, event: BaseEvent) -> Iterator[BaseEvent]:
        self._match(event)
        for part in self._expander.push(event):
            if part.type is EventType.RUN_STARTED:
                self._started = True
            else:
                self._output = True
            out = part if self._continuation is None else self._continuation.leaves(part)
            if out is not None:
                yield out

    def _match(self, event: BaseEvent) -> None:
        """Note which given event has left: that one, or else the oldest, in a changed form."""
        waiting = self._waiting
        if waiting is None:
            return
        if self._frame.layer.declaration.observes_only and (not waiting or waiting[0] is not event):
            raise MiddlewareError(
                f"around_run of layer {self._frame.layer.id!r} changed the stream, but the "
                f"middleware observes only"
            )
        while waiting and waiting.popleft() is not event:
            if not any(item is event for item in waiting):
                break

    def last(self) -> BaseEvent | None:
        """Return the terminal that was held back for a layer that might have gone on."""
        return None if self._continuation is None else self._continuation.last()

    def __call__(
        self, run_input: RunAgentInput, /, *, continues: bool = False
    ) -> AsyncIterator[BaseEvent]:
        """Return the rest of the run as a stream."""
        layer = self._frame.layer.id
        if self._closed:
            raise MiddlewareError(
                f"layer {layer!r} called call_next after its around_run had ended"
            )
        if not isinstance(run_input, RunAgentInput):
            raise MiddlewareError(
                f"layer {layer!r} called call_next with a {type(run_input).__name__}",
                hint="pass the run_input on, or a changed copy of it",
            )
        if self._frame.layer.declaration.observes_only and run_input is not self._run_input:
            raise MiddlewareError(
                f"layer {layer!r} called call_next with another input, but observes only",
                hint="pass run_input on as it is",
            )
        if continues:
            run_input = self._continued(run_input)
        elif self._calls and not self._frame.layer.declaration.may_repeat:
            raise MiddlewareError(
                f"layer {layer!r} called call_next a second time",
                hint="set may_repeat = True on a middleware that retries",
            )
        elif self._calls and self._output:
            raise RepeatAfterOutput(
                f"layer {layer!r} repeated the run after events of the first attempt had left it",
                hint="hold the events back until the attempt has succeeded",
            )
        self._calls += 1
        stream = self._rest(run_input, self._calls)
        self._streams.append(stream)
        return stream

    def _continued(self, run_input: RunAgentInput) -> RunAgentInput:
        layer = self._frame.layer.id
        if self._continuation is None:
            raise MiddlewareError(
                f"layer {layer!r} called call_next with continues=True",
                hint="set may_continue = True on a middleware that goes on with a run",
            )
        if not self._calls:
            raise MiddlewareError(
                f"layer {layer!r} continues a run that it has not begun",
                hint="call call_next(run_input) first, and iterate over it to its end",
            )
        return self._continuation.goes_on(run_input)

    async def _rest(
        self, run_input: RunAgentInput, attempt: int
    ) -> AsyncGenerator[BaseEvent, None]:
        if self._continuation is not None and self._continuation.over:
            return  # an interrupt or a cancellation ends the run: there is nothing to go on with
        with self._elsewhere():
            source = await self._begin(run_input, attempt)
        inbox = self._frame.inbox
        clocked = self._frame.around_deadline is not None
        try:
            while True:
                if clocked:
                    with self._elsewhere():
                        event = await anext(source, None)
                else:
                    event = await anext(source, None)
                if event is None:
                    return
                if event.__class__ in DELTA_CLASSES and self._is_plain and not inbox:
                    self.inner_ended = False
                    yield event
                    continue
                for given in self._with_emitted(event):
                    if self._admits(given):
                        if self._waiting is not None:
                            self._waiting.append(given)
                        if self._continuation is not None:
                            self._continuation.gives(given)
                        yield given
        finally:
            await close(self._pipeline.record, source, "the inner run")

    def _with_emitted(self, event: BaseEvent) -> Sequence[BaseEvent]:
        """Return the event with what was emitted for a layer whose event hooks did not take it."""
        if not self._frame.inbox or self._pipeline.takes_emitted(self._index):
            return (event,)
        self._frame.queue(event)
        waiting = tuple(self._frame.inbox)
        self._frame.inbox.clear()
        return waiting

    def _elsewhere(self) -> AbstractContextManager[None]:
        """Return a block in which the layer's own clock stands."""
        deadline = self._frame.around_deadline
        return nullcontext() if deadline is None else deadline.paused()

    async def _begin(
        self, run_input: RunAgentInput, attempt: int
    ) -> AsyncGenerator[BaseEvent, None]:
        if attempt > 1:
            earlier = [(stream, "the inner run") for stream in self._streams[: attempt - 1]]
            await close_all(self._pipeline.record, *earlier)
            try:
                await self._pipeline.renew(self._index + 1, attempt)
            except Exception as error:
                self.raised = error
                raise
        return self._pipeline.entering(self._index, run_input)

    def _admits(self, event: BaseEvent) -> bool:
        """Give an event to the layer, or raise the exception that a RUN_ERROR stands for."""
        self.inner_ended = event.type in TERMINALS
        if event.type is EventType.RUN_STARTED:
            return not self._started  # one visible run: the first attempt's has left already
        if event.type is EventType.RUN_ERROR:
            self._pipeline.attempt_ended(self._index + 1, event)
            self.raised = self._pipeline.record.failures.exception(cast("RunErrorEvent", event))
            raise self.raised
        if event.type is EventType.RUN_FINISHED:
            self._pipeline.attempt_ended(self._index + 1, event)
        return True

    async def without_layer(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        """Go on with the run past a layer that is skipped, from where it had come to."""
        if self.raised is not None:
            raise self.raised  # the run had failed before the layer did
        for event in self._waiting or ():
            yield event
        if not self._streams:
            self(run_input)
        async for event in self._streams[-1]:
            yield event

    def close(self) -> Sequence[tuple[AsyncGenerator[BaseEvent, None], str]]:
        """Refuse later calls, and return every stream that was handed out, to be closed."""
        self._closed = True
        return [(stream, "the inner run") for stream in self._streams]
