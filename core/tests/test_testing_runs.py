"""The checks of runs: what they notice, what they leave alone, and what they say."""

from __future__ import annotations

import asyncio
import functools
import itertools
import queue
import socket
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from time import sleep as nap
from types import SimpleNamespace
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunAgentInput,
    TextMessageContentEvent,
    TextMessageEndEvent,
)
from pydantic import Field

from interpose import (
    CallRun,
    EndInfo,
    FinishInfo,
    LifespanContext,
    Middleware,
    NoSettings,
    Result,
    RunContext,
    Settings,
    on,
)
from interpose.testing import ContractViolation, contract, scripted
from interpose.testing.contracts.aftermath import Gauges
from interpose.testing.contracts.bench import Bench, own_files, settled, where
from interpose.testing.contracts.blocking import WouldBlock, noticing
from interpose.testing.contracts.players import StreamPlayer
from interpose.testing.contracts.reaching import holder, numbers
from interpose.testing.contracts.scripts import ADA, BOB, Script, long, message, renamed, short
from interpose.testing.contracts.state_image import StateImage
from interpose.testing.contracts.subject import Subject, subject_of

CACHE: dict[str, Any] = {"seen": [1], "deep": {"er": {1}}}
TOTAL = 0
NUMBERS = itertools.count(5, 2)
LOCK = threading.Lock()


@functools.lru_cache
def upper(text: str) -> str:
    return text.upper()


def counter() -> Any:
    count = 0

    def add() -> int:
        nonlocal count
        count += 1
        return count

    return add


class Learnt(Settings):
    words: list[str] = Field(default_factory=list)


class Stateful(Middleware[Learnt]):
    latest: str | None = None
    add = staticmethod(counter())

    @staticmethod
    def note(text: str, notes: list[str] = []) -> list[str]:  # noqa: B006 - the state of a default
        notes.append(text)
        return notes


def subject(cls: type[Middleware[Any, Any]], settings: Any = None) -> Subject:
    return subject_of(cls, settings, None, None, ())


def told(cls: type[Middleware[Any, Any]], check: str, agent: object = None) -> str:
    """Return what the check says of a class, or ``""``."""
    found = {each.name: each for each in contract(cls, agent=agent)}[check]
    try:
        found()
    except ContractViolation as violation:
        return str(violation)
    return ""


# The image of state -----------------------------------------------------------------------------
def test_an_image_names_each_place_that_changed_and_puts_it_back() -> None:
    global TOTAL  # noqa: PLW0603 - what the image is to notice
    it = subject(Stateful, {"words": ["a"]})
    image = StateImage(it)
    assert image.changes() == []

    CACHE["seen"].append(2)
    CACHE["deep"]["er"].add(2)
    TOTAL += 1
    next(NUMBERS)
    LOCK.acquire()
    Stateful.latest = "hello"
    Stateful.add()
    Stateful.note("x")
    it.settings.words.append("b")  # type: ignore[attr-defined]
    upper("abc")

    assert set(image.changes()) == {
        "the module's global CACHE",
        "the module's global TOTAL",
        "the module's global NUMBERS",
        "the module's global LOCK",
        "the class attribute Stateful.latest",
        "the variable count around counter.<locals>.add",
        "a default argument of Stateful.note",
        "the settings",
        "the functools cache of the module's global upper",
    }
    assert image.changes()[-1].startswith("the functools cache"), "what is pure is named last"

    seen = CACHE["seen"]
    image.restore()
    assert image.changes() == []
    assert CACHE["deep"] == {"er": {1}}
    assert CACHE["seen"] == [1]
    assert CACHE["seen"] is seen, "it is put back in place"
    assert TOTAL == 0
    assert next(NUMBERS) == 5
    assert not LOCK.locked()
    assert Stateful.latest is None
    assert Stateful.add() == 1
    assert Stateful.note("y") == ["y"]
    assert it.settings.words == ["a"]
    image.restore()


def test_an_image_takes_a_name_away_that_was_not_there() -> None:
    image = StateImage(subject(Stateful))
    Stateful.added = "later"  # type: ignore[attr-defined]
    assert image.changes() == ["the class attribute Stateful.added"]
    image.restore()
    assert not hasattr(Stateful, "added")


# What can be reached ----------------------------------------------------------------------------
class Thing:
    def method(self) -> None: ...


def test_a_holder_is_named_by_the_path_to_it() -> None:
    thing = Thing()
    shared = SimpleNamespace(runs={"run-1": deque([thing])})
    assert holder([("shared", shared)], [thing]) == "shared.runs['run-1'][0]"
    assert holder([("shared", {"cb": thing.method})], [thing]).startswith("shared['cb']")
    assert holder([("shared", {thing: 1})], [thing]) == "a key of shared"
    assert holder([("shared", {thing})], [thing]) == "a member of shared"
    partial = functools.partial(print, thing)
    assert holder([("shared", [partial])], [thing]) == "shared[0] (an argument of it)"
    cached = functools.lru_cache(Thing.method)
    cached(thing)
    assert holder([("f", cached)], [thing]).startswith("the functools cache of f")


def test_what_is_only_referred_to_weakly_is_not_held() -> None:
    thing = Thing()
    shared = [weakref.ref(thing), weakref.WeakKeyDictionary({thing: 1}), weakref.WeakSet([thing])]
    assert holder([("shared", shared)], [thing]) == ""


def test_an_event_loop_is_nothing_that_a_run_holds() -> None:
    async def play() -> None:
        event = asyncio.Event()
        waiting = asyncio.create_task(event.wait())
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        assert holder([("shared", {"event": event, "task": waiting})], [loop]) != ""
        seen = numbers([("shared", {"event": event, "task": waiting})])
        assert not [path for path in seen if "_loop" in path]
        event.set()
        await waiting

    asyncio.run(play())


def test_numbers_are_sizes_counts_and_locks() -> None:
    lock = threading.Lock()
    shared = SimpleNamespace(active=2, runs={"a": 1}, semaphore=asyncio.Semaphore(3), lock=lock)
    before = numbers([("shared", shared)])
    assert before["shared.active"] == 2
    assert before["len(shared.runs)"] == 1
    assert before["shared.semaphore._value"] == 3
    assert before["shared.lock.locked()"] == 0
    with lock:
        assert numbers([("shared", shared)])["shared.lock.locked()"] == 1


def test_a_gauge_comes_back_after_a_good_end_and_a_counter_does_not() -> None:
    gauges = Gauges()
    gauges.learn(
        {"active": 0, "total": 0},
        [{"active": 1, "total": 1, "len(runs)": 1}],
        {"active": 0, "total": 1},
    )
    assert gauges.missed({"active": 0, "total": 7}) == ""
    assert gauges.missed({"active": 1}) == (
        "active is 1 afterwards: it was 0 before, 1 while a run went on, and 0 again after a run "
        "that ended well"
    )
    assert gauges.missed({"active": 0, "len(runs)": 1}).startswith("len(runs) is 1")
    assert gauges.missed({"active": 0, "len(runs)": 1}, only_numbers=True) == ""


# Driving runs -----------------------------------------------------------------------------------
class Gate(Middleware[NoSettings, asyncio.Event]):
    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: NoSettings, ctx: LifespanContext
    ) -> AsyncGenerator[asyncio.Event]:
        yield asyncio.Event()

    @on(TextMessageEndEvent)
    async def end(self, ctx: RunContext, event: TextMessageEndEvent) -> None:
        await self.shared.wait()


def test_a_run_is_driven_event_by_event_and_one_that_waits_is_seen_to() -> None:
    async def main() -> None:
        it = subject(Gate)
        bench = Bench(it, StreamPlayer(it))
        async with bench.opened() as opened:
            first = opened.shared
            driven = opened.drive(Script(message()))
            for count in range(1, 5):
                assert await driven.step()
                assert len(driven.events) == count
            assert not await driven.step()
            assert driven.waits
            assert where(driven.task, own_files(Gate)).startswith("Gate.end (test_testing_runs.py")
            opened.shared.set()
            assert await driven.play()
            assert driven.result is not None
            assert driven.result.outcome == "success"
        async with bench.opened() as again:
            assert again.shared is not first, "each time that it is opened, lifespans begin anew"
            left = again.drive(Script(message()))
            assert await left.play(most=2)
            assert await left.leave()
            assert len(left.events) == 2

    asyncio.run(main())


def test_what_waits_for_a_thread_gets_time() -> None:
    async def main() -> None:
        done = threading.Event()
        threading.Timer(0.05, done.set).start()
        assert await settled(done.is_set)
        assert not await settled(lambda: False, naps=0)

    asyncio.run(main())


def test_the_runs_of_two_users_differ_in_all_that_is_said() -> None:
    events = long(subject(Stateful))
    others = renamed(events, BOB)
    assert [type(each) for each in events] == [type(each) for each in others]
    assert not any(ADA in other.model_dump_json() for other in others)
    assert any(BOB in other.model_dump_json() for other in renamed(short(), BOB))


# Blocking ---------------------------------------------------------------------------------------
def test_blocking_calls_of_own_code_on_this_thread_are_noticed() -> None:
    with noticing(Stateful) as blocked:
        time.sleep(1000)  # skipped, or the test would never end
        nap(1000)
        with pytest.raises(WouldBlock):
            subprocess.run(["/bin/true"], check=False)
        with pytest.raises(WouldBlock):
            socket.create_connection(("127.0.0.1", 9))
        with pytest.raises(WouldBlock):
            threading.Event().wait()
        with pytest.raises(WouldBlock):
            queue.Queue[int]().get()
    kinds = [call.partition(" in ")[0] for call in blocked.calls]
    assert kinds == [
        "time.sleep",
        "time.sleep",
        "subprocess",
        "a connection",
        "a wait for another thread",
        "a wait for another thread",
    ]
    assert "test_blocking_calls" in blocked.calls[0]
    assert "(test_testing_runs.py, line " in blocked.calls[0]


def test_what_does_not_block_is_not_noticed() -> None:
    async def main() -> None:
        await asyncio.to_thread(time.sleep, 0.001)
        process = await asyncio.create_subprocess_exec("true")
        assert await process.wait() == 0

    done = threading.Event()
    done.set()
    filled = queue.Queue[int]()
    filled.put(1)
    with noticing(Stateful) as blocked:
        asyncio.run(main())
        done.wait()
        filled.get()
        with LOCK:
            pass
        thread = threading.Thread(target=time.sleep, args=(0.001,))
        thread.start()
        while thread.is_alive():
            pass
    assert blocked.calls == []


def test_everything_is_put_back() -> None:
    before = (time.sleep, nap, socket.socket.connect, threading.Condition.wait)
    with noticing(Stateful):
        assert nap is not before[1]
    assert (time.sleep, nap, socket.socket.connect, threading.Condition.wait) == before
    assert "connect" not in vars(socket.socket)


# What the checks say, and leave alone -----------------------------------------------------------
LAST: list[str] = []


class Echoes(Middleware):
    @on(TextMessageContentEvent)
    def content(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
        LAST.append(event.delta)

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        said = f"[{len(LAST)}]"
        return [TextMessageContentEvent(message_id=event.message_id, delta=said), event]


def test_a_breach_names_what_changed_and_shows_the_smallest_stream() -> None:
    LAST.clear()
    assert told(Echoes, "no-shared-state") == (
        "Echoes breaks its contract: no-shared-state\n"
        "  happened: two runs, each in a host of its own, one after the other: the second was not "
        'what it is alone: text 1 was ".[2]"\n'
        '    and is ".[1]" alone\n'
        "    the module's global LAST changed during the runs\n"
        "  expected: a run goes as it does alone: what belongs to it is kept on self, which is "
        "made for each run, and what runs share on purpose is made in lifespan\n"
        "  why it matters: A server runs many users at once. State on the class, the module or a "
        "shared object mixes them up: one user reads what another one said.\n"
        "  the smallest stream that shows it:\n"
        '    {"type":"TEXT_MESSAGE_START","messageId":"message-2","role":"assistant"}\n'
        '    {"type":"TEXT_MESSAGE_CONTENT","messageId":"message-2","delta":"."}\n'
        '    {"type":"TEXT_MESSAGE_END","messageId":"message-2"}'
    )
    assert LAST == [], "the contract leaves the module as it was"


class Active(Middleware[NoSettings, SimpleNamespace]):
    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: NoSettings, ctx: LifespanContext
    ) -> AsyncGenerator[SimpleNamespace]:
        yield SimpleNamespace(active=0)

    def setup(self, ctx: RunContext) -> None:
        self.shared.active += 1

    def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
        self.shared.active -= 1


def test_what_is_not_given_back_is_told_with_the_end_after_which_it_is_not() -> None:
    said = told(Active, "balanced-hooks").splitlines()
    assert said[1] == (
        "  happened: the agent raised: shared.active is 1 afterwards: it was 0 before, 1 while a "
        "run went on, and 0 again after a run that ended well"
    )
    assert "the smallest stream" not in "\n".join(said), "it needs no event"


class Jobs(Active):
    """Counts jobs, of which only a certain agent speaks."""

    def setup(self, ctx: RunContext) -> None: ...

    def on_finish(self, ctx: RunContext, info: FinishInfo) -> None: ...

    @on(CustomEvent)
    def job(self, ctx: RunContext, event: CustomEvent) -> None:
        self.shared.active += 1 if event.name == "begins" else -1


def test_what_only_the_authors_own_agent_sends_is_played_to_all_ends_too() -> None:
    begins, ends = (CustomEvent(name=name, value=1) for name in ("begins", "ends"))
    assert told(Jobs, "balanced-hooks", agent=scripted("Hello", begins, "again", ends, "bye"))
    assert not told(Jobs, "balanced-hooks"), "no other agent speaks of jobs"


class KeepAlive(Middleware):
    """Waits for the next event in a task, so as to do something meanwhile."""

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        events: asyncio.Queue[BaseEvent | None] = asyncio.Queue()

        async def pump() -> None:
            try:
                async for event in call_next(run_input):
                    await events.put(event)
            finally:
                events.put_nowait(None)

        pumping = asyncio.create_task(pump())
        try:
            while (event := await events.get()) is not None:
                yield event
            await pumping
        finally:
            pumping.cancel()


class Background(Middleware[NoSettings, dict[str, Any]]):
    """Begins a worker with the first run, which serves all of them."""

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: NoSettings, ctx: LifespanContext
    ) -> AsyncGenerator[dict[str, Any]]:
        shared: dict[str, Any] = {}
        yield shared
        if "worker" in shared:
            shared["worker"].cancel()

    def setup(self, ctx: RunContext) -> None:
        if "worker" not in self.shared:
            self.shared["worker"] = asyncio.create_task(asyncio.Event().wait())


class ForgetsWorker(Background):
    """The same, but the worker outlives the host."""

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: NoSettings, ctx: LifespanContext
    ) -> AsyncGenerator[dict[str, Any]]:
        yield {}


class Sampled(Middleware[NoSettings, Iterator[int]]):
    """Says something else each time, whether there are other runs or not."""

    numbers = itertools.count()

    @on(TextMessageEndEvent)
    def end(self, ctx: RunContext, event: TextMessageEndEvent) -> Result:
        said = f" ({time.monotonic_ns()})"
        return [TextMessageContentEvent(message_id=event.message_id, delta=said), event]


@pytest.mark.parametrize("cls", [KeepAlive, Background, Sampled])
@pytest.mark.parametrize(
    "check",
    ["no-shared-state", "shared-many-runs", "balanced-hooks", "honours-cancel", "no-held-context"],
)
def test_unusual_middlewares_raise_no_alarm(cls: type[Middleware[Any, Any]], check: str) -> None:
    assert told(cls, check) == ""


def test_a_worker_that_outlives_the_host_is_noticed() -> None:
    said = told(ForgetsWorker, "balanced-hooks")
    assert "a task goes on when the host has stopped: Event.wait, which waits in" in said


class Swallows(Middleware):
    @on(TextMessageContentEvent)
    async def content(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            ctx.log.debug("go on")


def test_a_cancellation_is_tried_at_every_turn_of_the_loop() -> None:
    said = told(Swallows, "honours-cancel").splitlines()[1]
    assert "cancelled while it waited in Swallows.content (test_testing_runs.py, line" in said
    assert said.endswith("more events")


class Ends(Middleware):
    def on_end(self, ctx: RunContext, end: EndInfo) -> None:
        nap(0.001)


def test_a_name_that_was_imported_is_noticed_too() -> None:
    said = told(Ends, "no-blocking").splitlines()[1]
    assert said.startswith("  happened: a call blocks the loop: time.sleep in Ends.on_end (")
