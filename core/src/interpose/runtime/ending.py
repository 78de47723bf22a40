"""The end of a run or attempt: what it was, and the hooks that hear of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Literal

from ag_ui.core import (
    BaseEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
)

from interpose.payloads import AbortInfo, EndInfo, ErrorInfo, FinishInfo
from interpose.runtime.control import Stop
from interpose.runtime.interruption import nobody_cancelled
from interpose.runtime.layer import Frame
from interpose.runtime.record import RunRecord

_HOOK = {"finish": "on_finish", "abort": "on_abort", "error": "on_error"}


def of_event(record: RunRecord, event: BaseEvent) -> EndInfo:
    """Return what a terminal event means."""
    if isinstance(event, RunErrorEvent):
        error = record.failures.original(event) or record.failures.exception(event)
        return _failed(record, error, event.code or "agent-failed", event.message)
    if not isinstance(event, RunFinishedEvent):
        raise TypeError(f"{event.type} is no terminal event")
    if isinstance(event.outcome, RunFinishedCancelledOutcome):
        verdict = record.verdict
        if isinstance(verdict, Stop):
            return aborted(record, verdict.reason, verdict.cause)
        return aborted(record, "the agent ended the run as cancelled", "cancelled")
    interrupts = (
        event.outcome.interrupts if isinstance(event.outcome, RunFinishedInterruptOutcome) else ()
    )
    info = FinishInfo(
        outcome="interrupt" if interrupts else "success",
        duration=record.duration,
        usage=tuple(event.usage or ()),
        result=event.result,
        interrupts=tuple(interrupts),
        loop=record.loop.told(),
    )
    return EndInfo("finish", info, info.duration)


def aborted(
    record: RunRecord, reason: str, cause: Literal["abort", "cancelled", "consumer-gone"]
) -> EndInfo:
    """Return the end of a run that was ended on purpose, or lost its consumer."""
    info = AbortInfo(reason, cause, record.duration)
    return EndInfo("abort", info, info.duration)


def _failed(record: RunRecord, error: BaseException, code: str, message: str) -> EndInfo:
    info = ErrorInfo(error, code, message, record.duration)
    return EndInfo("error", info, info.duration)


def is_awaited(frames: Sequence[Frame], end: EndInfo) -> bool:
    """Whether a layer has a hook that hears of this end."""
    hook = _HOOK[end.kind]
    return any(hook in (h := frame.layer.facts.hooks) or "on_end" in h for frame in frames)


async def call_terminal_hooks(record: RunRecord, frames: Sequence[Frame], end: EndInfo) -> None:
    """Call exactly one of the three hooks, then ``on_end``, on each frame: last set up first.

    Each is isolated, and bounded by the host's ending deadline.
    """
    for frame in reversed(frames):
        for hook, info in ((_HOOK[end.kind], end.info), ("on_end", end)):
            if hook not in frame.layer.facts.hooks:
                continue
            try:
                async with asyncio.timeout(record.program.ending_deadline):
                    await frame.observe(hook, info, ended=True)
            except TimeoutError:
                frame.ctx.log.error("{} of layer {} took too long", hook, frame.layer.id)  # noqa: TRY400 - no stack to show


async def run_deferred(record: RunRecord) -> None:
    """Run what layers deferred, in order, each under the ending deadline."""
    for layer, fn, args in record.deferred:
        try:
            async with asyncio.timeout(record.program.ending_deadline):
                result = fn(*args)
                if inspect.isawaitable(result):
                    await result
        except Exception as error:  # noqa: BLE001 - nothing fails a run after its end
            record.report(layer, error, "what it deferred failed")
        except asyncio.CancelledError as error:
            if not nobody_cancelled():
                raise
            record.report(layer, error, "what it deferred failed")
