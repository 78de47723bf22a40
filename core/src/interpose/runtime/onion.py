"""Around hooks of a loop that wrap a stream: the layers around a step or a model call.

The discipline is that of ``around_run`` (:mod:`interpose.runtime.gate`): ``call_next`` once unless
the class says ``may_repeat``, every stream that was handed out is closed, and a failure that came
out of it is not the layer's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from ag_ui.core import BaseEvent

from interpose.errors import MiddlewareError, RepeatAfterOutput
from interpose.loop.event_facts import is_event
from interpose.payloads import ModelRequest
from interpose.runtime.closing import close, close_all, is_over
from interpose.runtime.deadline import Deadline
from interpose.runtime.layer import Frame

if TYPE_CHECKING:
    from interpose.runtime.record import RunRecord

Inner: TypeAlias = Callable[..., AsyncIterator[BaseEvent]]
Stream: TypeAlias = AsyncGenerator[BaseEvent, None]
_END: Final = object()
"""Ends a stream; None does not, it is what an author may yield by mistake."""
_is_request: Final = type.__instancecheck__.__get__(ModelRequest)


def own_deadline(frame: Frame) -> Deadline | None:
    """Return a fresh budget for one call of a hook; calls of one layer may run side by side."""
    seconds = frame.layer.deadline
    return None if seconds is None else Deadline(frame.layer.id, seconds, frame.ctx.clock)


def _elsewhere(deadline: Deadline | None) -> AbstractContextManager[None]:
    return nullcontext() if deadline is None else deadline.paused()


class CallGate:
    """What all gates know: how often ``call_next`` was called, and what it raised.

    ``raised``: by the last call; ``came_out``: by any.
    """

    __slots__ = ("calls", "came_out", "closed", "frame", "hook", "raised")

    def __init__(self, frame: Frame, hook: str) -> None:
        self.frame = frame
        self.hook = hook
        self.calls = 0
        self.closed = False
        self.raised: BaseException | None = None
        self.came_out: tuple[BaseException, ...] = ()

    def passes_on(self, error: BaseException) -> bool:
        """Whether the layer only let through what came out of ``call_next``."""
        return any(error is each for each in self.came_out)

    def check(self) -> None:
        """Check that the layer may call it now, and count the call."""
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
        self.came_out = (*self.came_out, error)


class Around:
    """The layers around one step or one model call, outermost first, and what is inside them.

    ``asked_for``: told which layer changed the model of a request.
    """

    __slots__ = ("_asked_for", "_frames", "_inner", "hook", "record")

    def __init__(
        self,
        record: RunRecord,
        hook: str,
        frames: Sequence[Frame],
        inner: Inner,
        asked_for: dict[str, str],
    ) -> None:
        self.record = record
        self.hook = hook
        self._frames = frames
        self._inner = inner
        self._asked_for = asked_for

    def stream(self, *args: Any) -> AsyncIterator[BaseEvent]:
        """Return what the layers make of the inner part."""
        return self.within(None, *args) if self._frames else self._inner(*args)

    def within(self, outer: StreamGate | None, *args: Any) -> Stream:
        """Return what is inside a layer; it tells ``outer``, the layer's gate, what it raises."""
        index = 0 if outer is None else outer.index + 1
        if index == len(self._frames):
            return self._innermost(outer, args)
        frame = self._frames[index]
        if outer is not None and args and args[0].model != outer.args[0].model:
            self._asked_for[args[0].model] = f"{self.hook} of layer {outer.frame.layer.id!r}"
        layer = frame.layer
        declaration = layer.declaration
        if (
            layer.deadline is None
            and layer.on_failure != "skip"
            and not (declaration.observes_only or declaration.may_repeat)
        ):
            return _plain(StreamGate(self, index, args), outer)
        return _watched(WatchedGate(self, index, args), outer)

    async def _innermost(self, outer: StreamGate | None, args: tuple[Any, ...]) -> Stream:
        source = self._inner(*args)
        try:
            async for event in source:
                yield event
        except Exception as error:
            if outer is not None:
                outer.note(error)
            raise
        finally:
            await close(self.record, source, "the inner call")

    def frame(self, index: int) -> Frame:
        """Return a layer's frame."""
        return self._frames[index]


class StreamGate(CallGate):
    """``call_next`` of ``around_step`` and ``around_model_call``.

    It hands out the inner part as it is: what comes out of that is nobody's to watch.
    """

    __slots__ = ("args", "around", "index", "output", "streams")

    def __init__(self, around: Around, index: int, args: tuple[Any, ...]) -> None:
        super().__init__(around.frame(index), around.hook)
        self.around = around
        self.index = index
        self.args = args
        self.output = False
        """Whether an event has left the layer."""
        self.streams: list[Stream] = []

    def __call__(self, *args: Any) -> AsyncIterator[BaseEvent]:
        """Return the inner part as a stream."""
        self.check_args(args)
        self.check()
        stream = self.inner(*args)
        self.streams.append(stream)
        return stream

    def check_args(self, args: tuple[Any, ...]) -> None:
        """Check what ``call_next`` is given."""
        if len(args) != len(self.args) or not all(map(_is_request, args)):
            wanted = "a ModelRequest" if self.args else "no argument"
            raise MiddlewareError(
                f"call_next of {self.hook} takes {wanted}; layer {self.frame.layer.id!r} gave it "
                f"{', '.join(type(arg).__name__ for arg in args) or 'none'}",
            )

    def inner(self, *args: Any) -> Stream:
        """Return the inner part as the layer is given it."""
        return self.around.within(self, *args)

    def check_end(self) -> None:
        """Check that a layer which has ended gave an outcome."""
        if not self.calls and not self.output:
            raise MiddlewareError(
                f"{self.hook} of layer {self.frame.layer.id!r} neither went on nor gave an outcome",
                hint="yield a message, or end the run: ctx.finish, ctx.interrupt, ctx.abort",
            )

    def begin(self) -> Any:
        """Call the hook, and return the stream that it gives."""
        frame = self.frame
        stream = getattr(frame.instance, self.hook)(frame.ctx, *self.args, self)
        if stream.__class__ is not AsyncGeneratorType and not hasattr(stream, "__anext__"):
            frame.refuse_awaitable(self.hook, stream)
            raise MiddlewareError(
                f"{self.hook} of layer {frame.layer.id!r} returned a {type(stream).__name__}, not "
                "a stream",
                hint="make it an async generator",
            )
        return stream

    def refuse_event(self, event: object) -> NoReturn:
        """Raise for what a layer yielded, and is no event."""
        raise MiddlewareError(
            f"{self.hook} of layer {self.frame.layer.id!r} yielded a {type(event).__name__}",
            hint="yield events of ag_ui.core, one by one",
        )

    async def close(self, stream: object) -> None:
        """Close what the layer was given, then the layer's own stream; both may be over."""
        self.closed = True
        still_open: list[tuple[object, str]] = []
        still_open += ((each, "the inner call") for each in self.streams if not is_over(each))
        if not is_over(stream):
            still_open.append((stream, f"layer {self.frame.layer.id}"))
        if still_open:
            await close_all(self.around.record, *still_open)


class WatchedGate(StreamGate):
    """The gate of a layer that repeats, only observes, may be skipped or has a deadline."""

    __slots__ = ("deadline", "ended", "waiting")

    def __init__(self, around: Around, index: int, args: tuple[Any, ...]) -> None:
        super().__init__(around, index, args)
        self.deadline = own_deadline(self.frame)
        self.ended = False
        """Whether the inner part has given all that it had."""
        layer = self.frame.layer
        keeps = layer.declaration.observes_only or layer.on_failure == "skip"
        self.waiting: deque[BaseEvent] | None = deque() if keeps else None
        """What the layer was given, and has not passed on."""

    def check_args(self, args: tuple[Any, ...]) -> None:
        """Check what ``call_next`` is given."""
        super().check_args(args)
        layer = self.frame.layer
        if layer.declaration.observes_only and args != self.args:
            raise MiddlewareError(
                f"layer {layer.id!r} called call_next with another request, but observes only",
                hint="pass the request on as it is",
            )

    def inner(self, *args: Any) -> Stream:
        """Return the inner part, watched."""
        if self.calls > 1 and self.output and self.args:
            raise RepeatAfterOutput(
                f"layer {self.frame.layer.id!r} repeated a model call after events of the first "
                "had left it",
                hint="hold the events back until the call has succeeded",
            )
        if self.waiting is not None:
            self.waiting.clear()  # of an earlier try
        return self._stream(*args)

    async def _stream(self, *args: Any) -> Stream:
        record = self.around.record
        with _elsewhere(self.deadline):
            await close_all(record, *((each, "the earlier call") for each in self.streams[:-1]))
        source = self.around.within(self, *args)
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
        finally:
            await close(record, source, "the inner call")

    def check_end(self) -> None:
        """Check that a layer has given an outcome, and all of it if it only observes."""
        super().check_end()
        layer = self.frame.layer
        if layer.declaration.observes_only and (self.waiting or not self.ended):
            raise MiddlewareError(
                f"{self.hook} of layer {layer.id!r} ended the stream early, but the middleware "
                "observes only"
            )

    def leaves(self, event: BaseEvent) -> None:
        """Take note that an event leaves the layer; one that only observes changes none."""
        layer = self.frame.layer
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

    async def without_layer(self) -> Stream:
        """Go on past a layer that is skipped, from where the call had come to."""
        if self.raised is not None:
            raise self.raised
        for event in self.waiting or ():
            yield event
        if not self.streams:
            self.streams.append(self._stream(*self.args))
        async for event in self.streams[-1]:
            yield event


async def _plain(gate: StreamGate, outer: StreamGate | None) -> Stream:
    """Yield what a layer makes of the inner part; what it raises fails the run."""
    stream: Any = None
    try:
        stream = gate.begin()
        async for event in _iterated(stream):
            if not is_event(event):
                gate.refuse_event(event)
            gate.output = True
            yield event
        gate.check_end()
    except Exception as error:
        if not gate.passes_on(error):
            gate.frame.blame(gate.hook, error)
        if outer is not None:
            outer.note(error)
        raise
    finally:
        await gate.close(stream)


async def _watched(gate: WatchedGate, outer: StreamGate | None) -> Stream:
    """Yield what a layer makes of the inner part, or the inner part alone when it is skipped."""
    frame, hook = gate.frame, gate.hook
    stream: Any = None
    try:
        try:
            stream = gate.begin()
            while True:
                step = anext(stream, _END)
                event = await (step if gate.deadline is None else gate.deadline.run(step))
                if event is _END:
                    break
                if not is_event(event):
                    gate.refuse_event(event)
                gate.leaves(event)
                yield event
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
    except Exception as error:
        if outer is not None:
            outer.note(error)
        raise
    finally:
        await gate.close(stream)


def _iterated(stream: Any) -> AsyncIterator[Any]:
    """Return what ``async for`` takes; a layer may have given an iterator that it does not."""
    return stream if hasattr(stream, "__aiter__") else _each(stream)


async def _each(stream: Any) -> AsyncIterator[Any]:
    while (event := await anext(stream, _END)) is not _END:
        yield event
