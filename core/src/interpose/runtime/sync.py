"""A host for threads: one background loop that owns the lifespans and drives the runs."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ag_ui.core import BaseEvent

from interpose.errors import UsageError
from interpose.runtime.inputs import Asked
from interpose.runtime.run import Run, RunResult

if TYPE_CHECKING:
    from interpose.host import Host

T = TypeVar("T")


class _Driver:
    """Drives a run in one task of the host's loop, one event each time the thread asks."""

    def __init__(self, run: Run) -> None:
        self.events: queue.SimpleQueue[BaseEvent | None] = queue.SimpleQueue()
        self.wanted = asyncio.Event()
        self._run = run
        self._left = False

    async def drive(self) -> None:
        try:
            async with self._run:
                async for event in self._run:
                    self.events.put(event)
                    await self.wanted.wait()
                    self.wanted.clear()
                    if self._left:
                        return
        finally:
            self.events.put(None)

    def leave(self) -> None:
        """Let go of the run: between two events it is closed, inside one it is cancelled."""
        self._left = True
        self.wanted.set()
        self._run.cancel("the consumer is gone")


class SyncRun:
    """A run for a thread: iterate over its events, or ask for its :meth:`result`."""

    def __init__(self, host: SyncHost, run: Run) -> None:
        self._host = host
        self._run = run

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    def __iter__(self) -> Iterator[BaseEvent]:
        driver = _Driver(self._run)
        future = self._host.start(driver.drive())
        try:
            while (item := driver.events.get()) is not None:
                yield item
                self._host.soon(driver.wanted.set)
            future.result()
        finally:
            self._host.soon(driver.leave)
            self._host.finish(future)

    def result(self) -> RunResult:
        """Return what the run came to; it is run to its end if that has not happened."""
        return self._host.call(_result(self._run))

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run with the cancelled outcome; from any thread."""
        self._host.soon(self._run.cancel, reason)


class SyncHost:
    """A host in a thread of its own. Any number of threads may run agents through it at once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._loop is not None:
            raise UsageError("this host has been entered already", hint="make another Host")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="interpose host", daemon=True
        )
        self._thread.start()
        try:
            self.call(self._host.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.call(self._host.__aexit__(None, None, None))
        finally:
            self._end()

    def run(self, asked: Asked, **options: Any) -> SyncRun:
        """Return a run; the arguments are those of :meth:`Host.run`."""
        return SyncRun(self, self._host.run(asked, **options))

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``work`` on the host's loop."""
        loop = self._loop
        if loop is None or threading.current_thread() is self._thread:
            work.close()
            if loop is None:
                hint = "use `with host.sync() as h:`"
                raise UsageError("this host has not been entered", hint=hint)
            raise UsageError(
                "this host was used from its own thread, which would wait for itself",
                hint="inside the agent and its layers use the Host itself: `await host.run(...)`",
            )
        return asyncio.run_coroutine_threadsafe(work, loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do ``work`` on the host's loop and wait for it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: what nobody waits for any more is not to go on
            raise

    def finish(self, future: Future[None]) -> None:
        """Wait until a run has been left; not when the collector calls on the host's own thread."""
        if threading.current_thread() is not self._thread:
            with contextlib.suppress(Exception, CancelledError):
                future.result()

    def soon(self, function: Any, *args: Any) -> None:
        """Call ``function`` on the host's loop, without waiting."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function, *args)

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _result(run: Run) -> RunResult:
    return await run
