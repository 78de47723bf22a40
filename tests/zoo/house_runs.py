"""Mistakes with what runs share, and middlewares that share well."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    SystemMessage,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from pydantic import Field
from zoo import Bug, Twin

from interpose import (
    DROP,
    PRINCIPAL,
    CallRun,
    EndInfo,
    LifespanContext,
    Middleware,
    NoSettings,
    Reject,
    Result,
    RunContext,
    Settings,
    Stage,
    middleware,
    on,
)


class Limit(Settings):
    """How many runs there may be at once."""

    most: int = 4
    """Runs at once."""


class Names(Settings):
    """Names that are known from the start."""

    names: list[str] = Field(default_factory=lambda: ["Grace"])
    """Names that are masked."""


# State of a run where others find it ------------------------------------------------------------
def without_repetition() -> type[Middleware]:
    """Make a middleware that takes a piece out that says the same as the one before."""
    before = ""

    @middleware
    async def no_repetition(
        ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        nonlocal before
        async for event in call_next(run_input):
            if isinstance(event, TextMessageContentEvent):
                if event.delta == before:
                    continue
                before = event.delta
            yield event

    return no_repetition


class LastWords(Middleware):
    """Repeat the end of a message behind it."""

    last = ""

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        type(self).last = event.delta[-20:]
        return event

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        again = TextMessageContentEvent(message_id=event.message_id, delta=f" ({self.last})")
        return [again, event]


class LearnNames(Middleware[Names]):
    """Write initials for names; a message that begins with "I am" teaches another name."""

    def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> None:
        said = str(getattr(run_input.messages[-1], "content", ""))
        if said.startswith("I am "):
            self.settings.names.append(said.removeprefix("I am ").split(".")[0])

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        known = " ".join(name[0] for name in self.settings.names)
        return [TextMessageContentEvent(message_id=event.message_id, delta=f" [{known}]"), event]


class Recall(Middleware[NoSettings, dict[str | None, str]]):
    """Remind the agent of what the user asked the last time."""

    requires = (PRINCIPAL,)

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: NoSettings, ctx: LifespanContext
    ) -> AsyncGenerator[dict[str | None, str]]:
        yield {}

    def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> RunAgentInput | None:
        whose = ctx[PRINCIPAL].tenant
        before = self.shared.get(whose)
        self.shared[whose] = str(getattr(run_input.messages[-1], "content", ""))
        if before is None:
            return None
        note = SystemMessage(id="recall", content=f"The user asked before: {before}")
        return run_input.model_copy(update={"messages": [note, *run_input.messages]})


# What many runs do to it ------------------------------------------------------------------------
class FairShare(Middleware[NoSettings, dict[str, int]]):
    """Let a run wait for a moment for each other that has said more than it."""

    stage = Stage.EDGE

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: NoSettings, ctx: LifespanContext
    ) -> AsyncGenerator[dict[str, int]]:
        yield {}

    def setup(self, ctx: RunContext) -> None:
        self.shared[ctx.run_id] = 0

    @on(TextMessageContentEvent)
    async def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        self.shared[ctx.run_id] += 1
        for said in self.shared.values():
            if said < self.shared[ctx.run_id]:
                await ctx.sleep(0.01)
        return event

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        del self.shared[ctx.run_id]


@dataclass
class Count:
    """How many runs go on."""

    runs: int = 0


class AtMost(Middleware[Limit, Count]):
    """Refuse a run when there are too many."""

    stage = Stage.EDGE

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: Limit, ctx: LifespanContext) -> AsyncGenerator[Count]:
        yield Count()

    def setup(self, ctx: RunContext) -> None:
        self.shared.runs += 1
        if self.shared.runs > self.settings.most:
            raise Reject("busy", "Too many runs at once; try again.", status=429, retry_after=1)

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        self.shared.runs -= 1


class CountMessages(Middleware[NoSettings, int]):
    """Count the messages of all runs."""

    observes_only = True

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: NoSettings, ctx: LifespanContext) -> AsyncGenerator[int]:
        yield 0

    @on(TextMessageStartEvent)
    def start(self, ctx: RunContext, event: TextMessageStartEvent) -> None:
        self.shared += 1
        ctx.log.debug("{} messages so far", self.shared)


@dataclass
class Rules:
    """Rules of the house, once they are loaded."""

    text: str = ""
    loading: asyncio.Event | None = None


class LoadOnce(Middleware[NoSettings, Rules]):
    """Load the rules of the house with the first run, and let the others wait for them."""

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: NoSettings, ctx: LifespanContext) -> AsyncGenerator[Rules]:
        yield Rules()

    async def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> RunAgentInput:
        if self.shared.loading is None:
            self.shared.loading = asyncio.Event()
            await ctx.sleep(2.0)
            self.shared.text = "Be brief."
            self.shared.loading.set()
        await self.shared.loading.wait()
        rules = SystemMessage(id="rules", content=self.shared.text)
        return run_input.model_copy(update={"messages": [rules, *run_input.messages]})


# What is left of an earlier attempt -------------------------------------------------------------
class NoReplay(Middleware[NoSettings, set[str]]):
    """Refuse a run that has been there."""

    stage = Stage.EDGE

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: NoSettings, ctx: LifespanContext) -> AsyncGenerator[set[str]]:
        yield set()

    def setup(self, ctx: RunContext) -> None:
        if ctx.run_id in self.shared:
            raise Reject("replayed", "This run has been there.", status=409)
        self.shared.add(ctx.run_id)


class Greet(Middleware):
    """Greet whoever asks, at the head of the first message."""

    def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> None:
        self.greeting = "Good morning! " if run_input.messages else ""

    @on(TextMessageStartEvent)
    def start(self, ctx: RunContext, event: TextMessageStartEvent) -> Result:
        greeting, self.greeting = self.greeting, ""
        if not greeting:
            return event
        return [event, TextMessageContentEvent(message_id=event.message_id, delta=greeting)]


class WholeByRun(Middleware[NoSettings, dict[str, list[str]]]):
    """Send each message whole."""

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: NoSettings, ctx: LifespanContext
    ) -> AsyncGenerator[dict[str, list[str]]]:
        yield {}

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        self.shared.setdefault(f"{ctx.run_id} {event.message_id}", []).append(event.delta)
        return DROP

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        whole = "".join(self.shared.pop(f"{ctx.run_id} {event.message_id}", []))
        return [TextMessageContentEvent(message_id=event.message_id, delta=whole), event]


# The twins --------------------------------------------------------------------------------------
class Interval(Settings):
    """Seconds between the beginnings of two runs of a user."""

    seconds: float = 0.5
    """Between two runs."""


class MinimumInterval(Middleware[Interval, dict[str, float]]):
    """Let the runs of a user begin one after the other, with a pause between."""

    stage = Stage.EDGE
    requires = (PRINCIPAL,)

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: Interval, ctx: LifespanContext
    ) -> AsyncGenerator[dict[str, float]]:
        yield {}

    async def setup(self, ctx: RunContext) -> None:
        user = ctx[PRINCIPAL].subject
        now = ctx.clock.monotonic()
        begins = max(now, self.shared.get(user, now))
        if begins - now > 10 * self.settings.seconds:
            raise Reject("too-fast", "Slow down, please.", status=429, retry_after=begins - now)
        self.shared[user] = begins + self.settings.seconds
        if begins > now:
            await ctx.sleep(begins - now)


class Slots(Middleware[Limit, asyncio.Semaphore]):
    """Let so many runs go on at once; the others wait."""

    stage = Stage.EDGE

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: Limit, ctx: LifespanContext
    ) -> AsyncGenerator[asyncio.Semaphore]:
        yield asyncio.Semaphore(settings.most)

    async def setup(self, ctx: RunContext) -> None:
        await self.shared.acquire()

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        self.shared.release()


class RefuseMore(AtMost):
    """Refuse a run when there are too many, and count only those that go on."""

    def setup(self, ctx: RunContext) -> None:
        if self.shared.runs >= self.settings.most:
            raise Reject("busy", "Too many runs at once; try again.", status=429, retry_after=1)
        self.shared.runs += 1


class LoadUnderLock(Middleware[NoSettings, dict[str, Any]]):
    """Load the rules of the house once, whichever run does it."""

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: NoSettings, ctx: LifespanContext
    ) -> AsyncGenerator[dict[str, Any]]:
        yield {"lock": asyncio.Lock(), "text": None}

    async def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> RunAgentInput:
        async with self.shared["lock"]:
            if self.shared["text"] is None:
                await ctx.sleep(2.0)
                self.shared["text"] = "Be brief."
        rules = SystemMessage(id="rules", content=self.shared["text"])
        return run_input.model_copy(update={"messages": [rules, *run_input.messages]})


@functools.lru_cache(maxsize=1000)
def _signature(agent: str) -> str:
    return f" -- Yours, {agent}"


class Signed(Middleware):
    """Sign messages; a pure function may be cached."""

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        words = _signature(ctx.agent)
        return [TextMessageContentEvent(message_id=event.message_id, delta=words), event]


@dataclass
class Meter:
    """What is going on, and what has been."""

    active: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    events: int = 0


class Metrics(Middleware[NoSettings, Meter]):
    """Count runs and events: a gauge, and counters."""

    stage = Stage.OBSERVE
    observes_only = True

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: NoSettings, ctx: LifespanContext) -> AsyncGenerator[Meter]:
        yield Meter()

    def setup(self, ctx: RunContext) -> None:
        self.shared.active += 1

    def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
        self.shared.events += 1

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        self.shared.active -= 1
        self.shared.ends[end.kind] = self.shared.ends.get(end.kind, 0) + 1


BUGS = (
    Bug(
        cls=without_repetition(),
        check="no-shared-state",
        mistake="The variable around the function is that of all runs.",
        reported="TanStack AI content guard (the state of a run in the closure of its factory)",
    ),
    Bug(
        cls=LastWords,
        check="no-shared-state",
        mistake="It keeps the end of a message on the class.",
        reported="ag-ui#1277 (one instance for all requests, which corrupt each other)",
    ),
    Bug(
        cls=LearnNames,
        check="no-shared-state",
        mistake="It keeps what it learns in the settings, which all runs have.",
        reported="pydantic-ai#2339 (the state of a request put on shared dependencies)",
    ),
    Bug(
        cls=Recall,
        check="no-shared-state",
        mistake="It remembers by tenant, and reminds one user of what another one asked.",
        reported="langchainjs PR #10693 (the state of a middleware crossed threads)",
    ),
    Bug(
        cls=FairShare,
        check="shared-many-runs",
        mistake="It waits while it iterates over what other runs add to.",
        reported="CopilotKit#3552 (what one run keeps breaks under concurrency)",
    ),
    Bug(
        cls=AtMost,
        check="shared-many-runs",
        mistake="A run that it refuses stays counted: its setup has not finished.",
        reported="TanStack AI, D14 (a setup that fails half-way is not taken down)",
    ),
    Bug(
        cls=CountMessages,
        check="shared-many-runs",
        mistake="Adding to self.shared gives this run a number of its own.",
        reported="ag2 PR #3136 (each copy of a middleware counts its own budget)",
    ),
    Bug(
        cls=LoadOnce,
        check="shared-many-runs",
        mistake="When the run that loads is cancelled, all others wait for ever.",
        reported="pydantic-ai#5132 (a cancellation leaves others without what they wait for)",
    ),
    Bug(
        cls=NoReplay,
        check="clean-attempt",
        mistake="A second attempt of the run has the same id.",
        reported="agents-flex (a middleware that goes on twice with the same ids)",
    ),
    Bug(
        cls=Greet,
        check="clean-attempt",
        mistake="on_input is called once for the run, and another attempt has another instance.",
        reported="TanStack AI#1054 (hooks that track a phase by hand miss one)",
    ),
    Bug(
        cls=WholeByRun,
        check="clean-attempt",
        mistake="What the failed attempt had said stands before what the next one says.",
        reported="agents-flex (the deltas of every attempt are published)",
    ),
)

TWINS = (
    Twin(cls=MinimumInterval, does="keeps a pause between the runs of a user"),
    Twin(cls=Slots, does="limits how many runs go on at once"),
    Twin(cls=RefuseMore, does="refuses runs when there are too many"),
    Twin(cls=LoadUnderLock, does="loads something once"),
    Twin(cls=Signed, does="caches a pure function"),
    Twin(cls=Metrics, does="counts with a gauge and counters"),
)
