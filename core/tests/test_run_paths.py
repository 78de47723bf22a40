"""A first run, a resumed one and a replay take one way; and runs follow each other on a thread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    ResumeEntry,
    RunAgentInput,
    RunFinishedInterruptOutcome,
    TextMessageContentEvent,
    UserMessage,
)
from loguru import logger
from playing import agent_of, finished, say, started

from interpose import Host, Layer, Middleware, Result, RunContext, on
from interpose.agui import Verifier, resume_entries, violations

ASK = Interrupt(id="ask", reason="approval")
Raw = dict[str, Any]
GOOD: list[Raw] = [
    {"type": "SMELL"},
    {"type": "THINKING_START"},
    {"type": "THINKING_END"},
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "hi", "mood": "good"},
]
CASES: dict[str, list[Raw]] = {
    "good": GOOD,
    "out of order": [{"type": "TEXT_MESSAGE_END", "messageId": "never-opened"}],
    "no first id": [{"type": "TEXT_MESSAGE_CHUNK", "delta": "hi"}],
    "malformed": [{"type": "CUSTOM", "name": 5, "value": 1}],
}


class Shouts(Middleware):
    @on(TextMessageContentEvent)
    def shout(self, ctx: RunContext, event: TextMessageContentEvent) -> Result:
        ctx.attributes["heard"].append(event.delta)
        return event.model_copy(update={"delta": event.delta.upper()})


def whole(events: Sequence[Raw], run_input: RunAgentInput, *, ends: bool) -> list[Raw]:
    ids = {"threadId": run_input.thread_id, "runId": run_input.run_id}
    last: list[Raw] = [{"type": "RUN_FINISHED", **ids, "outcome": None}] if ends else []
    return [{"type": "RUN_STARTED", **ids}, *events, *last]


def live(events: Sequence[Raw], *, ends: bool) -> Any:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[Any]:
        for raw in whole(events, run_input, ends=ends):
            yield raw

    return agent


ASKED = RunAgentInput(thread_id="t", run_id="r", messages=[UserMessage(id="u", content="hi")])
RESUMED = ASKED.model_copy(
    update={"resume": [ResumeEntry(interrupt_id="ask", status="resolved", payload=1)]}
)


@pytest.fixture(params=["a first run", "a resumed run", "a replay"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Play events one of the ways; returns what left, what the layer heard, and the warnings."""

    async def play(events: Sequence[Raw], *, ends: bool) -> tuple[list[BaseEvent], list[str]]:
        heard: list[str] = []
        asked, pending = ASKED, None
        if request.param == "a replay":
            recorded = RunAgentInput(thread_id="old", run_id="old", messages=[])
            file = tmp_path / "capture.jsonl"
            file.write_text("\n".join(map(json.dumps, whole(events, recorded, ends=ends))))
            agents = {"agent": {"use": "scripted", "file": str(file)}}
            host = Host([Shouts], overrides=agents)
        else:
            host = Host([Shouts], agent=live(events, ends=ends))
            if request.param == "a resumed run":
                asked, pending = RESUMED, [ASK]
        async with host:
            run = host.run(asked, pending=pending, attributes={"heard": heard})
            return [event async for event in run], heard

    def played(events: Sequence[Raw], *, ends: bool = True) -> Any:
        lines: list[str] = []
        logger.enable("interpose")
        number = logger.add(lambda said: lines.append(said.record["message"]), level="WARNING")
        try:
            left, heard = asyncio.run(play(events, ends=ends))
        except Exception as error:  # noqa: BLE001 - a recording is read when the host starts
            return error, [], lines
        finally:
            logger.remove(number)
            logger.disable("interpose")
        return left, heard, lines

    return played


def test_every_path_converts_strips_expands_and_goes_through_the_layers(
    path: Callable[..., Any],
) -> None:
    left, heard, lines = path(GOOD)
    assert [event.type.value for event in left] == [
        *("RUN_STARTED", "REASONING_START", "REASONING_END"),
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"),
    ]
    assert left[4].delta == "HI"
    assert (left[0].run_id, left[-1].run_id) == ("r", "r")
    assert heard == ["hi"]
    said = "\n".join(lines)
    for warning in (
        "dropped an event of unknown type: SMELL",
        "read THINKING_* events as REASONING_* events, with ids made up",
        "TEXT_MESSAGE_CHUNK: removed mood, which AG-UI does not describe",
        "read outcome: null as absent, as AG-UI before 1.0 meant it",
    ):
        assert said.count(warning) == 1, warning


@pytest.mark.parametrize("case", ["out of order", "no first id"])
def test_every_path_verifies(path: Callable[..., Any], case: str) -> None:
    left, _, _ = path(CASES[case])
    assert left[-1].code == "invalid-stream"
    assert list(violations(left)) == []


def test_every_path_refuses_what_is_malformed(path: Callable[..., Any]) -> None:
    left, _, _ = path(CASES["malformed"])
    refused = left if isinstance(left, Exception) else left[-1]
    assert getattr(refused, "code", None) == "invalid-stream" or "CUSTOM is malformed" in str(
        refused
    )


def test_on_every_path_a_truncated_stream_is_no_success(path: Callable[..., Any]) -> None:
    left, _, _ = path(GOOD, ends=False)
    assert left[-1].code == "truncated-stream"
    assert list(violations(left)) == []


# -- several runs -------------------------------------------------------------------------------


class Counts(Middleware):
    """Counts what it sees of its own run."""

    def setup(self, ctx: RunContext) -> None:
        self.seen = 0

    def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
        self.seen += 1

    def on_end(self, ctx: RunContext, end: Any) -> None:
        ctx.attributes["seen"].append(self.seen)


def test_runs_on_one_thread_follow_each_other_with_the_same_ids_inside() -> None:
    seen: list[int] = []

    async def main() -> list[BaseEvent]:
        stream: list[BaseEvent] = []
        async with Host([Counts], agent=agent_of(*say("hello"))) as host:
            messages: Sequence[Any] = [UserMessage(id="u", content="hi")]
            for _ in range(3):
                run = host.run(messages, thread_id="t", attributes={"seen": seen})
                stream += [event async for event in run]
                messages = (await run).messages
        return stream

    stream = asyncio.run(main())
    verifier = Verifier("t")
    for event in stream:
        verifier.check(event)
    verifier.finish()
    started_ids = {event.run_id for event in stream if event.type.value == "RUN_STARTED"}  # type: ignore[attr-defined]
    assert len(started_ids) == 3
    assert seen == [5, 5, 5], "each run has an instance of its own"


def test_an_interrupted_thread_goes_on_through_the_same_layers() -> None:
    inputs: list[RunAgentInput] = []
    heard: list[str] = []

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        inputs.append(run_input)
        yield started(run_input)
        end = finished(run_input)
        if run_input.resume:
            for event in say("done", message="m2"):
                yield event
        else:
            for event in say("may I?"):
                yield event
            outcome = RunFinishedInterruptOutcome(interrupts=[ASK])
            end = end.model_copy(update={"outcome": outcome})
        yield end

    async def main() -> tuple[Any, Any]:
        async with Host([Layer(Shouts)], agent=agent) as host:
            first = await host.run(ASKED, attributes={"heard": heard})
            again = ASKED.model_copy(
                update={
                    "run_id": "r2",
                    "messages": list(first.messages),
                    "resume": resume_entries(first.interrupts, {"ask": {"ok": True}}),
                }
            )
            second = host.run(again, pending=first.interrupts, attributes={"heard": heard})
            return first, await second

    first, second = asyncio.run(main())
    assert (first.outcome, second.outcome) == ("interrupt", "success")
    assert [message.content for message in second.messages] == ["hi", "MAY I?", "DONE"]
    assert heard == ["may I?", "done"]
    assert inputs[1].resume is not None
    assert inputs[1].resume[0].payload == {"ok": True}


def test_a_recording_of_several_runs_plays_the_first_and_says_so(tmp_path: Path) -> None:
    runs = [
        event
        for number in range(2)
        for event in whole(
            CASES["good"],
            RunAgentInput(thread_id="old", run_id=f"r{number}", messages=[]),
            ends=True,
        )
    ]
    file = tmp_path / "capture.jsonl"
    file.write_text("\n".join(map(json.dumps, runs)))
    lines: list[str] = []
    logger.enable("interpose")
    number = logger.add(lambda said: lines.append(said.record["message"]), level="WARNING")

    async def main() -> list[BaseEvent]:
        async with Host(overrides={"agent": {"use": "scripted", "file": str(file)}}) as host:
            return [event async for event in host.run(ASKED)]

    try:
        events = asyncio.run(main())
    finally:
        logger.remove(number)
        logger.disable("interpose")
    assert [event.type.value for event in events].count("RUN_STARTED") == 1
    assert "the recording holds 2 runs; only the first is played" in lines
