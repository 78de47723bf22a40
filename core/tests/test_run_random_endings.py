"""Thousands of runs, each through its own chain and to its own end: what holds for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import sys
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import pytest
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    TextMessageContentEvent,
)
from playing import finished, say, started

from interpose import (
    CallRun,
    EndInfo,
    Host,
    Layer,
    LifespanContext,
    Middleware,
    Reject,
    Run,
    RunContext,
    on,
)
from interpose.agui import Verifier

HOSTS, RUNS = 8, 40
"""For each of the seeds."""
ENDING_DEADLINE = 20.0
"""Seconds; nothing here may take that long, so whoever waits for it has waited for nobody."""


@dataclass(eq=False)
class Case:
    """One run: what its parts are to do, and what was seen of it.

    ``acts``: by layer, what the layer does once; ``log``: (what, frame) in the order it happened.
    ``linger``: seconds that terminal hooks take.
    """

    agent: str
    ending: str
    delay: float
    linger: float
    stop_at: int
    acts: dict[str, str]
    log: list[tuple[str, Any]] = field(default_factory=list)
    open: Counter[str] = field(default_factory=Counter)
    files: list[IO[str]] = field(default_factory=list)
    deferred: int = 0
    deferred_ran: int = 0
    events: list[BaseEvent] = field(default_factory=list)
    kept: Any = None

    @contextlib.contextmanager
    def opened(self, what: str) -> Any:
        self.open[what] += 1
        try:
            yield
        finally:
            self.open[what] -= 1

    def ran(self) -> None:
        self.deferred_ran += 1

    def open_file(self) -> IO[str]:
        file = open(os.devnull)  # noqa: SIM115, PTH123 - closed by on_end, which is tested
        self.files.append(file)
        return file


def case_of(ctx: RunContext) -> Case:
    case: Case = ctx.attributes["case"]
    return case


class Recorded(Middleware[Any, IO[str]]):
    """Opens in setup what it closes in on_end, and writes down every terminal hook."""

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[IO[str]]:
        with open(os.devnull) as file:  # noqa: ASYNC230, PTH123 - the null device does not block
            yield file

    async def setup(self, ctx: RunContext) -> None:
        case = case_of(ctx)
        assert not self.shared.closed
        self.act = case.acts.get(ctx.layer, "") if ctx.attempt == 1 else ""
        file = case.open_file()
        try:
            await asyncio.sleep(0)
            if self.act == "reject":
                raise Reject("no-entry", "No.")
            if self.act == "raise in setup":
                raise RuntimeError("setup")
            if self.act == "finish in setup":
                ctx.finish("done")
        except BaseException:
            file.close()
            raise
        self.file = file
        case.log.append(("setup", self))

    def on_finish(self, ctx: RunContext, info: Any) -> None:
        case_of(ctx).log.append(("finish", self))

    async def on_abort(self, ctx: RunContext, info: Any) -> None:
        await asyncio.sleep(case_of(ctx).linger)
        case_of(ctx).log.append(("abort", self))

    async def on_error(self, ctx: RunContext, info: Any) -> None:
        case_of(ctx).log.append(("error", self))
        await asyncio.sleep(case_of(ctx).linger)

    async def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        case_of(ctx).log.append(("end", self))
        self.file.close()
        await asyncio.sleep(case_of(ctx).linger)
        self._defer(ctx)

    def _defer(self, ctx: RunContext) -> None:
        case_of(ctx).deferred += 1
        ctx.defer(case_of(ctx).ran)

    def do(self, ctx: RunContext) -> None:
        """Do what the case asks of this layer, once."""
        act, self.act = self.act, ""
        if act == "raise":
            raise RuntimeError(f"{ctx.layer} fails")
        if act == "refuse":
            raise Reject("enough", "Enough.")
        if act == "abort":
            ctx.abort("enough")
        if act == "finish":
            ctx.finish("that is all")
        if act == "interrupt":
            ctx.interrupt(Interrupt(id="i", reason="ask"))
        if act == "swallow":
            with contextlib.suppress(BaseException):
                ctx.abort("enough")


class SyncHook(Recorded):
    @on(TextMessageContentEvent)
    def see(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
        self.do(ctx)
        return event.model_copy(update={"delta": event.delta.upper()})


class AsyncHook(Recorded):
    async def on_event(self, ctx: RunContext, event: BaseEvent) -> list[BaseEvent]:
        await asyncio.sleep(0)
        if isinstance(event, TextMessageContentEvent):
            self.do(ctx)
        return [event]


class Observes(Recorded):
    observes_only = True

    def on_message(self, ctx: RunContext, message: Any) -> None:
        self._defer(ctx)
        self.do(ctx)


class Wraps(Recorded):
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        with case_of(ctx).opened("around"):
            try:
                async for event in call_next(run_input):
                    if isinstance(event, TextMessageContentEvent):
                        self.do(ctx)
                    yield event
            finally:
                await asyncio.sleep(0)


class Recovers(Recorded):
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        with case_of(ctx).opened("around"):
            try:
                async for event in call_next(run_input):
                    yield event
            except Exception:  # noqa: BLE001
                for event in say("sorry", message=f"sorry-{ctx.layer}-{ctx.attempt}"):
                    yield event
                yield finished(run_input)


class Retries(Recorded):
    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        with case_of(ctx).opened("around"):
            held: list[BaseEvent] = []
            if self.act:  # gives up in the middle of the first attempt
                async for _ in call_next(run_input):
                    break
            for last in (False, True):
                try:
                    held = [event async for event in call_next(run_input)]
                    break
                except Exception:
                    if last:
                        raise
            for event in held:
                yield event


class Answers(Recorded):
    """Answers some of the runs itself, and leaves others before their end."""

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        with case_of(ctx).opened("around"):
            if not self.act:
                async for event in call_next(run_input):
                    yield event
                return
            async for event in call_next(run_input):
                yield event
                if event.type.value == "TEXT_MESSAGE_END":
                    break
            yield finished(run_input)


class ReadsAhead(Recorded):
    """Reads the inner run in a task of its own."""

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        queue: asyncio.Queue[BaseEvent | Exception | None] = asyncio.Queue()

        async def read() -> None:
            try:
                async for event in call_next(run_input):
                    await queue.put(event)
            except Exception as error:  # noqa: BLE001
                await queue.put(error)
            else:
                await queue.put(None)

        with case_of(ctx).opened("around"):
            reader = asyncio.create_task(read())
            try:
                while (item := await queue.get()) is not None:
                    if isinstance(item, Exception):
                        raise item
                    yield item
            finally:
                reader.cancel()
                await asyncio.wait([reader])


KINDS = (SyncHook, AsyncHook, Observes, Wraps, Recovers, Retries, Answers, ReadsAhead)
ACTS = (
    *("reject", "raise in setup", "finish in setup"),
    *("raise", "refuse", "abort", "finish", "interrupt", "swallow"),
)
AGENTS = ("finish", "raise", "truncate", "hang", "interrupt", "swallow", "slow finally", "error")
ENDINGS = (
    *("drain", "await", "break", "break and close", "drop", "leave open"),
    *("cancel before", "cancel at event", "cancel later", "cancel twice", "cancel and break"),
    *("task", "task twice", "task and cancel", "cancel while closing", "timeout", "host exit"),
)


def agent_for(cases: dict[str, Case]) -> Callable[[RunAgentInput], AsyncIterator[BaseEvent]]:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        case = cases[run_input.run_id]
        with case.opened("agent"):
            try:
                yield started(run_input)
                for event in say("one ", "two ", "three"):
                    await asyncio.sleep(0)
                    yield event
                if case.agent == "hang":
                    await asyncio.sleep(3600)
                if case.agent == "raise":
                    raise ValueError("agent")
                if case.agent == "truncate":
                    return
                if case.agent == "error":
                    yield RunErrorEvent(message="overloaded", code="busy")
                    return
                if case.agent == "swallow":
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(case.delay)
                    for event in say("after all", message="m2") if case.stop_at % 2 else ():
                        yield event
                end = finished(run_input)
                if case.agent == "interrupt":
                    asked = RunFinishedInterruptOutcome(interrupts=[Interrupt(id="i", reason="a")])
                    end = end.model_copy(update={"outcome": asked})
                yield end
            finally:
                await asyncio.sleep(case.delay if case.agent == "slow finally" else 0)

    return agent


async def consume(case: Case, run: Run) -> None:  # noqa: C901, PLR0912 - one branch for each ending
    """Use one run as its case says."""
    loop = asyncio.get_running_loop()
    if case.ending == "cancel before":
        run.cancel("early")
    if case.ending == "cancel later" or case.agent == "hang":
        loop.call_later(case.delay, run.cancel, "later")
    if case.ending == "cancel twice":
        loop.call_later(case.delay, run.cancel, "first")
        loop.call_later(case.delay * 1.2, run.cancel, "second")
    if case.ending == "await":
        await run
        return
    stream = aiter(run)
    if case.ending == "leave open":
        case.kept = stream
    async for event in stream:
        case.events.append(event)
        if len(case.events) != case.stop_at:
            continue
        if case.ending in ("break", "drop", "leave open"):
            break
        if case.ending in ("break and close", "cancel and break", "cancel while closing"):
            if case.ending != "break and close":
                run.cancel("leaving")
            if case.ending == "cancel while closing":
                loop.call_later(case.delay, run.cancel, "again")
            break
        if case.ending == "cancel at event":
            run.cancel("seen enough")
    if case.ending not in ("drop", "leave open"):
        await run.aclose()


async def play(case: Case, host: Host, run_input: RunAgentInput) -> None:
    """Play one run in a task of its own, and end that task as the case says."""
    run = host.run(run_input, attributes={"case": case})
    if case.ending == "timeout":
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(case.delay):
                await consume(case, run)
        return
    task = asyncio.create_task(consume_alone(case, run))
    del run
    loop = asyncio.get_running_loop()
    if case.ending in ("task", "task twice", "task and cancel"):
        loop.call_later(case.delay, task.cancel)
    if case.ending == "task twice":
        loop.call_later(case.delay + 0.001, task.cancel)
    if case.ending == "host exit":
        return
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    if case.ending not in ("drop", "leave open"):
        assert not +case.open, "a generator was left to the garbage collector"


async def consume_alone(case: Case, run: Run) -> None:
    await consume(case, run)
    task = asyncio.current_task()
    assert task is not None
    assert case.ending.startswith("task") or task.cancelling() == 0, "a cancellation was left over"


def verify(case: Case, run_input: RunAgentInput) -> None:
    """Check everything that holds for a run, however it ended."""
    verifier = Verifier(run_input.thread_id, run_input.run_id)
    for event in case.events:
        verifier.check(event)
    if case.ending in ("drain", "cancel before", "cancel at event", "cancel later", "cancel twice"):
        verifier.finish()
    assert all(count == 0 for count in case.open.values()), "a generator is open"
    assert all(file.closed for file in case.files), "a file is open"
    assert case.deferred_ran == case.deferred
    standing: list[Any] = []
    told: dict[Any, list[str]] = {}
    for what, frame in case.log:
        if what == "setup":
            standing.append(frame)
        elif what == "end":
            assert standing.pop() is frame, "terminal hooks out of order"
            assert len(told[frame]) == 1, "not exactly one terminal hook"
        else:
            assert standing[-1] is frame
            told.setdefault(frame, []).append(what)
    assert not standing, "a layer was not told of the end"
    if case.ending != "await" and case.log and case.log[-1][0] == "end":
        # The outermost layer has one attempt only: its end is that of the run.
        assert told[case.log[-1][1]] == [kind_of(case.events)]


def kind_of(events: list[BaseEvent]) -> str:
    """Return the hook that the consumer's last event stands for; nothing after it counts."""
    last = events[-1] if events else None
    if isinstance(last, RunErrorEvent):
        return "error"
    if isinstance(last, RunFinishedEvent):
        return "abort" if isinstance(last.outcome, RunFinishedCancelledOutcome) else "finish"
    return "abort"


def watch_generators() -> list[weakref.ref[Any]]:
    """Keep a weak reference to every async generator that is started from now on in this loop."""
    seen: list[weakref.ref[Any]] = []
    before = sys.get_asyncgen_hooks()

    def first(generator: AsyncGenerator[Any, Any]) -> None:
        seen.append(weakref.ref(generator))
        assert before.firstiter is not None
        before.firstiter(generator)

    sys.set_asyncgen_hooks(firstiter=first)
    return seen


def make_case(rng: random.Random, layers: list[Layer]) -> Case:
    acts = {layer.id: rng.choice(ACTS) for layer in layers if rng.random() < 0.15}
    return Case(
        agent=rng.choice(AGENTS),
        ending=rng.choice(ENDINGS),
        delay=rng.choice([0.0, 0.0005, 0.002, 0.01]),
        linger=rng.choice([0.0, 0.0, 0.002]),
        stop_at=rng.randint(1, 7),
        acts=acts,
    )


async def play_host(rng: random.Random, *, strict: bool) -> None:
    """Play many runs at once on one host with a chain of its own; check each when all is over."""
    kinds = [rng.choice(KINDS) for _ in range(rng.randint(0, 6))]
    layers = [
        Layer(kind, id=f"l{index}", on_failure="skip" if rng.random() < 0.2 else None)
        for index, kind in enumerate(kinds)
    ]
    cases: dict[str, Case] = {}
    inputs: list[RunAgentInput] = []
    overrides = {"host": {"ending_deadline": ENDING_DEADLINE}}
    loop = asyncio.get_running_loop()
    async with Host(layers, agent=agent_for(cases), overrides=overrides, strict=strict) as host:
        playing = []
        for index in range(RUNS):
            run_input = RunAgentInput(thread_id=f"t{index}", run_id=f"r{index}", messages=[])
            cases[run_input.run_id] = case = make_case(rng, layers)
            inputs.append(run_input)
            playing.append(asyncio.create_task(play(case, host, run_input)))
        await asyncio.wait(playing)
        for task in playing:
            task.result()
        gc.collect()
        leaving = loop.time()
    assert loop.time() - leaving < ENDING_DEADLINE / 2, "the host waited for a run that was over"
    await asyncio.sleep(0.01)
    for run_input in inputs:
        case = cases[run_input.run_id]
        try:
            verify(case, run_input)
        except Exception as error:
            chain = ", ".join(
                f"{kind.__name__}({layer.on_failure or ''})"
                for kind, layer in zip(kinds, layers, strict=True)
            )
            happened = [(what, frame.__class__.__name__) for what, frame in case.log]
            error.add_note(
                f"chain: {chain}\ncase: {case.agent}, {case.ending}, {case.delay} s, at {case.stop_at}, {case.acts}\nlog: {happened}"
            )
            raise


@pytest.mark.parametrize("seed", range(10))
def test_whatever_ends_a_run_every_layer_hears_of_it_once_and_nothing_stays_open(seed: int) -> None:
    complaints: list[Any] = []

    async def main() -> None:
        rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        gc.freeze()  # collections look at what the runs leave, not at the whole test session
        asyncio.get_running_loop().set_exception_handler(lambda _, found: complaints.append(found))
        generators = watch_generators()
        tasks = asyncio.all_tasks()
        for number in range(HOSTS):
            await play_host(rng, strict=number % 4 == 3)
        assert asyncio.all_tasks() == tasks
        gc.collect()
        await asyncio.sleep(0)
        found = [reference() for reference in generators]
        assert not [each for each in found if each is not None and each.ag_frame is not None]

    try:
        asyncio.run(main())
    finally:
        gc.unfreeze()
    assert complaints == []
