"""Executing one tool call: sync in a thread, async, or a generator; with a timeout."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from functools import partial
from typing import Any, Final

from interpose.errors import UsageError
from interpose.loop.tool_context import PROGRESS, ToolContext
from interpose.loop.tool_results import MARKER, error_result, result_event, result_of
from interpose.loop.tool_thread import in_thread, late
from interpose.loop.tools import LoopTool
from interpose.loop_errors import ToolError
from interpose.payloads import ToolCall, ToolResult

__all__ = [
    "MARKER",
    "PROGRESS",
    "ToolContext",
    "ToolTimeout",
    "error_result",
    "execute",
    "result_event",
]

CLEANUP: Final = 2.0
"""Seconds (of the machine's clock) that a cancelled tool has to clean up before it is left."""


class ToolTimeout(ToolError):
    """A tool call took longer than its timeout. It may have had its effect all the same."""

    code = "tool-timeout"


async def execute(
    tool: LoopTool,
    call: ToolCall,
    ctx: ToolContext,
    *,
    timeout: float | None,  # noqa: ASYNC109 - by the host's clock, which asyncio.timeout is not
) -> ToolResult:
    """Run a tool and return its result. ``call.args`` are validated; ``timeout``: seconds.

    Raises the tool's own exception; :class:`ToolTimeout`, by the host's clock;
    :class:`ToolError` for a result that cannot be one. What is no ``Exception`` passes, also out
    of a thread and out of an exception group. Cancelling it cancels the tool; a thread is left to
    itself.
    """
    if tool.run is None:
        raise UsageError(f"the tool {tool.name!r} is run by the client")
    try:
        values = tool.values(call.args, ctx)
    except ValueError as error:
        raise ToolError(str(error)) from error
    ctx.enter()
    work = asyncio.create_task(_run(tool.run, values, ctx), name=f"tool {tool.name}")
    try:
        value = await _within(work, tool, ctx, timeout)
    except BaseExceptionGroup as group:
        control = next(_control_flow(group), None)
        if control is not None:
            raise control from group
        raise _plain(group, tool.name) from group.__cause__
    finally:
        ctx.leave()
    return result_of(tool, value, ctx)


async def _within(
    work: asyncio.Task[Any], tool: LoopTool, ctx: ToolContext, seconds: float | None
) -> Any:
    """Wait for the work, at most this long by the host's clock; never leave it running."""
    timer = None if seconds is None else asyncio.ensure_future(ctx.clock.sleep(seconds))
    try:
        await asyncio.wait(
            {work} if timer is None else {work, timer}, return_when=asyncio.FIRST_COMPLETED
        )
        if timer is not None and not work.done():
            timer.result()  # a clock that fails is no timeout
    except BaseException:
        await _stop(work, ctx)
        raise
    finally:
        if timer is not None:
            timer.cancel()
    if not work.done():
        await _stop(work, ctx)
        _raise_control_flow(work)
        raise ToolTimeout(_too_long(tool, seconds))
    if work.cancelled():
        raise ToolError(f"The tool {tool.name!r} was cancelled by itself.")
    return work.result()


async def _stop(work: asyncio.Task[Any], ctx: ToolContext) -> None:
    """Cancel the work, and wait a little for it to clean up; then it is left to itself."""
    ctx.leave()
    work.add_done_callback(partial(_ended, ctx))
    work.cancel()
    await asyncio.wait({work}, timeout=CLEANUP)
    if not work.done():
        ctx.log.error("the tool {} ignores its cancellation, and is left behind", ctx.name)


def _ended(ctx: ToolContext, work: asyncio.Task[Any]) -> None:
    if not work.cancelled():
        late(ctx, work.exception())


def _too_long(tool: LoopTool, seconds: float | None) -> str:
    said = f"The tool {tool.name!r} took longer than {seconds:g} s and was given up."
    return said if tool.effect == "read" else f"{said} It may have had its effect all the same."


def _raise_control_flow(work: asyncio.Task[Any]) -> None:
    """Raise what the host has to see, although the call is over: the run was told to end."""
    error = None if not work.done() or work.cancelled() else work.exception()
    if error is not None and not isinstance(error, Exception):
        raise error


def _control_flow(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _control_flow(each)
        elif not isinstance(each, Exception | asyncio.CancelledError | GeneratorExit):
            yield each


def _plain(group: BaseExceptionGroup[BaseException], name: str) -> Exception:
    """Return a group without cancellations that nobody but the tool itself asked for."""
    if isinstance(group, ExceptionGroup):
        return group
    rest = group.subgroup(Exception)
    if isinstance(rest, ExceptionGroup):
        return rest
    return ToolError(f"The tool {name!r} was cancelled by itself.")


async def _run(function: Callable[..., Any], values: dict[str, Any], ctx: ToolContext) -> Any:
    if _is_async(function):
        return await _settled(function(**values), ctx)
    return await _settled(await in_thread(partial(_in_thread, function, values, ctx), ctx), ctx)


async def _settled(value: Any, ctx: ToolContext) -> Any:
    """Return the value itself, or what an awaitable or an async generator comes to."""
    if isinstance(value, AsyncGenerator):
        last = None
        async with aclosing(value):
            async for each in value:
                _report(each, ctx)
                last = each
                await asyncio.sleep(0)  # one that never waits must not keep the others from it
        return last
    return await value if inspect.isawaitable(value) else value


def _in_thread(function: Callable[..., Any], values: dict[str, Any], ctx: ToolContext) -> Any:
    value = function(**values)
    if not isinstance(value, Generator):
        return value
    last = None
    with closing(value):
        while not ctx.is_over:
            try:
                each = next(value)
            except StopIteration as stop:
                return last if stop.value is None else stop.value
            _report(each, ctx)
            last = each
    return None


def _report(value: Any, ctx: ToolContext) -> None:
    """Report what a generator yields, unless it is a finished result."""
    if not isinstance(value, ToolResult):
        ctx.progress(value)


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it only makes a coroutine or an async generator, so that nothing blocks."""
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
