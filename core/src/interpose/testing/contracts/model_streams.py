"""How the stream of a model ends: closed, cancelled, beside another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
)

from interpose.loop.modelcall import checked
from interpose.model import Model, ModelContext
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import difference, fold
from interpose.testing.contracts.model_calling import asked, play, with_model
from interpose.testing.contracts.parts import USE, ModelSubject
from interpose.testing.contracts.remaining import Leftovers

_MOST_STOPS: Final = 12


async def closes(subject: ModelSubject) -> Finding | None:
    """Close the stream after each of its first events."""

    async def work(model: Model, context: Callable[[], ModelContext]) -> Finding | None:
        for stop in range(_MOST_STOPS):
            before = Leftovers()
            stream = _opened(model.stream(asked(subject), context()))
            if not hasattr(stream, "aclose"):
                return Finding("its stream cannot be closed: it has no aclose", CLOSED)
            taken = [event async for event in _first(stream, stop)]
            try:
                await stream.aclose()
            except Exception as error:  # noqa: BLE001 - a model may raise anything
                return Finding(f"closed after {stop} events, it raises {error!r}", CLOSED)
            left = await before.told()
            if left:
                return Finding(f"closed after {stop} events, {left}", CLOSED)
            if len(taken) < stop:
                return None
        return None

    return await with_model(subject, work)


CLOSED: Final = "closing the stream ends the call, and all that belongs to it"
"""What is expected of a stream that is closed."""


def _opened(stream: Any) -> Any:
    """Return a stream; what is none is told by the check of answers."""
    if isinstance(stream, Coroutine):
        stream.close()
        raise TypeError
    return stream


async def _first(stream: AsyncIterator[BaseEvent], count: int) -> AsyncIterator[BaseEvent]:
    for _ in range(count):
        try:
            yield await anext(stream)
        except StopAsyncIteration:
            return


async def cancels(subject: ModelSubject) -> Finding | None:
    """Cancel the task that reads the stream, after each of its first events."""

    async def work(model: Model, context: Callable[[], ModelContext]) -> Finding | None:
        for stop in range(1, _MOST_STOPS):
            before = Leftovers()
            stream = _opened(model.stream(asked(subject), context()))
            reading = asyncio.ensure_future(_read(stream, stop))
            await asyncio.wait([reading])
            said = await before.told() or _went_on(reading, stop)
            if said:
                return Finding(f"cancelled after {stop} events, {said}", _CANCELLED)
            if not reading.cancelled():
                return None  # it had fewer events
        return None

    return await with_model(subject, work)


async def _read(stream: Any, stop: int) -> int:
    """Count events; after so many the reader itself is cancelled, wherever it waits next."""
    count = 0
    try:
        async for _ in stream:
            count += 1
            task = asyncio.current_task()
            if count == stop and task is not None:
                task.cancel()
        await asyncio.sleep(0)
    finally:
        await stream.aclose()
    return count


def _went_on(reading: asyncio.Task[int], stop: int) -> str:
    if reading.cancelled():
        return ""
    error = reading.exception()
    if error is not None:
        return f"it raises {error!r}"
    return "it goes on" if reading.result() >= stop else ""


_CANCELLED: Final = "CancelledError passes, and the call ends"


async def interleaved(subject: ModelSubject) -> Finding | None:
    """Make two calls, event by event in turn; each must say what it says alone."""

    async def work(model: Model, context: Callable[[], ModelContext]) -> Finding | None:
        alone = fold(await play(model, asked(subject), context))
        again = fold(await play(model, asked(subject), context))
        if difference(alone, again):
            return None  # a model that answers anew each time cannot be compared
        streams = [checked(model.stream(asked(subject), context()), USE) for _ in range(2)]
        heard: list[list[BaseEvent]] = [[], []]
        open_streams = [0, 1]
        while open_streams:
            for index in list(open_streams):
                try:
                    heard[index].append(await anext(streams[index]))
                except StopAsyncIteration:
                    open_streams.remove(index)
        for events in heard:
            said = difference(alone, fold(events))
            if said:
                return Finding(
                    f"two calls at once: one of them is not what it is alone: {said}",
                    "calls have nothing to do with each other",
                )
        return None

    return await with_model(subject, work)
