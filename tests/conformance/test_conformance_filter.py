"""Cases 20 to 27: the plugin tool-filter in a run."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from conformance import agent, call, outline, tool_chunk, valid
from playing import play

from interpose import Host, Layer, StartupError
from interpose_tool_filter import ToolFilter

BOTH = [*call("1", "secret", "{}", result="s"), *call("2", "open", "{}", result="o")]


def filtered(*events: BaseEvent, **settings: Any) -> list[str]:
    """Return what leaves the filter, between the start and the end of the run."""
    played = play([Layer(ToolFilter, settings)], agent(*events))
    assert played.result.outcome == "success"
    return outline(valid(played.events))[1:-1]


def test_case_20_listed_tools_are_dropped_whole_and_the_rest_is_intact() -> None:
    other = CustomEvent(name="acme:n", value=1)
    expected = outline([other, *call("2", "open", "{}", result="o")])
    assert filtered(other, *BOTH, deny=["secret"]) == expected


def test_case_21_only_listed_tools_are_kept() -> None:
    expected = outline(call("2", "open", "{}", result="o"))
    assert filtered(*BOTH, allow=["open"]) == expected
    assert filtered(*BOTH, allow=[]) == [], "an empty list counts as given"
    assert filtered(*BOTH, deny=[]) == outline(BOTH)
    assert filtered(*BOTH, allow=["OPEN"]) == [], "names are case-sensitive"


@pytest.mark.parametrize(
    ("given", "which"), [({"allow": ["a"], "deny": ["b"]}, "both are"), ({}, "neither is")]
)
def test_case_22_both_lists_or_none_are_refused_at_startup(given: Any, which: str) -> None:
    with pytest.raises(StartupError) as caught:
        Host([Layer(ToolFilter, given)], agent=agent())
    [problem] = caught.value.problems
    assert problem.message == (
        "middleware.tool-filter: give exactly one of `allow` and `deny`; "
        f"{which} given (an empty list counts as given)."
    )


def test_case_24_a_blocked_call_in_chunks_vanishes_with_the_end_that_was_never_sent() -> None:
    chunks = [
        tool_chunk("1", "secret", "{"),
        tool_chunk(None, None, "}"),
        tool_chunk("2", "open", "{}"),
    ]
    assert filtered(*chunks, deny=["secret"]) == [
        "TOOL_CALL_START 2 open",
        "TOOL_CALL_ARGS 2 {}",
        "TOOL_CALL_END 2",
    ]


def test_case_27_of_two_parallel_calls_the_one_that_is_shown_keeps_its_order() -> None:
    interleaved = [
        ToolCallStartEvent(tool_call_id="1", tool_call_name="secret"),
        ToolCallStartEvent(tool_call_id="2", tool_call_name="open"),
        ToolCallArgsEvent(tool_call_id="2", delta='{"a": '),
        ToolCallArgsEvent(tool_call_id="1", delta="{}"),
        ToolCallArgsEvent(tool_call_id="2", delta="1}"),
        ToolCallEndEvent(tool_call_id="1"),
        ToolCallEndEvent(tool_call_id="2"),
    ]
    assert filtered(*interleaved, deny=["secret"]) == outline(
        [interleaved[1], interleaved[2], interleaved[4], interleaved[6]]
    )
