from typing import Any

import pytest
from ag_ui.core import (
    Interrupt,
    TextMessageContentEvent,
    TokenUsage,
    ToolCallStartEvent,
)

from interpose import AbortInfo, AgentFailed, EndInfo, ErrorInfo, FinishInfo
from interpose_logging.record import name, of_end, of_event
from interpose_logging.tally import Tally


def finished(outcome: Any = "success", *interrupts: Interrupt) -> EndInfo:
    return EndInfo("finish", FinishInfo(outcome, 1.0, interrupts=interrupts), 1.0)


def aborted(cause: Any) -> EndInfo:
    return EndInfo("abort", AbortInfo("the user said: s3cret", cause, 1.0), 1.0)


def failed(error: Exception, code: str = "run-failed") -> EndInfo:
    return EndInfo("error", ErrorInfo(error, code, "It failed.", 1.0), 1.0)


@pytest.mark.parametrize(
    ("end", "outcome", "cause"),
    [
        (finished(), "success", None),
        (
            finished("interrupt", Interrupt(id="i", reason="r")),
            "interrupt",
            None,
        ),
        (aborted("abort"), "cancelled", "abort"),
        (aborted("cancelled"), "cancelled", "cancelled"),
        (aborted("consumer-gone"), "consumer-gone", "consumer-gone"),
        (failed(ValueError()), "error", None),
    ],
)
def test_every_end_has_its_outcome(end: EndInfo, outcome: str, cause: str | None) -> None:
    record = of_end(end, Tally(), content=False)
    assert (record["outcome"], record["cause"]) == (outcome, cause)


def test_the_keys_of_an_end_are_the_same_however_it_ended() -> None:
    ends = [finished(), aborted("abort"), failed(ValueError())]
    [keys] = {tuple(of_end(end, Tally(), content=False)) for end in ends}
    assert keys == (
        "outcome",
        "cause",
        "code",
        "error",
        "duration",
        "events",
        "types",
        "tool_calls",
        "usage",
    )


@pytest.mark.parametrize(
    "end",
    [failed(ValueError("password=s3cret")), failed(AgentFailed("x", "s3cret")), aborted("abort")],
)
def test_what_an_error_says_is_left_out_unless_content_is_asked_for(end: EndInfo) -> None:
    assert "s3cret" not in str(of_end(end, Tally(), content=False))
    assert "s3cret" in of_end(end, Tally(), content=True)["content"]


def test_an_error_is_told_by_code_and_class() -> None:
    record = of_end(failed(ValueError("boom"), "agent-failed"), Tally(), content=False)
    assert (record["code"], record["error"]) == ("agent-failed", "ValueError")


def test_an_event_is_told_by_type_and_ids() -> None:
    event = ToolCallStartEvent(tool_call_id="c1", tool_call_name="search", parent_message_id="m1")
    assert of_event(event, 3, content=False) == {
        "index": 3,
        "type": "TOOL_CALL_START",
        "ids": {"tool_call_id": "c1", "parent_message_id": "m1"},
    }


def test_an_event_is_told_whole_when_content_is_asked_for() -> None:
    event = TextMessageContentEvent(message_id="m1", delta="hello")
    assert of_event(event, 0, content=True)["content"] == {
        "type": "TEXT_MESSAGE_CONTENT",
        "messageId": "m1",
        "delta": "hello",
    }


def test_an_id_of_absurd_length_is_cut() -> None:
    assert name("x" * 200) == "x" * 200
    assert name("x" * 1000) == "x" * 200 + "... (1000 characters)"
    assert name(None) is None


def test_tokens_are_added_up_over_models_and_kinds_never_reported_stay_absent() -> None:
    tally = Tally()
    tally.add_usage(TokenUsage(model="a", input_tokens=5, output_tokens=0))
    tally.add_usage(TokenUsage(model="b", input_tokens=2))
    record = of_end(finished(), tally, content=False)
    assert record["usage"] == {"input_tokens": 7, "output_tokens": 0}
    assert of_end(finished(), Tally(), content=False)["usage"] is None
