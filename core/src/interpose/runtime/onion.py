"""Around hooks of a loop: one layer around a step, a model call or a tool call.

The discipline is that of ``around_run`` (:mod:`interpose.runtime.gate`): ``call_next`` once unless
the class says ``may_repeat``, every stream that was handed out is closed, and a failure that came
out of it is not the layer's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ag_ui.core import BaseEvent

from interpose.errors import MiddlewareError, RepeatAfterOutput
from interpose.payloads import ModelRequest, ToolCall, ToolResult
from interpose.runtime.closing import close, close_all
from interpose.runtime.deadline import Deadline
from interpose.runtime.layer import Frame
from interpose.runtime.tool_hooks import own_copy

if TYPE_CHECKING:
    from interpose.runtime.record import RunRecord

Inner: TypeAlias = Callable[..., AsyncIterator[BaseEvent]]
CallTool: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]
_END: Final = object()
"""Ends a stream; None does not, it is what an author may yield by mistake."""


def own_deadline(frame: Frame) -> Deadline | None:
    """Return a fresh budget for one call of a hook; calls of one layer may run side by side."""
    seconds = frame.layer.deadline
    return None if seconds is None else Deadline(frame.layer.id, seconds, frame.ctx.clock)


def _elsewhere(deadline: Deadline | None) -> AbstractContextManager[None]:
    return nullcontext() if deadline is None else deadline.paused()


class _Call:
    """What both gates know: how often ``call_next`` was called, and what it raised.

    ``raised``: by the last call; ``came_out``: by any.
    """

    __slots__ = ("calls", "came_out", "closed", "deadline", "frame", "hook", "raised")

    def __init__(self, frame: Frame, hook: str) -> None:
        self.frame = frame
        self.hook = hook
        self.deadline = own_deadline(frame)
        self.calls = 0
        self.closed = False
        self.raised: BaseException | None = None
        self.came_out: list[BaseException] = []

    def passes_on(self, error: BaseException) -> bool:
        """Whether the layer only let through what came out of ``call_next``."""
        return any(error is each for each in self.came_out)

    def check(self) -> None:
        layer = self.frame.layer
        if self.closed:
            raise MiddlewareError(
                f"layer {layer.id!r} called call_next after its {self.hook} had ended"
            )
        if self.calls and not layer.declaration.may_repeat:
            raise MiddlewareError(
                f"layer {layer.id!r} called call_next of {self.hook} a second time",
                hint="set may_repeat = True on a middleware that retries",
            )
        self.calls += 1
        self.raised = None

    def note(self, error: BaseException) -> None:
        """Take note of what comes out of ``call_next``."""
        self.raised = error
        self.came_out.append(error)


class StreamGate(_Call):
    """``call_next`` of ``around_step`` and ``around_model_call``."""

    __slots__ = ("_args", "_inner", "_record", "ended", "output", "streams", "waiting")

    def __init__(
        self, record: RunRecord, frame: Frame, hook: str, inner: Inner, args: tuple[Any, ...]
    ) -> None:
        super().__init__(frame, hook)
        self._record = record
        self._inner = inner
        self._args = args
        self.output = False
        """Whether an event has left the layer."""
        self.ended = False
        """Whether the inner part has given all that it had."""
        self.streams: list[AsyncGenerator[BaseEvent, None]] = []
        layer = frame.layer
        watched = layer.declaration.observes_only or layer.on_failure == "skip"
        self.waiting: deque[BaseEvent] | None = deque() if watched else None

    def __call__(self, *args: Any) -> AsyncIterator[BaseEvent]:
        """Return the inner part as a stream."""
        layer = self.frame.layer
        if len(args) != len(self._args) or not all(isinstance(arg, ModelRequest) for arg in args):
            wanted = "a ModelRequest" if self._args else "no argument"
            raise MiddlewareError(
                f"call_next of {self.hook} takes {wanted}; layer {layer.id!r} gave it "
                f"{', '.join(type(arg).__name__ for arg in args) or 'none'}",
            )
        if layer.declaration.observes_only and args != self._args:
            raise MiddlewareError(
                f"layer {layer.id!r} called call_next with another request, but observes only",
                hint="pass the request on as it is",
            )
        self.check()
        if self.calls > 1 and self.output and self._args:
            raise RepeatAfterOutput(
                f"layer {layer.id!r} repeated a model call after events of the first had left it",
                hint="hold the events back until the call has succeeded",
            )
        if self.waiting is not None:
            self.waiting.clear()  # of an earlier try
        stream = self._stream(*args)
        self.streams.append(stream)
        return stream

    async def _stream(self, *args: Any) -> AsyncGenerator[BaseEvent, None]:
        with _elsewhere(self.deadline):
            await close_all(
                self._record, *((each, "the earlier call") for each in self.streams[:-1])
            )
        source = self._inner(*args)
        try:
            while True:
                with _elsewhere(self.deadline):
                    event: Any = await anext(source, _END)
                if event is _END:
                    self.ended = True
                    return
                if self.waiting is not None:
                    self.waiting.append(event)
                yield event
        except Exception as error:
            self.note(error)
            raise
        finally:
            await close(self._record, source, "the inner call")

    def check_end(self) -> None:
        """Check that a layer which has ended gave an outcome, and all of it if it only observes."""
        layer = self.frame.layer
        if not self.calls and not self.output:
            raise MiddlewareError(
                f"{self.hook} of layer {layer.id!r} neither went on nor gave an outcome",
                hint="yield a message, or end the run: ctx.finish, ctx.interrupt, ctx.abort",
            )
        if layer.declaration.observes_only and (self.waiting or not self.ended):
            raise MiddlewareError(
                f"{self.hook} of layer {layer.id!r} ended the stream early, but the middleware "
                "observes only"
            )

    def leaves(self, event: object) -> BaseEvent:
        """Check an event that the layer gave, and take note that it leaves."""
        layer = self.frame.layer
        if not isinstance(event, BaseEvent):
            raise MiddlewareError(
                f"{self.hook} of layer {layer.id!r} yielded a {type(event).__name__}",
                hint="yield events of ag_ui.core, one by one",
            )
        waiting = self.waiting
        if waiting is not None:
            if layer.declaration.observes_only and (not waiting or waiting[0] is not event):
                raise MiddlewareError(
                    f"{self.hook} of layer {layer.id!r} changed the stream, but the middleware "
                    "observes only"
                )
            while waiting and waiting.popleft() is not event:
                if not any(item is event for item in waiting):
                    break
        self.output = True
        return event

    async def without_layer(self) -> AsyncIterator[BaseEvent]:
        """Go on past a layer that is skipped, from where the call had come to."""
        if self.raised is not None:
            raise self.raised
        for event in self.waiting or ():
            yield event
        if not self.streams:
            self.streams.append(self._stream(*self._args))
        async for event in self.streams[-1]:
            yield event


async def around_stream(
    record: RunRecord, frame: Frame, hook: str, inner: Inner, *args: Any
) -> AsyncGenerator[BaseEvent, None]:
    """Yield what a layer's ``around_step`` or ``around_model_call`` makes of ``inner``.

    Raises what it raises. A step that gave nothing, and did not go on, raises
    :class:`MiddlewareError`: nobody could tell what came of it.
    """
    gate = StreamGate(record, frame, hook, inner, args)
    stream: Any = None
    try:
        try:
            stream = getattr(frame.instance, hook)(frame.ctx, *args, gate)
            if not hasattr(stream, "__anext__"):
                frame.refuse_awaitable(hook, stream)
                raise MiddlewareError(
                    f"{hook} of layer {frame.layer.id!r} returned a {type(stream).__name__}, not "
                    "a stream",
                    hint="make it an async generator",
                )
            while True:
                step = anext(stream, _END)
                event = await (step if gate.deadline is None else gate.deadline.run(step))
                if event is _END:
                    break
                yield gate.leaves(event)
            gate.check_end()
            return
        except Exception as error:
            if gate.passes_on(error):
                raise
            if not frame.fail(hook, error):
                frame.blame(hook, error)
                raise
        async for event in gate.without_layer():
            yield event
    finally:
        gate.closed = True
        inner_streams = [(each, "the inner call") for each in gate.streams]
        await close_all(record, *inner_streams, (stream, f"layer {frame.layer.id}"))


class ToolGate(_Call):
    """``call_next`` of ``around_tool_call``. ``result``: what the inner part gave last."""

    __slots__ = ("_call", "_inner", "result")

    def __init__(self, frame: Frame, call: ToolCall, inner: CallTool) -> None:
        super().__init__(frame, "around_tool_call")
        self._call = call
        self._inner = inner
        self.result: ToolResult | None = None

    async def __call__(self, call: ToolCall, /) -> ToolResult:
        """Execute the call."""
        if call != self._call:
            raise MiddlewareError(
                f"layer {self.frame.layer.id!r} called call_next with another call",
                hint="pass the call on; arguments change by TransformArgs in on_before_tool_call",
            )
        self.check()
        try:
            with _elsewhere(self.deadline):
                self.result = await self._inner(self._call)
        except Exception as error:
            self.note(error)
            raise
        return self.result


async def around_tool(frame: Frame, inner: CallTool, call: ToolCall) -> ToolResult:
    """Return what a layer's ``around_tool_call`` makes of ``inner``."""
    gate = ToolGate(frame, call, inner)
    try:
        work = frame.instance.around_tool_call(frame.ctx, own_copy(call), gate)
        result: object = await (work if gate.deadline is None else gate.deadline.run(work))
        if not isinstance(result, ToolResult):
            raise MiddlewareError(
                f"around_tool_call of layer {frame.layer.id!r} returned a {type(result).__name__}",
                hint="return a ToolResult",
            )
        if frame.layer.declaration.observes_only and result is not gate.result:
            raise MiddlewareError(
                f"around_tool_call of layer {frame.layer.id!r} changed the result, but the "
                "middleware observes only"
            )
    except Exception as error:
        if gate.passes_on(error):
            raise
        if not frame.fail("around_tool_call", error):
            frame.blame("around_tool_call", error)
            raise
        if gate.raised is not None:
            raise gate.raised from None
        return await inner(call) if gate.result is None else gate.result
    finally:
        gate.closed = True
    return result
