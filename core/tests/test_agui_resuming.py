"""Answering interrupts: expiry, building ``resume``, and refusing a run that settles too little."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    ResumeEntry,
    RunAgentInput,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)
from loguru import logger
from playing import finished, started

from interpose import Host, Middleware, RunContext
from interpose.agui import Transcript, check_resume, is_expired, resume_entries
from interpose.errors import InputError, UsageError

NOON = 1_767_268_800.0
"""2026-01-01 12:00 UTC."""
ASK = Interrupt(id="ask", reason="approval")
LATE = Interrupt(id="late", reason="approval", expires_at="2026-01-01T12:00:00Z")


def entry(id_: str = "ask", status: Any = "resolved", **more: Any) -> ResumeEntry:
    return ResumeEntry(interrupt_id=id_, status=status, **more)


# -- expiry -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expires_at", "expired"),
    [
        (None, False),
        ("2026-01-01T12:00:00Z", True),
        ("2026-01-01T12:00:00.001Z", False),
        ("2026-01-01T13:00:00+01:00", True),
        ("2026-01-01T12:00:01", False),
        ("2026-01-01T12:00:00", True),
        ("tomorrow", False),
        ("", False),
    ],
)
def test_an_interrupt_expires_at_its_moment(expires_at: str | None, expired: bool) -> None:  # noqa: FBT001
    assert is_expired(Interrupt(id="i", reason="r", expires_at=expires_at), NOON) is expired


# -- building -----------------------------------------------------------------------------------


def test_entries_come_in_the_order_of_the_interrupts_and_only_a_resolved_one_has_a_payload() -> (
    None
):
    entries = resume_entries([ASK, LATE], {"ask": {"ok": True}}, cancelled=["late"])
    assert [json.loads(each.model_dump_json(by_alias=True)) for each in entries] == [
        {"interruptId": "ask", "status": "resolved", "payload": {"ok": True}},
        {"interruptId": "late", "status": "cancelled"},
    ]


def test_an_interrupt_may_be_resolved_without_a_payload() -> None:
    [only] = resume_entries([ASK], {"ask": None})
    assert json.loads(only.model_dump_json(by_alias=True)) == {
        "interruptId": "ask",
        "status": "resolved",
    }


@pytest.mark.parametrize(
    ("resolved", "cancelled", "message"),
    [
        ({"ask": 1}, (), "these interrupts have no answer: 'late'"),
        ({}, (), "these interrupts have no answer: 'ask', 'late'"),
        ({"ask": 1, "late": 1, "x": 1}, (), "these interrupts are not pending: 'x'"),
        ({"ask": 1}, ("late", "y"), "these interrupts are not pending: 'y'"),
        (
            {"ask": 1, "late": 1},
            ("late",),
            "these interrupts are both resolved and cancelled: 'late'",
        ),
    ],
)
def test_answers_must_be_those_of_the_interrupts(
    resolved: dict[str, Any], cancelled: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        resume_entries([ASK, LATE], resolved, cancelled)
    assert caught.value.message == message


# -- checking -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resume", "wrong"),
    [
        (None, ["'ask' is not answered", "'late' is not answered"]),
        ([entry()], ["'late' is not answered"]),
        ([entry(), entry(), entry("late", "cancelled")], ["'ask' is answered 2 times"]),
        ([entry(), entry("late")], ["'late' has expired, and can only be cancelled"]),
    ],
)
def test_a_resume_that_settles_too_little_is_refused(resume: Any, wrong: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        check_resume([ASK, LATE], resume, NOON)
    assert caught.value.message.splitlines()[1:] == wrong


def test_a_resume_that_settles_everything_is_right_and_others_are_left_out_with_a_warning() -> None:
    entries = [entry("other"), entry(), entry("late", "cancelled"), entry("other")]
    assert check_resume([ASK, LATE], entries, NOON) == (
        (entries[1], entries[2]),
        ("ignored the answer to 'other', which is not pending",),
    )
    before = [entry(), entry("late")]
    assert check_resume([ASK, LATE], before, NOON - 1) == (tuple(before), ())
    assert check_resume([], None, NOON) == ((), ())


# -- the transcript -----------------------------------------------------------------------------


def over(*events: BaseEvent, outcome: Any = None) -> Transcript:
    transcript = Transcript()
    for event in (RunStartedEvent(thread_id="t", run_id="r"), *events):
        transcript.apply(event)
    transcript.apply(RunFinishedEvent(thread_id="t", run_id="r", outcome=outcome))
    return transcript


def call(id_: str) -> list[BaseEvent]:
    return [
        ToolCallStartEvent(tool_call_id=id_, tool_call_name="f"),
        ToolCallEndEvent(tool_call_id=id_),
    ]


def test_the_transcript_keeps_the_interrupts_of_the_last_finished_run() -> None:
    transcript = over(outcome=RunFinishedInterruptOutcome(interrupts=[ASK]))
    assert list(transcript.pending_interrupts) == [ASK]
    transcript.apply(RunStartedEvent(thread_id="t", run_id="r2"))
    assert list(transcript.pending_interrupts) == [ASK], "until the next run has settled them"
    transcript.apply(RunFinishedEvent(thread_id="t", run_id="r2"))
    assert list(transcript.pending_interrupts) == []


def test_unanswered_calls_are_pending_unless_the_producer_lists_them() -> None:
    answer = ToolCallResultEvent(message_id="m", tool_call_id="a", content="")
    assert over(*call("a"), *call("b"), answer).pending_tool_call_ids == ("b",)
    assert over(*call("a"), answer).pending_tool_call_ids == ()
    listed = RunFinishedSuccessOutcome(pending_tool_call_ids=["x"])
    assert over(*call("a"), outcome=listed).pending_tool_call_ids == ("x",)
    empty = RunFinishedSuccessOutcome(pending_tool_call_ids=[])
    assert over(*call("a"), outcome=empty).pending_tool_call_ids == ("a",)


def test_calls_of_an_earlier_or_an_interrupted_run_are_not_pending() -> None:
    transcript = over(*call("a"))
    transcript.apply(RunStartedEvent(thread_id="t", run_id="r2"))
    transcript.apply(RunFinishedEvent(thread_id="t", run_id="r2"))
    assert transcript.pending_tool_call_ids == ()
    interrupted = RunFinishedInterruptOutcome(interrupts=[ASK])
    assert over(*call("a"), outcome=interrupted).pending_tool_call_ids == ()


# -- host.run(pending=...) ----------------------------------------------------------------------


class Noon:
    """A clock that stands at noon."""

    def monotonic(self) -> float:
        return 0.0

    def time(self) -> float:
        return NOON

    async def sleep(self, seconds: float, /) -> None:
        await asyncio.sleep(0)


def ask(resume: list[ResumeEntry] | None) -> RunAgentInput:
    return RunAgentInput(
        thread_id="t", run_id="r", messages=[UserMessage(id="1", content="hi")], resume=resume
    )


@pytest.fixture
def trace() -> list[str]:
    return []


def resumed(asked: RunAgentInput, pending: Any, trace: list[str]) -> list[Any]:
    """Play one run; return what the agent was given as ``resume``."""
    given: list[Any] = []

    class Steps(Middleware):
        def setup(self, ctx: RunContext) -> None:
            trace.append("setup")

    async def agent(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        trace.append("agent")
        given.append(run_input.resume)
        yield started(run_input)
        yield finished(run_input)

    async def main() -> None:
        async with Host([Steps], agent=agent, clock=Noon()) as host:
            assert (await host.run(asked, pending=pending)).outcome == "success"

    asyncio.run(main())
    return given


@pytest.mark.parametrize("resume", [None, [], [entry()], [entry(), entry("late")]])
def test_an_unsettled_interrupt_is_refused_before_any_layer_or_agent(
    resume: Any, trace: list[str]
) -> None:
    with pytest.raises(InputError, match="does not settle"):
        resumed(ask(resume), [ASK, LATE], trace)
    assert trace == []


def test_an_expired_interrupt_may_be_cancelled_by_the_hosts_own_clock(trace: list[str]) -> None:
    entries = [entry(payload=1), entry("late", "cancelled")]
    assert resumed(ask(entries), [ASK, LATE], trace) == [entries]
    assert trace == ["setup", "agent"]


def test_without_pending_nothing_is_checked(trace: list[str]) -> None:
    assert resumed(ask([entry("other")]), None, trace) == [[entry("other")]]


def test_answers_to_what_is_not_pending_are_ignored_with_a_warning(trace: list[str]) -> None:
    lines: list[str] = []
    logger.enable("interpose")
    number = logger.add(lambda message: lines.append(message.record["message"]), level="WARNING")
    asked = ask([entry("other"), entry()])
    try:
        assert resumed(asked, [ASK], trace) == [[entry()]]
        assert resumed(ask([entry("other")]), [], trace) == [None]
    finally:
        logger.remove(number)
        logger.disable("interpose")
    assert lines == ["ignored the answer to 'other', which is not pending"] * 2
    assert asked.resume == [entry("other"), entry()], "the caller's own input is not changed"
