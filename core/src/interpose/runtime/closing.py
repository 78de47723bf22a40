"""Ending what was handed out: every generator, within a deadline."""

from __future__ import annotations

import asyncio
from typing import Any

from interpose.logs import bound


async def close(stream: Any, seconds: float, owner: str) -> None:
    """Close an async generator or iterator; what goes wrong is logged, never raised.

    A cancellation of the caller passes through. ``seconds`` bounds the wait.
    """
    aclose = getattr(stream, "aclose", None)
    if aclose is None:
        return
    try:
        async with asyncio.timeout(seconds):
            await aclose()
    except TimeoutError:
        bound(owner=owner).error("closing {} took longer than {} s", owner, seconds)
    except Exception as error:  # noqa: BLE001 - the outcome of the run is fixed by now
        bound(owner=owner).opt(exception=error).error("closing {} failed", owner)


async def drain(stream: Any, seconds: float, owner: str) -> None:
    """Let a stream that has given its terminal run to its end; what it still gives is dropped."""
    try:
        async with asyncio.timeout(seconds):
            async for event in stream:
                bound(owner=owner).warning("{} came after the terminal", event.type.value)
    except TimeoutError:
        bound(owner=owner).error("ending {} took longer than {} s", owner, seconds)
