"""Any chain of layers, for property tests: each does one thing, once, in a run.

What and when is an :class:`Act`, which the run brings along in its attributes.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import BaseEvent, Interrupt, RunAgentInput, UserMessage
from anything import Item, finished, started, wild
from hypothesis import strategies as st

from interpose import CallRun, Middleware, PatternTransform, Reject, RunContext


@dataclass
class Act:
    """What one layer does in one run: ``at`` its n-th event, with the events of ``items``."""

    at: int
    items: Sequence[Item] = field(default_factory=list)
    seen: int = 0

    def is_due(self) -> bool:
        self.seen += 1
        return self.seen == self.at

    def events(self, run: RunAgentInput) -> list[Any]:
        made = [item(run) for item in self.items]
        return [event for event in made if isinstance(event, BaseEvent)]


def act(ctx: RunContext) -> Act:
    found: Act = ctx.attributes["acts"][ctx.layer]
    return found


class Drops(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        return [] if act(ctx).is_due() else event


class Doubles(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        return [event, event] if act(ctx).is_due() else event


class Holds(Middleware):
    def setup(self, ctx: RunContext) -> None:
        self.held: list[BaseEvent] = []

    async def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        if act(ctx).is_due():
            self.held.append(event)
            return []
        held, self.held = self.held, []
        return [event, *held]


class Fails(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        if act(ctx).is_due():
            raise ValueError("a layer's own")
        return event


class Skips(Fails):
    on_failure = "skip"


class Injects(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        return [*act(ctx).events(ctx.input), event] if act(ctx).is_due() else event


class Returns(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        return [item(ctx.input) for item in act(ctx).items] if act(ctx).is_due() else event


class Raw(Middleware):
    form = "raw"
    rewrites_history = True

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        return [event, *act(ctx).events(ctx.input)] if act(ctx).is_due() else event


class Ends(Middleware):
    """Ends the run on purpose, in one of the ways; swallows what that raises in others."""

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        if act(ctx).is_due():
            way = len(act(ctx).items)
            try:
                self.end(ctx, way % 3)
            except BaseException:
                if way % 2 == 0:
                    raise
        return event

    def end(self, ctx: RunContext, way: int) -> None:
        if way == 0:
            ctx.finish("that is all")
        if way == 1:
            ctx.abort("enough")
        ctx.interrupt(Interrupt(id="i", reason="r"))


class EndsAround(Ends):
    """Likewise, in the middle of ``around_run``."""

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        return None

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            Ends.on_event(self, ctx, event)
            yield event


class Refuses(Ends):
    """Likewise, in ``setup``, where it may fail as well."""

    def setup(self, ctx: RunContext) -> None:
        for event in act(ctx).events(ctx.input):
            ctx.emit(event)
        if act(ctx).at == 1:
            Ends.on_event(self, ctx, started(ctx.input))
        if act(ctx).at == 2:
            raise Reject("no", "No.", status=429)
        if act(ctx).at == 3:
            raise ValueError("a layer's own")

    def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> Any:
        return run_input.model_copy(update={"state": {"n": act(ctx).at}})


class Masks(PatternTransform):
    patterns = (r"hi|wo.*d",)
    replacement = "***"


class Tracks(Middleware):
    tracks_state = True

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        if act(ctx).is_due() and (ctx.messages or ctx.state):
            ctx.emit(event)
        return None

    def on_message(self, ctx: RunContext, message: Any) -> None:
        for event in act(ctx).events(ctx.input):
            ctx.emit(event)


class Answers(Middleware):
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        if act(ctx).at % 2:
            async for event in call_next(run_input):
                yield event
                if act(ctx).is_due():
                    break
        for event in act(ctx).events(run_input):
            ctx.emit(event)
            yield event


class Swallows(Middleware):
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        except Exception:  # noqa: BLE001
            for event in act(ctx).events(run_input):
                yield event
            if act(ctx).at % 2:
                yield finished(run_input)


class Retries(Middleware):
    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        held: list[BaseEvent] = []
        for _ in range(2):
            with contextlib.suppress(Exception):
                async for event in call_next(run_input):
                    held.append(event)
                    if act(ctx).is_due():
                        yield event
                break
        for event in held:
            yield event


class Continues(Middleware):
    may_continue = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            yield event
        for event in act(ctx).events(run_input):
            yield event
        if act(ctx).at % 2:
            more = [*run_input.messages, UserMessage(id="again", content="again")]
            longer = run_input.model_copy(update={"messages": more})
            async for event in call_next(longer, continues=True):
                yield event


LAYERS: tuple[type[Middleware[Any, Any]], ...] = (
    *(Drops, Doubles, Holds, Fails, Skips, Injects, Returns, Ends, Tracks),
    *(Answers, Swallows, Retries, Continues, EndsAround, Refuses, Masks),
)
acts = st.builds(Act, st.integers(0, 6), st.lists(wild, max_size=3))
chains = st.builds(
    lambda outer, inner: [*outer, *inner],
    st.lists(st.sampled_from(LAYERS), max_size=3),
    st.lists(st.just(Raw), max_size=1),
)
