"""A host that is entered again and again, and the runs that a check drives in it step by step."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from itertools import pairwise
from types import FrameType
from typing import Any, Final

from ag_ui.core import BaseEvent

from interpose.authoring import Layer, Middleware
from interpose.capability import PRINCIPAL
from interpose.runtime.run import Run, RunResult, record_of
from interpose.testing.clocks import FakeClock
from interpose.testing.contracts.loop_models import stand_ins
from interpose.testing.contracts.players import Player
from interpose.testing.contracts.scripts import Script, asked
from interpose.testing.contracts.subject import Person, Subject
from interpose.testing.hosts import KitHost, another, make_host

Layers = Sequence[Layer | type[Middleware[Any, Any]]]

_TURNS: Final = 120
"""Turns of the loop after which a run that gives nothing counts as waiting."""
_NAPS: Final = 200
"""Naps of :data:`_NAP` seconds that what waits gets in the end, for work that threads do."""
_NAP: Final = 0.01
_STEPS: Final = frozenset(
    {"async_generator_asend", "async_generator_athrow", "anext_awaitable", "coroutine_wrapper"}
)
"""What is awaited in a step of a generator, or through ``__await__``."""
_PREFIXES: Final = ("cr", "ag", "gi")
"""Of the attributes of coroutines, and of the two kinds of generators."""


class Bench:
    """A host with the subject's layer, the agent ``player``, and layers outside and inside.

    Each time that it is opened, lifespans begin anew, and ``shared`` with them.
    """

    def __init__(
        self, subject: Subject, player: Player, *, outside: Layers = (), inside: Layers = ()
    ) -> None:
        self.subject = subject
        self.player = player
        layers = [*map(Layer.of, outside), subject.layer(), *map(Layer.of, inside)]
        for outer, inner in pairwise(layers):
            outer.before = (*outer.before, inner.id)
        self._prepared = make_host(
            layers,
            agent=player,
            provide=subject.provide,
            overrides={"host": {"ending_deadline": 1.0}, "models": stand_ins(subject)},
        )

    @asynccontextmanager
    async def opened(self, clock: FakeClock | None = None) -> AsyncIterator[Opened]:
        """Enter a new host; ``clock``: by default one that jumps."""
        time = FakeClock(jump=True) if clock is None else clock
        host = another(self._prepared, strict=False, clock=time)
        async with host:
            opened = Opened(self, host, time)
            try:
                yield opened
            finally:
                await opened.leave()


class Opened:
    """A host that has been entered."""

    def __init__(self, bench: Bench, host: KitHost, clock: FakeClock) -> None:
        self._bench = bench
        self._host = host
        self.clock = clock
        self.driven: list[Driven] = []

    @cached_property
    def shared(self) -> Any:
        """What the subject's lifespan yielded."""
        program = record_of(self._host.run("hi")).program
        return program.layer(self._bench.subject.layer_id).shared

    def run(self, script: Script, **attributes: Any) -> Run[Any]:
        """Make a run that plays a script; nothing of it has begun."""
        player = self._bench.player
        player.scripts[script.run_id] = script
        player.heard.pop(script.run_id, None)
        player.over.discard(script.run_id)
        given: dict[Any, Any] = {}
        if isinstance(self._bench.subject.provide.get(PRINCIPAL), Person):
            given[PRINCIPAL] = Person(subject=script.marker)
        return self._host.run(asked(script.marker), provide=given, attributes=attributes)

    def drive(self, script: Script, **attributes: Any) -> Driven:
        """Begin a run that waits for each step."""
        run = self.run(script, **attributes)
        driven = Driven(run, script.marker)
        self.driven.append(driven)
        return driven

    def heard(self, script: Script) -> list[list[str]]:
        """Return what reached the agent in the run of a script, by attempts and calls."""
        return self._bench.player.heard.get(script.run_id, [])

    async def leave(self) -> None:
        """Cancel what is still driven."""
        for driven in self.driven:
            driven.task.cancel()
        await settled(lambda: all(driven.task.done() for driven in self.driven), naps=0)


class Driven:
    """One run, iterated over in a task of its own, an event at a time."""

    def __init__(self, run: Run[Any], marker: str) -> None:
        self.run = run
        self.record = record_of(run)
        self.marker = marker
        self.events: list[BaseEvent] = []
        self.result: RunResult[Any] | None = None
        self._asked = 0
        self._permits = asyncio.Semaphore(0)
        self._leaving = False
        self.task = asyncio.create_task(self._main(), name=f"the consumer of {marker}")

    @property
    def is_over(self) -> bool:
        """Whether the consumer has got all that it will get."""
        return self.task.done()

    @property
    def waits(self) -> bool:
        """Whether it has been asked for an event that it has not given."""
        return not self.is_over and self._asked > len(self.events)

    def ask(self) -> None:
        """Let it give one more event."""
        self._asked += 1
        self._permits.release()

    async def step(self) -> bool:
        """Ask for an event; False when the run waits for something else."""
        self.ask()
        return await settled(lambda: not self.waits, naps=0)

    async def play(self, most: int | None = None) -> bool:
        """Step to the end, or until ``most`` events are there. False when it does not go on."""
        while not self.is_over and (most is None or len(self.events) < most):
            if not self.waits:
                self.ask()
            if not await settled(lambda: not self.waits):
                return False
        return True

    async def leave(self) -> bool:
        """Be a consumer that goes away; False when the run does not end."""
        self._leaving = True
        self._permits.release()
        return await settled(lambda: self.is_over)

    async def _main(self) -> None:
        stream = aiter(self.run)
        try:
            while True:
                await self._permits.acquire()
                if self._leaving:
                    break
                event = await anext(stream, None)
                if event is None:
                    break
                self.events.append(event)
        finally:
            await self.run.aclose()
        self.result = await self.run


async def settled(is_so: Callable[[], bool], *, turns: int = _TURNS, naps: int = _NAPS) -> bool:
    """Wait until something is so: turns of the loop, then naps for threads to do their work."""
    for _ in range(turns):
        if is_so():
            return True
        await asyncio.sleep(0)
    for _ in range(naps):
        if is_so():
            return True
        await asyncio.sleep(_NAP)
    return is_so()


def where(task: asyncio.Task[Any], files: Iterable[str], *, only: bool = False) -> str:
    """Say where a task waits: in the innermost function of the author's ``files``.

    If it waits in none of them, in the innermost of all; with ``only``, ``""``.
    """
    own = set(files)
    chain = list(_frames(task.get_coro()))
    found = [each for each in chain if each.f_code.co_filename in own]
    if only and not found:
        return ""
    for frame in reversed(found or chain):
        code = frame.f_code
        name = code.co_filename.replace("\\", "/").rpartition("/")[2]
        return f"{code.co_qualname} ({name}, line {frame.f_lineno})"
    return "nowhere"


def _frames(waiting: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of what it awaits, the outermost first."""
    seen: set[int] = set()
    executing = {id(frame) for top in sys._current_frames().values() for frame in _stack(top)}  # noqa: SLF001 - there is no other way
    waiting = _with_frame(waiting)
    while waiting is not None and id(waiting) not in seen:
        seen.add(id(waiting))
        prefix = next((each for each in _PREFIXES if hasattr(waiting, f"{each}_frame")), "")
        frame = getattr(waiting, f"{prefix}_frame", None)
        if id(frame) in executing:
            return  # what it awaits is not to be read now: CPython 3.12.1 crashes
        if frame is not None:
            yield frame
        awaited = "gi_yieldfrom" if prefix == "gi" else f"{prefix}_await"
        waiting = _with_frame(getattr(waiting, awaited, None))


def _stack(top: FrameType | None) -> Iterator[FrameType]:
    while top is not None:
        yield top
        top = top.f_back


def _with_frame(waiting: Any) -> Any:
    """Return the coroutine or generator behind what is awaited.

    The awaitable of a step of an asynchronous generator does not tell whose step it is.
    """
    for each in (waiting, *(gc.get_referents(waiting) if _is_step(waiting) else ())):
        if any(getattr(each, f"{prefix}_frame", None) for prefix in _PREFIXES):
            return each
        if each is not waiting and _is_step(each):
            return _with_frame(each)
    return None


def _is_step(waiting: Any) -> bool:
    return type(waiting).__name__ in _STEPS


def own_files(cls: type) -> list[str]:
    """Return the files of a class and its bases below ``Middleware``."""
    found: dict[str, None] = {}
    for each in cls.__mro__:
        if each.__module__.partition(".")[0] in ("interpose", "builtins", "typing"):
            continue
        with suppress(KeyError, AttributeError):
            file = sys.modules[each.__module__].__file__
            if file:
                found[file] = None
    return list(found)
