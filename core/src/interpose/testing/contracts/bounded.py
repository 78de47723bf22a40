"""Running a check so that it ends, whatever the middleware does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.hushing import hushed

T = TypeVar("T")

_TURNS: Final = 50
"""Turns of the loop that cancelled tasks get before they are left."""

_LEFT: Final[list[asyncio.Task[Any]]] = []
"""Tasks that would not end: kept, as there is no good moment for them to be collected."""


def run_bounded(look: Callable[[], Awaitable[Finding | None]], seconds: float) -> Finding | None:
    """Run a check in a thread and a loop of its own, and wait at most so long.

    A middleware that swallows its cancellation keeps its task for ever; such a task, and at worst
    the thread, are left behind: they end with the process.
    """
    done: list[Finding | None] = []
    failed: list[BaseException] = []

    def target() -> None:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        kept = _keep_tasks(loop)
        try:
            done.append(loop.run_until_complete(_awaited(look)))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failed.append(error)
        finally:
            _leave(loop)
            _LEFT.extend(kept)
            asyncio.set_event_loop(None)
            loop.close()

    thread = threading.Thread(target=target, name="interpose.testing contract", daemon=True)
    with hushed():
        thread.start()
        thread.join(seconds)
    if thread.is_alive():
        from interpose.testing.contracts.engine import hung

        return hung(seconds)
    if failed:
        raise failed[0]
    return done[0]


def _keep_tasks(loop: asyncio.AbstractEventLoop) -> set[asyncio.Task[Any]]:
    """Hold on to each task until it is done.

    One that waits for what nobody else has is garbage: collected in the middle of a check, its
    cleaning up would run in somebody else's context, and fail there.
    """
    kept: set[asyncio.Task[Any]] = set()

    def make(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        kept.add(task)
        task.add_done_callback(kept.discard)
        return task

    loop.set_task_factory(make)  # type: ignore[arg-type]  # what typeshed asks of generators
    return kept


async def _awaited(look: Callable[[], Awaitable[Finding | None]]) -> Finding | None:
    return await look()


def _leave(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left; what will not go is left behind without a word."""

    async def turns() -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(turns())
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - reported by the check
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
