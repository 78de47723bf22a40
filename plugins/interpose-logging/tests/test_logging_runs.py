"""Whole runs through a host, and the lines that they leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallEndEvent,
    ToolCallStartEvent,
    UserMessage,
)
from loguru import logger

from interpose import Host, Layer, StartupError
from interpose_logging import Logging

Agent = Callable[[RunAgentInput], AsyncIterator[BaseEvent]]


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Collect what loguru is given, as an embedding application would."""
    taken: list[str] = []
    logger.enable("interpose_logging")
    handler = logger.add(
        lambda text: taken.append(str(text).rstrip("\n")),
        level="DEBUG",
        format="{level} {message}",
        filter="interpose_logging",
    )
    yield taken
    logger.remove(handler)
    logger.disable("interpose_logging")


def started(run_input: RunAgentInput) -> RunStartedEvent:
    return RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


def finished(run_input: RunAgentInput, **more: Any) -> RunFinishedEvent:
    return RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id, **more)


async def greet(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    yield started(run_input)
    yield TextMessageStartEvent(message_id="m1")
    yield TextMessageContentEvent(message_id="m1", delta="my secret answer")
    yield TextMessageEndEvent(message_id="m1")
    yield ToolCallStartEvent(tool_call_id="c1", tool_call_name="search")
    yield ToolCallEndEvent(tool_call_id="c1")
    yield finished(run_input, usage=[TokenUsage(model="m", input_tokens=3, output_tokens=4)])


def asked(run_id: str = "r1") -> RunAgentInput:
    message = UserMessage(id="u1", content="my secret question")
    return RunAgentInput(thread_id="t1", run_id=run_id, messages=[message])


def host_of(agent: Agent, settings: dict[str, Any]) -> Host:
    return Host(layers=[Layer(Logging, settings)], agent=agent)


def play(agent: Agent, run_input: RunAgentInput | None = None, **settings: Any) -> None:
    """Run to the end."""

    async def main() -> None:
        host = host_of(agent, settings)
        async with host:
            async for _ in host.run(run_input or asked()):
                pass

    asyncio.run(main())


def ending(lines: list[str]) -> dict[str, Any]:
    """Return the one end line, which must be the last, without its duration."""
    records: list[dict[str, Any]] = [json.loads(line.partition(" ")[2]) for line in lines]
    assert [record["kind"] for record in records].count("run-started") == 1
    assert [record["kind"] for record in records].count("run-ended") == 1
    last = records[-1]
    assert 0 <= last["duration"] < 60
    assert last["kind"] == "run-ended"
    return last


def test_a_success_leaves_a_start_line_and_an_end_line(lines: list[str]) -> None:
    play(greet, events=False)
    first, last = lines
    assert first.startswith("INFO run started run_id=r1 thread_id=t1 request_id=")
    assert first.endswith(" agent=default attempt=1")
    assert last.startswith("INFO run ended run_id=r1 thread_id=t1 request_id=")
    assert " outcome=success duration=" in last
    assert last.endswith(
        ' events=7 types={"RUN_STARTED":1,"TEXT_MESSAGE_START":1,"TEXT_MESSAGE_CONTENT":1,'
        '"TEXT_MESSAGE_END":1,"TOOL_CALL_START":1,"TOOL_CALL_END":1,"RUN_FINISHED":1}'
        ' tool_calls=1 usage={"input_tokens":3,"output_tokens":4}'
    )


def test_each_event_leaves_a_debug_line_of_type_and_ids(lines: list[str]) -> None:
    play(greet)
    events = [line for line in lines if line.startswith("DEBUG event ")]
    assert len(events) == 7
    assert events[2].endswith(' index=2 type=TEXT_MESSAGE_CONTENT ids={"message_id":"m1"}')


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_holds_content_unless_it_is_asked_for(lines: list[str], form: str) -> None:
    play(greet, format=form)
    assert lines
    assert "secret" not in "\n".join(lines)
    lines.clear()
    play(greet, format=form, content=True)
    assert "my secret question" in lines[0]
    assert "my secret answer" in "\n".join(lines[1:])


def test_an_interrupt_is_told(lines: list[str]) -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        outcome = RunFinishedInterruptOutcome(interrupts=[Interrupt(id="i1", reason="approval")])
        yield finished(run_input, outcome=outcome)

    play(agent, format="json")
    assert ending(lines)["outcome"] == "interrupt"


def test_an_error_before_the_first_event_has_both_lines(lines: list[str]) -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        raise ValueError("password=s3cret")
        yield started(run_input)

    play(agent, format="json")
    last = ending(lines)
    assert (last["outcome"], last["error"]) == ("error", "ValueError")
    assert last["code"]
    assert lines[-1].startswith("ERROR ")
    assert "s3cret" not in "\n".join(lines)


def test_an_error_in_the_middle_tells_what_came_before(lines: list[str]) -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield TextMessageStartEvent(message_id="m1")
        raise ValueError("password=s3cret")

    play(agent, format="json", failure_level="CRITICAL")
    last = ending(lines)
    assert last["outcome"] == "error"
    assert last["types"]["TEXT_MESSAGE_START"] == 1
    assert last["level"] == "CRITICAL"
    assert lines[-1].startswith("CRITICAL ")
    assert "s3cret" not in "\n".join(lines)


def test_an_error_event_of_the_agent_is_an_error(lines: list[str]) -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield RunErrorEvent(message="password=s3cret", code="quota\nforged")

    play(agent, format="json")
    last = ending(lines)
    assert (last["outcome"], last["code"]) == ("error", "quota\nforged")
    assert "s3cret" not in "\n".join(lines)


def test_a_stream_that_just_stops_is_an_error(lines: list[str]) -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)

    play(agent, format="json")
    last = ending(lines)
    assert (last["outcome"], last["code"]) == ("error", "truncated-stream")


async def endless(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    yield started(run_input)
    yield TextMessageStartEvent(message_id="m1")
    while True:
        yield TextMessageContentEvent(message_id="m1", delta="x")
        await asyncio.sleep(0)


def test_a_cancelled_run_is_told_as_cancelled(lines: list[str]) -> None:
    async def main() -> None:
        host = host_of(endless, {"format": "json"})
        async with host, host.run(asked()) as run:
            async for event in run:
                if isinstance(event, TextMessageContentEvent):
                    run.cancel("the user said: s3cret")

    asyncio.run(main())
    last = ending(lines)
    assert (last["outcome"], last["cause"]) == ("cancelled", "cancelled")
    assert "s3cret" not in "\n".join(lines)


def test_a_consumer_that_goes_away_is_told(lines: list[str]) -> None:
    async def main() -> None:
        host = host_of(endless, {"format": "json"})
        async with host, host.run(asked()) as run:
            async for event in run:
                if isinstance(event, TextMessageContentEvent):
                    break

    asyncio.run(main())
    assert ending(lines)["outcome"] == "consumer-gone"


def test_two_interleaved_runs_do_not_mix_their_counts(lines: list[str]) -> None:
    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        yield TextMessageStartEvent(message_id="m1")
        for _ in range(3 if run_input.run_id == "short" else 5):
            await asyncio.sleep(0)
            yield TextMessageContentEvent(message_id="m1", delta="x")
        yield TextMessageEndEvent(message_id="m1")
        yield finished(run_input)

    async def main() -> None:
        host = host_of(agent, {"format": "json", "events": False})

        async def consume(run_id: str) -> None:
            async for _ in host.run(asked(run_id)):
                await asyncio.sleep(0)

        async with host:
            await asyncio.gather(consume("short"), consume("long"))

    asyncio.run(main())
    records = [json.loads(line.partition(" ")[2]) for line in lines]
    assert [record["kind"] for record in records[:2]] == ["run-started"] * 2
    counts = {
        record["run_id"]: record["types"]["TEXT_MESSAGE_CONTENT"]
        for record in records
        if record["kind"] == "run-ended"
    }
    assert counts == {"short": 3, "long": 5}


def test_an_id_of_a_client_cannot_forge_a_line_nor_break_the_logger(lines: list[str]) -> None:
    play(greet, asked("r{0}\nINFO run ended outcome=success <red>{message}"), events=False)
    assert len(lines) == 2
    assert r'run_id="r{0}\nINFO run ended outcome=success <red>{message}" ' in lines[0]


def test_the_lines_of_a_file_are_json_and_do_not_go_to_loguru(
    lines: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    play(greet, format="json", file=path)
    play(greet, format="json", file=path)
    assert lines == []
    records = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    assert [record["kind"] for record in records] == (
        ["run-started", *["event"] * 7, "run-ended"] * 2
    )


def test_a_text_line_of_a_file_has_time_and_level(tmp_path: Path) -> None:
    path = tmp_path / "runs.log"
    play(greet, file=path, level="SUCCESS", events=False)
    first, last = path.read_text(encoding="ascii").splitlines()
    assert first.split(" ")[1:4] == ["SUCCESS", "run", "started"]
    assert last.split(" ")[1:4] == ["SUCCESS", "run", "ended"]


def test_levels_are_those_that_are_set(lines: list[str]) -> None:
    play(greet, level="WARNING", events=False)
    assert [line.partition(" ")[0] for line in lines] == ["WARNING", "WARNING"]


def test_nothing_of_the_stream_is_changed() -> None:
    async def main() -> list[BaseEvent]:
        host = host_of(greet, {})
        async with host:
            return [event async for event in host.run(asked())]

    async def plain() -> list[BaseEvent]:
        return [event async for event in greet(asked())]

    assert asyncio.run(main()) == asyncio.run(plain())


def test_a_file_that_cannot_be_opened_stops_the_host_with_the_layer_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with host_of(greet, {"file": tmp_path / "missing" / "runs.log"}):
            pass

    with pytest.raises(StartupError) as caught:
        asyncio.run(main())
    assert [(problem.code, problem.where) for problem in caught.value.problems] == [
        ("log-file", ("[middleware.logging] file",))
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_stops_the_log_and_not_the_run() -> None:
    async def main() -> int:
        host = host_of(greet, {"file": "/dev/full"})
        async with host:
            return len([event async for event in host.run(asked())])

    assert asyncio.run(main()) == 7
