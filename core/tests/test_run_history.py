"""The history cut: an agent that offers HISTORY runs the rewriters itself, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import BaseEvent, RunAgentInput, TextMessageChunkEvent, TextMessageContentEvent
from playing import finished, play, say, started

from interpose import (
    AgentContext,
    Covers,
    Host,
    Layer,
    Middleware,
    Point,
    RunContext,
    Scan,
    TextTransform,
    on,
)


class Mask(TextTransform):
    covers = Covers.TEXT
    rewrites_history = True

    def scan(self, text: str, start: int, final: bool) -> Scan:  # noqa: FBT001 - the contract
        found = text.find("secret", start)
        if found >= 0:
            return Scan([(found, found + 6, f"[{text[found : found + 6]}]"[:1] + "…]")], found + 6)
        return Scan([], len(text) if final else max(start, len(text) - 5))


class Folds:
    """An agent that keeps a history of what its model said."""

    points: tuple[Point, ...] = (Point.RUN, Point.EVENTS, Point.HISTORY)

    def __init__(self) -> None:
        self.history: list[str] = []

    async def model(self) -> AsyncIterator[BaseEvent]:
        for delta in ("a sec", "ret and", " more"):
            yield TextMessageChunkEvent(message_id="m", role="assistant", delta=delta)

    async def run(self, run_input: RunAgentInput, ctx: AgentContext) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        said = ""
        async for event in ctx.rewrite(self.model()):
            said += getattr(event, "delta", "")
            yield event
        self.history.append(said)
        yield finished(run_input).model_copy(update={"result": said})


def test_stream_history_and_result_agree_and_rewriters_run_once() -> None:
    agent = Folds()
    seen: list[Any] = []

    class Outer(Middleware):
        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            seen.append(event.delta)

    for strict in (False, True):
        seen.clear()
        agent.history.clear()
        played = play([Outer, Mask], agent, strict=strict)
        assert played.text == "a […] and more"
        assert played.result.result == "a […] and more"
        assert agent.history == ["a […] and more"]
        assert "".join(seen) == played.text


def test_the_plan_does_not_warn_when_the_agent_offers_history() -> None:
    assert Host([Mask], agent=Folds()).warnings == ()


def test_a_failing_rewriter_fails_the_run_and_nothing_is_kept() -> None:
    class Fails(Middleware):
        rewrites_history = True

        @on(TextMessageContentEvent)
        def see(self, ctx: RunContext, event: TextMessageContentEvent) -> BaseEvent:
            raise ValueError("down")

    agent = Folds()
    played = play([Fails], agent)
    assert played.error == ("middleware-failed", "The run could not be completed.")
    assert isinstance(played.result.error, ValueError)
    assert agent.history == []


def test_rewrite_is_refused_to_an_agent_that_does_not_offer_history() -> None:
    class Plain(Folds):
        points = (Point.RUN, Point.EVENTS)

    assert "does not offer HISTORY" in str(play([Mask], Plain()).result.error)


class FakeClock:
    """Time that stands until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleepers: list[tuple[float, asyncio.Event]] = []

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float, /) -> None:
        woken = asyncio.Event()
        self.sleepers.append((self.now + seconds, woken))
        await woken.wait()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for due, woken in self.sleepers:
            if due <= self.now:
                woken.set()


def test_a_deadline_obeys_the_clock_of_the_host() -> None:
    waiting = asyncio.Event()

    class Waits(Middleware):
        @on(TextMessageContentEvent)
        async def see(self, ctx: RunContext, event: TextMessageContentEvent) -> None:
            waiting.set()
            await asyncio.Event().wait()

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        for event in say("hello"):
            yield event

    async def main() -> Any:
        clock = FakeClock()
        async with Host([Layer(Waits, deadline=3600)], agent=agent, clock=clock) as host:
            task = asyncio.ensure_future(host.run("hi"))
            await waiting.wait()
            clock.advance(3599)
            await asyncio.sleep(0)
            assert not task.done()
            clock.advance(1)
            result = await task
            assert asyncio.all_tasks() == {asyncio.current_task()} | {
                each for each in asyncio.all_tasks() if "lifespans" in each.get_name()
            }
            return result

    assert asyncio.run(main()).error.code == "deadline-exceeded"
