"""Lifespans: one host-owned task enters them in order and leaves them in reverse.

A context manager may hold scopes that belong to the task that entered it, so the same task leaves
it. Each step is bounded; a start that fails tears down what had started.
"""

from __future__ import annotations

import asyncio
import functools
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from interpose.capability import Capability
from interpose.context import LifespanContext
from interpose.errors import CapabilityError, InterposeError, Problem, StartupError
from interpose.logs import bound
from interpose.runtime.interruption import nobody_cancelled
from interpose.services import Clock

if TYPE_CHECKING:
    from loguru import Logger

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """One lifespan: ``label`` names it in messages, ``keep`` takes what it yields."""

    part: str
    label: str
    enter: Callable[[LifespanContext], AbstractAsyncContextManager[Any]]
    keep: Callable[[Any], None]
    provides: tuple[Capability[Any], ...] = ()
    may_read: frozenset[Capability[Any]] = frozenset()


class Lifespans:
    """The lifespans of one host, and the host-scope values that they provide.

    ``scrub`` takes secrets out of other people's messages; deadlines are seconds.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        folder: Path,
        provided: Mapping[Capability[Any], Any],
        startup_deadline: float,
        ending_deadline: float,
        scrub: Callable[[str], str] = str,
    ) -> None:
        self.clock = clock
        self.folder = folder
        self.values: dict[Capability[Any], Any] = dict(provided)
        self._startup_deadline = startup_deadline
        self._ending_deadline = ending_deadline
        self._scrub = scrub
        self._entering: Step | None = None
        self._tasks: dict[str, list[asyncio.Task[Any]]] = {}
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    # The host's side -------------------------------------------------------------------------
    async def start(self, steps: Sequence[Step]) -> None:
        """Enter all lifespans. Raises :class:`StartupError`; then none is left open."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(steps, started), name="interpose lifespans")
        try:
            await asyncio.shield(started)
        except asyncio.CancelledError:
            started.cancel()  # nobody waits for the answer any more
            self._owner.cancel()
            await asyncio.wait([self._owner])
            raise

    async def stop(self) -> None:
        """Leave all lifespans, the last one first."""
        self._stop.set()
        if self._owner is not None:
            await asyncio.wait([self._owner])

    async def _own(self, steps: Sequence[Step], started: asyncio.Future[None]) -> None:
        entered: list[tuple[Step, AbstractAsyncContextManager[Any]]] = []
        problems: Sequence[Problem] = ()
        try:
            for step in steps:
                self._entering = step
                manager, problems = await self._enter(step)
                self._entering = None
                if manager is not None:
                    entered.append((step, manager))
                if problems:
                    break
            else:
                started.set_result(None)
                await self._stop.wait()
        finally:
            for step, manager in reversed(entered):
                await self._leave(step, manager)
            if not started.done():
                lost = Problem("failed-start", "The host was stopped while it started.")
                started.set_exception(StartupError(problems or [lost]))

    async def _enter(
        self, step: Step
    ) -> tuple[AbstractAsyncContextManager[Any] | None, Sequence[Problem]]:
        manager: AbstractAsyncContextManager[Any] | None = None
        scope: asyncio.Timeout | None = None
        try:
            async with asyncio.timeout(self._startup_deadline) as scope:
                entering = step.enter(LifespanContext(self, step.part))
                step.keep(await entering.__aenter__())
                manager = entering
        except StartupError as error:
            return None, error.problems
        except InterposeError as error:
            told = error.problem
            return None, (
                replace(
                    told,
                    message=f"{step.label}: {self._scrub(told.message)}",
                    where=tuple(map(self._scrub, told.where)),
                ),
            )
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not nobody_cancelled():
                raise
            if isinstance(error, TimeoutError) and scope is not None and scope.expired():
                slow = Problem(
                    "slow-start",
                    f"{step.label} did not start within {self._startup_deadline:g} s.",
                    hint="Find out what it waits for, or raise host.startup_deadline.",
                )
                return None, (slow,)
            text = self._scrub(f"{type(error).__name__}: {error}".splitlines()[0])
            failed = Problem(
                "failed-start",
                f"{step.label} could not start: {text.rstrip('.')}.",
                hint="Correct its settings, or what they point to.",
            )
            return None, (failed,)
        missing = [c.name for c in step.provides if c not in self.values]
        if missing:
            lacking = Problem(
                "not-provided",
                f"{step.label} started without providing {', '.join(missing)}.",
                hint="Its lifespan must call ctx.provide(CAPABILITY, value) before it yields.",
            )
            return manager, (lacking,)
        return manager, ()

    async def _leave(self, step: Step, manager: AbstractAsyncContextManager[Any]) -> None:
        for task in self._tasks.pop(step.part, []):
            task.cancel()
            await asyncio.wait([task], timeout=self._ending_deadline)
        try:
            async with asyncio.timeout(self._ending_deadline):
                await manager.__aexit__(None, None, None)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not nobody_cancelled():
                raise
            trace = self._scrub("".join(traceback.format_exception(error)))
            bound(part=step.part).error("{} did not stop well\n{}", step.label, trace)

    # What a lifespan's context stands on -------------------------------------------------------
    def read(self, part: str, capability: Capability[T], /) -> T:
        """Return a host-scope value."""
        self._check_declared(part, capability)
        if capability in self.values:
            return self.values[capability]  # type: ignore[no-any-return]
        raise CapabilityError(
            f"{part!r} read the capability {capability.name!r}, which has no value in a lifespan",
            hint=f"declare it in requires of {part!r}, or read it with ctx.get(...)",
        )

    def find(self, part: str, capability: Capability[T], /) -> T | None:
        """Return a host-scope value, or None."""
        self._check_declared(part, capability)
        return self.values.get(capability)

    def _check_declared(self, part: str, capability: Capability[Any]) -> None:
        step = self._entering
        if step is not None and step.part == part and capability not in step.may_read:
            bound(part=part).warning(
                "{} reads the capability {} without declaring it", part, capability.name
            )

    def offer(self, part: str, capability: Capability[T], value: T, /) -> None:
        """Take a host-scope value from a lifespan that is being entered."""
        step = self._entering
        if step is None or step.part != part or capability not in step.provides:
            raise CapabilityError(
                f"{part!r} provides {capability.name!r} without declaring it, or too late",
                hint="name it in the class attribute provides, and provide it before the yield",
            )
        missing = capability.missing_members(value)
        if missing:
            raise CapabilityError(
                f"{part!r} provides {capability.name!r} with a {type(value).__name__} "
                f"that lacks {', '.join(missing)}"
            )
        self.values[capability] = value

    def start_task(self, part: str, coro: Coroutine[Any, Any, Any], /) -> asyncio.Task[Any]:
        """Start a task that ends with the part's lifespan."""
        task = asyncio.create_task(coro, name=f"task of {part}")
        task.add_done_callback(functools.partial(self._report, part))
        self._tasks.setdefault(part, []).append(task)
        return task

    def _report(self, part: str, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            trace = self._scrub("".join(traceback.format_exception(error)))
            bound(part=part).error("a task of {} failed\n{}", part, trace)

    def log(self, part: str, /) -> Logger:
        """Return a logger bound to the part."""
        return bound(part=part)
