"""What a run leaves behind: tasks, generators, counts that do not come back, what holds it."""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import AsyncGeneratorType
from typing import Any, Final

from interpose.testing.contracts.bench import Driven, Opened, own_files, settled, where
from interpose.testing.contracts.reaching import Root, holder, numbers
from interpose.testing.contracts.state_image import StateImage
from interpose.testing.contracts.subject import Subject

_KIT: Final = ("interpose/testing/", "interpose/runtime/", "interpose/live.py")
_NAPS: Final = 20
_IN_A_TASK: Final = "(RuntimeError: aclose(): asynchronous generator is already running)"

_CLOSINGS: Final = (
    "took too long",
    "took longer than",
    "host: closing ",
    "host: ending ",
    "ignores cancellation",
)

Numbers = Mapping[str, float]


Begun = list[weakref.ref[AsyncGeneratorType[Any, Any]]]


@dataclass(slots=True)
class Gauges:
    """Numbers and sizes that change while a run goes on, and come back at a good end.

    ``before``: what they were, by path; ``during``: what else they were.
    """

    before: dict[str, float] = field(default_factory=dict)
    during: dict[str, float] = field(default_factory=dict)

    def learn(self, before: Numbers, during: Sequence[Numbers], after: Numbers) -> None:
        """Take note of what changed in a run that came to a good end, and came back."""
        for path in dict.fromkeys(path for each in (before, *during, after) for path in each):
            start = before.get(path, 0)
            other = next((each[path] for each in during if each.get(path, start) != start), None)
            if other is not None and after.get(path, 0) == start:
                self.before[path], self.during[path] = start, other

    def missed(self, after: Numbers, *, only_numbers: bool = False) -> str:
        """Say which of them has not come back after another end, or return ``""``."""
        for path, start in sorted(self.before.items(), key=lambda item: len(item[0])):
            if only_numbers and path.startswith("len("):
                continue
            now = after.get(path, 0)
            if now != start:
                return (
                    f"{path} is {now:g} afterwards: it was {start:g} before, "
                    f"{self.during[path]:g} while a run went on, and {start:g} again after a "
                    "run that ended well"
                )
        return ""


class Watch:
    """Looks at what runs of an opened host leave behind.

    ``workers``: how many tasks of a name serve all runs, and may stay while the host is there.
    """

    def __init__(
        self, subject: Subject, image: StateImage, opened: Opened, workers: Counter[str]
    ) -> None:
        self.workers = workers
        self._subject = subject
        self._image = image
        self._opened = opened
        self._tasks = asyncio.all_tasks()
        self._files = own_files(subject.cls)

    def roots(self, *, changed: bool = False) -> list[Root]:
        """Return what outlives a run; of class and module perhaps only if something changed."""
        provided = [
            (f"the value of {capability.name}", value)
            for capability, value in self._subject.provide.items()
            if capability.scope == "host"
        ]
        outside = [] if changed and not self._image.changes() else self._image.roots()
        return [("shared", self._opened.shared), *provided, *outside]

    def numbers(self) -> Numbers:
        """Return the numbers and sizes that can be seen now."""
        return numbers(self.roots())

    def holds(self, driven: Driven) -> str:
        """Return what still holds something of a run, or ``""``."""
        frame = driven.record.frames.get(self._subject.layer_id)
        own = [] if frame is None else [frame.instance, frame.ctx]
        return holder(self.roots(changed=True), [*own, driven.record])

    async def tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that have begun and do not end, without the workers."""
        await settled(lambda: not self._left(), naps=0)
        if self._left():
            await settled(lambda: not self._left(), turns=0, naps=_NAPS)
        return self._left()

    def are_workers(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """Take note that these tasks serve all runs: another run has begun no more of them."""
        self.workers.update(map(_name, tasks))

    def told(self, task: asyncio.Task[Any]) -> str:
        """Say which task it is, and where it waits."""
        name = _name(task)
        waits = f"waits in {where(task, self._files)}"
        return f"{name}, which {waits}" if name else f"it {waits}"

    def _left(self) -> list[asyncio.Task[Any]]:
        driven = {each.task for each in self._opened.driven}
        known = self._tasks | driven | {asyncio.current_task()}
        left: list[asyncio.Task[Any]] = []
        workers = Counter(self.workers)
        for task in asyncio.all_tasks() - known:
            if _is_of_the_kit(task):
                continue
            if workers[_name(task)]:
                workers[_name(task)] -= 1
            else:
                left.append(task)
        return left


@asynccontextmanager
async def begun_in(subject: Subject) -> AsyncIterator[Begun]:
    """Collect the asynchronous generators of the author's files that begin in this block."""
    files = set(own_files(subject.cls))
    found: Begun = []
    first, last = sys.get_asyncgen_hooks()

    def begins(generator: Any) -> None:
        if generator.ag_code.co_filename in files:
            found.append(weakref.ref(generator))
        if first is not None:
            first(generator)

    sys.set_asyncgen_hooks(firstiter=begins)
    try:
        yield found
    finally:
        sys.set_asyncgen_hooks(firstiter=first, finalizer=last)


def open_generator(found: Begun) -> str:
    """Return the name of one that is still open, or ``""``."""
    for reference in found:
        generator = reference()
        if generator is not None and generator.ag_frame is not None:
            return generator.__qualname__
    return ""


def told_of_failure(logged: Sequence[str]) -> str:
    """Say what the operator was told of hooks and closings that failed, or return ``""``.

    Not of an inner run that a task of the layer was waiting for when it was closed: the layer is
    closed next, and what it then leaves is looked at.
    """
    for line in logged:
        is_run = line.startswith("ERROR host: run failed") or line.endswith(_IN_A_TASK)
        if line.startswith("ERROR") and not is_run:
            return f"the operator was told: {line.removeprefix('ERROR ')}"
    return ""


def told_of_closing(logged: Sequence[str]) -> str:
    """Say what the operator was told of closings that failed, and of hooks that did not end."""
    lines = [line for line in logged if any(said in line for said in _CLOSINGS)]
    return told_of_failure(lines)


def _name(task: asyncio.Task[Any]) -> str:
    return str(getattr(task.get_coro(), "__qualname__", ""))


def _is_of_the_kit(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    file = "" if code is None else code.co_filename.replace("\\", "/")
    return any(part in file for part in _KIT)
