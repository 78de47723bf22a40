"""Twins that differ from run to run, or count what passes, and are right to do so."""

from __future__ import annotations

import hashlib

from ag_ui.core import BaseEvent, CustomEvent, RunStartedEvent
from zoo import Bug, Twin

from interpose import Middleware, Result, RunContext, Stage, on


class Variant(Middleware):
    """Tell the consumer which of two variants its conversation has."""

    stage = Stage.SHAPE

    @on(RunStartedEvent)
    def started(self, ctx: RunContext, event: RunStartedEvent) -> Result:
        drawn = hashlib.sha256(ctx.thread_id.encode()).hexdigest()[:4]
        return [event, CustomEvent(name="acme.variant", value=drawn)]


class Numbered(Middleware):
    """Number the events, in their metadata."""

    stage = Stage.SHAPE

    def setup(self, ctx: RunContext) -> None:
        self.number = 0

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Result:
        self.number += 1
        metadata = {**(event.metadata or {}), "acme.number": self.number}
        return event.model_copy(update={"metadata": metadata})


BUGS: list[Bug] = []
TWINS = [
    Twin(cls=Variant, does="draws a variant by the conversation"),
    Twin(cls=Numbered, does="numbers the events"),
]
