"""Layers of the kit that stand beside the middleware, and end or repeat a run as they are told.

What they do is said in the run's attributes under :data:`DOES`: one of the words of
:data:`INNER` or :data:`OUTER`, and for those that act at an event, at which.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from ag_ui.core import BaseEvent, RunAgentInput, RunErrorEvent, RunFinishedEvent

from interpose.authoring import CallRun, Layer, Middleware
from interpose.context import RunContext
from interpose.errors import Reject
from interpose.testing.events import finished, started, text

DOES: Final = "interpose-testing-does"
AT: Final = "interpose-testing-at"

INNER: Final = {
    "setup-rejects": "a layer further in refused the run in its setup",
    "setup-raises": "the setup of a layer further in raised",
    "rejects": "a layer further in refused the run in the middle",
    "raises": "a layer further in raised in the middle",
    "finishes": "a layer further in called ctx.finish",
    "aborts": "a layer further in called ctx.abort",
    "answers": "a layer further in answered in the place of the agent",
}
"""What the inner layer does, for messages."""

OUTER: Final = {
    "leaves": "a layer further out stopped to iterate, and ended the run itself",
    "outer-finishes": "a layer further out called ctx.finish",
}
"""What the outer layer does."""


class KitInner(Middleware):
    """Ends a run from further in."""

    def setup(self, ctx: RunContext, /) -> None:
        """Refuse the run, or fail."""
        self.seen = 0
        does = ctx.attributes.get(DOES)
        if does == "setup-rejects":
            raise Reject("kit", "The kit refuses it.")
        if does == "setup-raises":
            raise RuntimeError("the setup of the kit's layer")

    def on_event(self, ctx: RunContext, event: BaseEvent, /) -> None:
        """End the run at an event."""
        does = ctx.attributes.get(DOES)
        if does not in INNER or isinstance(event, RunFinishedEvent | RunErrorEvent):
            return
        self.seen += 1
        if self.seen <= ctx.attributes.get(AT, 0):
            return
        if does == "rejects":
            raise Reject("kit", "The kit refuses it.")
        if does == "raises":
            raise RuntimeError("the kit's layer")
        if does == "finishes":
            ctx.finish("That is enough.")
        if does == "aborts":
            ctx.abort("the kit gives up")

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun, /
    ) -> AsyncIterator[BaseEvent]:
        """Answer in the place of the agent."""
        if ctx.attributes.get(DOES) == "answers":
            for event in (started(ctx), *text("From the cache."), finished(ctx)):
                yield event
            return
        async for event in call_next(run_input):
            yield event


class KitOuter(Middleware):
    """Ends a run from further out."""

    def setup(self, ctx: RunContext, /) -> None:  # noqa: ARG002 - a hook
        """Count from here."""
        self.seen = 0

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun, /
    ) -> AsyncIterator[BaseEvent]:
        """Stop to iterate, and end the run."""
        does = ctx.attributes.get(DOES)
        async for event in call_next(run_input):
            self.seen += 1
            yield event
            if does in OUTER and self.seen > ctx.attributes.get(AT, 0):
                if does == "outer-finishes":
                    ctx.finish("That is enough.")
                break
        else:
            return
        yield finished(ctx)


class KitRepeats(Middleware):
    """Repeats a run from further out: when it has ``failed``, or ``always``."""

    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun, /
    ) -> AsyncIterator[BaseEvent]:
        """Hold the first attempt back, and repeat it."""
        does = ctx.attributes.get(DOES)
        if does in ("failed", "always"):
            held: list[BaseEvent] = []
            try:
                held += [event async for event in call_next(run_input)]
            except Exception:  # noqa: BLE001 - what it repeats for
                held.clear()
            if held and does == "failed":
                for event in held:
                    yield event
                return
        async for event in call_next(run_input):
            yield event


def outer() -> Layer:
    """Return the layer that stands outside."""
    return Layer(KitOuter, id="kit-outer")


def inner() -> Layer:
    """Return the layer that stands inside."""
    return Layer(KitInner, id="kit-inner")


def repeats() -> Layer:
    """Return the layer that repeats what it stands around."""
    return Layer(KitRepeats, id="kit-repeats")
