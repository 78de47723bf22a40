"""The function form, and text transforms."""

from collections.abc import AsyncIterator
from typing import ClassVar

from ag_ui.core import BaseEvent, RunAgentInput

from interpose import (
    CallRun,
    Covers,
    Layer,
    PatternTransform,
    RunContext,
    Scan,
    Stage,
    TextTransform,
    middleware,
)


@middleware
async def plain(
    ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
) -> AsyncIterator[BaseEvent]:
    async for event in call_next(run_input):
        yield event


@middleware(id="count", stage=Stage.OBSERVE, before=["redact"])
async def counting(
    ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
) -> AsyncIterator[BaseEvent]:
    seen = 0
    async for event in call_next(run_input):
        seen += 1
        yield event
    ctx.log.info("{} events", seen)


class Translate(TextTransform):
    covers = Covers.TEXT | Covers.REASONING
    max_hold = 256

    def scan(self, text: str, start: int, final: bool) -> Scan:
        at = text.find("colour", start)
        return Scan([(at, at + 6, "color")] if at >= 0 else [], len(text) if final else start)


class Mask(PatternTransform):
    patterns: ClassVar[tuple[str, ...]] = (r"\bEMP-\d{6}\b",)
    replacement = "[badge]"


LAYERS = [Layer(plain), Layer(counting, before=["mask"]), Layer(Mask, id="mask"), Layer(Translate)]
