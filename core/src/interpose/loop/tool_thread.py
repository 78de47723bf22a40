"""Running a sync tool in a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from interpose.loop.tool_context import ToolContext
from interpose.loop_errors import ToolError


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: Any = None
    error: BaseException | None = None


async def in_thread(work: Callable[[], Any], ctx: ToolContext) -> Any:
    """Call ``work`` in a thread that sees the caller's context variables; return what it gives.

    A thread cannot be stopped: one that nobody waits for any more goes on, and what it gives is
    dropped and logged. Threads are not pooled, so that one that hangs takes no place from others,
    and they are daemons, so that it does not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Outcome] = loop.create_future()
    context = contextvars.copy_context()

    def settle(outcome: _Outcome) -> None:
        if not done.done():
            done.set_result(outcome)
        else:
            late(ctx, outcome.error)

    def main() -> None:
        outcome = _outcome(context, work)
        with suppress(RuntimeError):  # the loop is closed: nobody is there to be told
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=main, name=f"tool {ctx.name}", daemon=True).start()
    outcome = await done
    if outcome.error is None:
        return outcome.value
    if isinstance(outcome.error, SystemExit):
        # In a thread it can only be the tool's own: a library that thinks it owns the process.
        raise ToolError(f"The tool {ctx.name!r} tried to end the process.") from outcome.error
    try:
        raise outcome.error
    finally:
        del outcome  # or the traceback refers to itself


def late(ctx: ToolContext, error: BaseException | None) -> None:
    """Log what came of a call after it had been given up, unless that was its own doing."""
    if ctx.has_ended_by(error):
        return
    came = "a result" if error is None else type(error).__name__
    ctx.log.warning("the tool {} gave {} after it was given up; it is dropped", ctx.name, came)


def _outcome(context: contextvars.Context, work: Callable[[], Any]) -> _Outcome:
    try:
        return _Outcome(context.run(work))
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
        return _Outcome(error=error)
