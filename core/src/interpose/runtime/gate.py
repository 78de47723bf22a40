"""``call_next`` of ``around_run``: the discipline of calling, attempts, and the exception face."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

from ag_ui.core import BaseEvent, EventType, RunAgentInput, RunErrorEvent

from interpose.errors import MiddlewareError, RepeatAfterOutput
from interpose.runtime.closing import close
from interpose.runtime.layer import Frame

if TYPE_CHECKING:
    from interpose.runtime.pipeline import Pipeline


class Gate:
    """What one ``around_run`` calls to go on with the run.

    ``raised``: the failure that it gave to the layer last; such an exception is not the layer's.
    ``output``: whether events other than RUN_STARTED have left the layer.
    """

    __slots__ = (
        "_calls",
        "_closed",
        "_frame",
        "_index",
        "_pipeline",
        "_streams",
        "output",
        "raised",
        "started",
    )

    def __init__(self, pipeline: Pipeline, index: int, frame: Frame) -> None:
        self._pipeline = pipeline
        self._index = index
        self._frame = frame
        self._calls = 0
        self._closed = False
        self._streams: list[AsyncGenerator[BaseEvent, None]] = []
        self.raised: BaseException | None = None
        self.output = False
        self.started = False

    @property
    def called(self) -> bool:
        """Whether the layer has called ``call_next``."""
        return self._calls > 0

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
        if continues:
            raise MiddlewareError(
                f"layer {layer!r} called call_next with continues=True, which this version of "
                f"Interpose cannot do yet"
            )
        if self._calls and not self._frame.layer.declaration.may_repeat:
            raise MiddlewareError(
                f"layer {layer!r} called call_next a second time",
                hint="set may_repeat = True on a middleware that retries",
            )
        if self._calls and self.output:
            raise RepeatAfterOutput(
                f"layer {layer!r} repeated the run after events of the first attempt had left it",
                hint="hold the events back until the attempt has succeeded",
            )
        self._calls += 1
        stream = self._rest(run_input, self._calls)
        self._streams.append(stream)
        return stream

    async def _rest(
        self, run_input: RunAgentInput, attempt: int
    ) -> AsyncGenerator[BaseEvent, None]:
        deadline = self._frame.deadline
        if deadline is not None:
            deadline.pause()
        try:
            if attempt > 1:
                await self._close_streams(self._streams[: attempt - 1])
                await self._pipeline.renew(self._index + 1, attempt)
            source = self._pipeline.entering(self._index, run_input)
        except Exception as error:
            self.raised = error
            raise
        finally:
            if deadline is not None:
                deadline.resume()
        try:
            while True:
                if deadline is not None:
                    deadline.pause()
                try:
                    event = await source.__anext__()
                except StopAsyncIteration:
                    return
                finally:
                    if deadline is not None:
                        deadline.resume()
                if event.type is EventType.RUN_STARTED and self.started:
                    continue  # one visible run: the first attempt's has left already
                if isinstance(event, RunErrorEvent):
                    self.raised = self._pipeline.record.failures.exception(event)
                    self._pipeline.attempt_ended(self._index + 1, event)
                    raise self.raised
                if event.type is EventType.RUN_FINISHED:
                    self._pipeline.attempt_ended(self._index + 1, event)
                yield event
        finally:
            await close(source, self._pipeline.record.program.ending_deadline, "the inner run")

    async def close(self) -> None:
        """Close every stream that was handed out; later calls are refused."""
        self._closed = True
        await self._close_streams(self._streams)

    async def _close_streams(self, streams: list[AsyncGenerator[BaseEvent, None]]) -> None:
        for stream in streams:
            await close(stream, self._pipeline.record.program.ending_deadline, "the inner run")
