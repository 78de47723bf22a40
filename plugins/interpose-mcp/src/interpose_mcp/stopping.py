"""Work of a layer between the passes of a run, which ends when the run is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from interpose import RunContext

T = TypeVar("T")


class Stopped(Exception):
    """The run was cancelled before the work was done."""


async def unless_cancelled(ctx: RunContext, work: Coroutine[Any, Any, T]) -> T:
    """Return what the work gives. :class:`Stopped` when the run is cancelled first."""
    doing = asyncio.create_task(work)
    ending = asyncio.create_task(ctx.until_cancelled())
    try:
        await asyncio.wait([doing, ending], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise Stopped
        return doing.result()
    finally:
        for each in (doing, ending):
            each.cancel()
        await asyncio.gather(doing, ending, return_exceptions=True)
