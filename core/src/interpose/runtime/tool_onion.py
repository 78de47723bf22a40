"""Around hooks of a loop that wrap a call: one layer around a tool call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from interpose.errors import MiddlewareError
from interpose.payloads import ToolCall, ToolResult
from interpose.runtime.layer import Frame
from interpose.runtime.onion import CallGate, own_deadline
from interpose.runtime.tool_hooks import own_copy

CallTool: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]


class ToolGate(CallGate):
    """``call_next`` of ``around_tool_call``. ``result``: what the inner part gave last."""

    __slots__ = ("_call", "_inner", "deadline", "given", "result")

    def __init__(self, frame: Frame, call: ToolCall, inner: CallTool) -> None:
        super().__init__(frame, "around_tool_call")
        self.deadline = own_deadline(frame)
        self._call = call
        self._inner = inner
        self.given = call
        """What the layer is given to look at."""
        self.result: ToolResult | None = None

    async def __call__(self, call: ToolCall, /) -> ToolResult:
        """Execute the call."""
        same = call.args == self._call.args if call is self.given else call == self._call
        if not same:
            raise MiddlewareError(
                f"layer {self.frame.layer.id!r} called call_next with another call",
                hint="pass the call on; arguments change by TransformArgs in on_before_tool_call",
            )
        self.check()
        try:
            if self.deadline is None:
                self.result = await self._inner(self._call)
            else:
                with self.deadline.paused():
                    self.result = await self._inner(self._call)
        except Exception as error:
            self.note(error)
            raise
        return self.result


async def around_tool(frame: Frame, inner: CallTool, call: ToolCall) -> ToolResult:
    """Return what a layer's ``around_tool_call`` makes of ``inner``."""
    gate = ToolGate(frame, call, inner)
    try:
        gate.given = own_copy(call)
        work = frame.instance.around_tool_call(frame.ctx, gate.given, gate)
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
