"""Ending what was handed out: every generator, within a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any

from interpose.runtime.interruption import nobody_cancelled

if TYPE_CHECKING:
    from interpose.runtime.record import RunRecord


def is_over(stream: object) -> bool:
    """Whether there is nothing to close: a generator that has ended, or nothing at all."""
    if isinstance(stream, AsyncGeneratorType):
        return stream.ag_frame is None
    return stream is None


async def close(record: RunRecord, stream: Any, owner: str) -> None:
    """Close an async generator or iterator; what goes wrong is logged, never raised.

    A cancellation of the caller passes through. The host's ending deadline bounds the wait.
    """
    if is_over(stream):
        return
    aclose = getattr(stream, "aclose", None)
    if aclose is not None:
        await _bounded(record, aclose, f"closing {owner}")


async def close_all(record: RunRecord, *streams: tuple[Any, str]) -> None:
    """Close streams one after the other; a cancellation at one does not leave the next open."""
    if streams:
        (stream, owner), *rest = streams
        try:
            await close(record, stream, owner)
        finally:
            await close_all(record, *rest)


async def drain(record: RunRecord, stream: Any, owner: str) -> None:
    """Let a stream that has given its terminal run to its end; what it still gives is dropped."""

    async def rest() -> None:
        async for event in stream:
            record.log("host").warning("{} came after the terminal", event.type.value)

    await _bounded(record, rest, f"ending {owner}")


async def _bounded(record: RunRecord, work: Callable[[], Awaitable[None]], what: str) -> None:
    seconds = record.program.ending_deadline
    try:
        async with asyncio.timeout(seconds):
            await work()
    except TimeoutError:
        record.log("host").error("{} took longer than {} s", what, seconds)
    except asyncio.CancelledError as error:
        if not nobody_cancelled():
            raise
        record.report("host", error, f"{what} failed")
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001
        # The outcome of the run is fixed by now. A TaskGroup that is open across events wraps the
        # GeneratorExit which closes it: that is no failure.
        if not isinstance(error, BaseExceptionGroup) or error.split(GeneratorExit)[1] is not None:
            record.report("host", error, f"{what} failed")
