"""Mistakes around the end of a run and between its events, and middlewares without them."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunAgentInput,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from zoo import Bug, Twin

from interpose import (
    AbortInfo,
    CallRun,
    EndInfo,
    ErrorInfo,
    FinishInfo,
    LifespanContext,
    Middleware,
    NoSettings,
    Result,
    RunContext,
    Stage,
    on,
)

_SPAN: ContextVar[str] = ContextVar("zoo_span", default="")


@dataclass
class Pool:
    """Workers that runs borrow, and what is known of runs."""

    free: list[str] = field(default_factory=lambda: ["ada", "bob", "eve"])
    recent: deque[RunContext] = field(default_factory=lambda: deque(maxlen=50))
    written: asyncio.Event = field(default_factory=asyncio.Event)


class WithPool(Middleware[NoSettings, Pool]):
    """Base of the animals with a pool."""

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: NoSettings, ctx: LifespanContext) -> AsyncGenerator[Pool]:
        yield Pool()


# What is not given back -------------------------------------------------------------------------
class Borrow(WithPool):
    """Borrow a worker for a run."""

    def setup(self, ctx: RunContext) -> None:
        self.worker = self.shared.free.pop()

    def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
        self.shared.free.append(self.worker)

    def on_error(self, ctx: RunContext, info: ErrorInfo) -> None:
        self.shared.free.append(self.worker)


class ThreeAtOnce(Middleware[NoSettings, asyncio.Semaphore]):
    """Let three runs go on at once."""

    stage = Stage.EDGE

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: NoSettings, ctx: LifespanContext
    ) -> AsyncGenerator[asyncio.Semaphore]:
        yield asyncio.Semaphore(3)

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        await self.shared.acquire()
        async for event in call_next(run_input):
            yield event
        self.shared.release()


class Duration(Middleware):
    """Tell how long the run took."""

    stage = Stage.OBSERVE
    observes_only = True

    def on_start(self, ctx: RunContext) -> None:
        self.began = ctx.clock.monotonic()

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        ctx.log.info("it took {:.3f} s", ctx.clock.monotonic() - self.began)


class Recent(WithPool):
    """Keep the last runs, to look at when somebody asks."""

    stage = Stage.OBSERVE
    observes_only = True

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        self.shared.recent.append(ctx)


class Beat(Middleware):
    """Write a line every ten seconds while a run goes on."""

    stage = Stage.OBSERVE
    observes_only = True

    def setup(self, ctx: RunContext) -> None:
        self.beating = asyncio.create_task(self._beat(ctx))

    async def _beat(self, ctx: RunContext) -> None:
        while True:
            await ctx.sleep(10)
            ctx.log.info("it goes on")

    def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
        self.beating.cancel()

    def on_error(self, ctx: RunContext, info: ErrorInfo) -> None:
        self.beating.cancel()


# What is held between two events ----------------------------------------------------------------
class SpanOfHooks(Middleware):
    """Open a span in setup, and close it at the end."""

    stage = Stage.OBSERVE
    observes_only = True

    def setup(self, ctx: RunContext) -> None:
        self.token: Token[str] = _SPAN.set(ctx.run_id)

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        _SPAN.reset(self.token)


@contextmanager
def span(name: str) -> Iterator[None]:
    """Open a span, as tracers do: what is done inside belongs to it."""
    token = _SPAN.set(name)
    try:
        yield
    finally:
        _SPAN.reset(token)


class SpanAround(Middleware):
    """Open a span around the run."""

    stage = Stage.OBSERVE
    observes_only = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        with span(f"run {ctx.run_id}"):
            async for event in call_next(run_input):
                yield event


class Deadline(Middleware):
    """Give the run five minutes."""

    stage = Stage.EDGE

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async with asyncio.timeout(300):
            async for event in call_next(run_input):
                yield event


# What does not stop -----------------------------------------------------------------------------
class Pace(Middleware):
    """Send pieces of text no faster than they can be read."""

    @on(TextMessageContentEvent)
    async def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        try:
            await ctx.sleep(len(event.delta) / 50)
        except asyncio.CancelledError:
            ctx.log.debug("nobody waits any more: send the rest at once")
        return event


class Farewell(Middleware):
    """Tell the consumer how many events there were, however the run ends."""

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        count = 0
        last: BaseEvent | None = None
        try:
            async for event in call_next(run_input):
                count += 1
                if last is not None:
                    yield last
                last = event
        finally:
            yield CustomEvent(name="events", value=count)
        if last is not None:
            yield last


class Flush(WithPool):
    """Write what was collected when a run is cancelled, and wait until it is written."""

    async def on_abort(self, ctx: RunContext, info: AbortInfo) -> None:
        await self.shared.written.wait()


# What stops everybody else ----------------------------------------------------------------------
class Moderated(Middleware):
    """Ask a service about each message."""

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        try:
            with urllib.request.urlopen("http://127.0.0.1:9/moderate", timeout=0.1):
                return event
        except OSError:
            ctx.log.warning("the service is not there")
        return event


class Typing(Middleware):
    """Look like a person who types."""

    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
        time.sleep(min(len(event.delta), 5) / 10_000)


class Translated(Middleware):
    """Call a coroutine from a hook that is none."""

    @on(TextMessageStartEvent)
    def start(self, ctx: RunContext, event: TextMessageStartEvent) -> None:
        loop = asyncio.get_running_loop()
        waiting = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)
        try:
            waiting.result(timeout=0.01)
        except (TimeoutError, OSError):
            ctx.log.debug("no answer")


# The twins --------------------------------------------------------------------------------------
@dataclass
class Span:
    """A span of a tracer: it is handed on, and in no context."""

    name: str
    events: int = 0
    ended: str = ""


class Traced(Middleware[NoSettings, list[str]]):
    """Trace each run with a span of its own, which is current only within single steps."""

    stage = Stage.OBSERVE
    observes_only = True

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: NoSettings, ctx: LifespanContext
    ) -> AsyncGenerator[list[str]]:
        yield []

    def setup(self, ctx: RunContext) -> None:
        self.span = Span(f"run of {ctx.agent}")

    async def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
        token = _SPAN.set(self.span.name)
        try:
            self.span.events += 1
            await asyncio.sleep(0)
        finally:
            _SPAN.reset(token)

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        self.span.ended = end.kind
        self.shared.append(f"{self.span.name}: {self.span.events} events, {self.span.ended}")
        del self.shared[:-100]


class Lent(WithPool):
    """Borrow a worker for a run, and give it back."""

    def setup(self, ctx: RunContext) -> None:
        self.worker = self.shared.free.pop() if self.shared.free else "a new one"

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        if self.worker != "a new one":
            self.shared.free.append(self.worker)


class StepDeadline(Middleware):
    """Give each event a minute."""

    stage = Stage.EDGE

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        events = aiter(call_next(run_input))
        while True:
            async with asyncio.timeout(60):
                event = await anext(events, None)
            if event is None:
                return
            yield event


class BeatUntilTheEnd(Beat):
    """Write a line every ten seconds, and stop with the run."""

    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        self.beating.cancel()


class ModeratedApart(Middleware):
    """Ask a blocking client about each message, in a thread."""

    @on(TextMessageEndEvent)
    async def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        await asyncio.to_thread(time.sleep, 0.0001)
        return event


class Paced(Middleware):
    """Send pieces of text no faster than they can be read."""

    @on(TextMessageContentEvent)
    async def content(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        await ctx.sleep(len(event.delta) / 50)
        return event


BUGS = (
    Bug(
        cls=Borrow,
        check="balanced-hooks",
        mistake="Nothing is given back after a cancellation.",
        reported="langchain#39700 (a subprocess leaks when after_agent is never reached)",
    ),
    Bug(
        cls=ThreeAtOnce,
        check="balanced-hooks",
        mistake="The slot is not given back by a finally.",
        reported="langchain#34165 (a jump to the end skips the hook that finishes)",
    ),
    Bug(
        cls=Duration,
        check="balanced-hooks",
        mistake="on_end may come without on_start: when a later layer refuses the run.",
        reported="TanStack AI, D14 (which layers hear of a setup that failed)",
    ),
    Bug(
        cls=Recent,
        check="balanced-hooks",
        mistake="Fifty contexts hold fifty runs with all that was said in them.",
        reported="fastmcp#1012 (memory grows under load)",
    ),
    Bug(
        cls=Beat,
        check="balanced-hooks",
        mistake="The task goes on when a run is cancelled.",
        reported="pydantic-ai#5132 (a run is cancelled, and its tasks go on)",
    ),
    Bug(
        cls=SpanOfHooks,
        check="no-held-context",
        mistake="The terminal hooks run in another task, which cannot reset the token.",
        reported="langfuse#13590, agno#5208 (Token was created in a different Context)",
    ),
    Bug(
        cls=SpanAround,
        check="no-held-context",
        mistake="Between two events the consumer's own work belongs to the span.",
        reported="agentscope#2076, adk-python#4894 (a span that is held over a yield)",
    ),
    Bug(
        cls=Deadline,
        check="no-held-context",
        mistake="The timeout is open while the consumer works, and cancels the consumer's task.",
        reported="adk-python#2196 (a cancel scope that another task leaves)",
    ),
    Bug(
        cls=Pace,
        check="honours-cancel",
        mistake="It takes a cancellation for a wish to hurry.",
        reported="TanStack AI, D5 (an abort that does not cancel what is under way)",
    ),
    Bug(
        cls=Farewell,
        check="honours-cancel",
        mistake="It yields while it is being closed.",
        reported="ag-ui#2417 (a cancelled stream ends without its closing parts)",
    ),
    Bug(
        cls=Flush,
        check="honours-cancel",
        mistake="It waits for a writer that nobody has started.",
        reported="pydantic-ai#6889 (clean-up after the consumer is gone)",
    ),
    Bug(
        cls=Moderated,
        check="no-blocking",
        mistake="The request holds up the loop.",
        reported="langchain#33474 (synchronous built-ins in an asynchronous run)",
    ),
    Bug(
        cls=Typing,
        check="no-blocking",
        mistake="time.sleep lets everybody wait.",
        reported="langchain#33474 (synchronous built-ins in an asynchronous run)",
    ),
    Bug(
        cls=Translated,
        check="no-blocking",
        mistake="The loop waits for itself.",
        reported="pluggy#320, datasette#2497 (coroutines called from hooks that are none)",
    ),
)

TWINS = (
    Twin(cls=Traced, does="traces runs with spans"),
    Twin(cls=Lent, does="lends workers to runs"),
    Twin(cls=StepDeadline, does="limits the time of each event"),
    Twin(cls=BeatUntilTheEnd, does="writes while a run goes on"),
    Twin(cls=ModeratedApart, does="calls what blocks in a thread"),
    Twin(cls=Paced, does="slows text down"),
)
