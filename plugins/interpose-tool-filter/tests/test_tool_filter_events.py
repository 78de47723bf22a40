"""Each carrier of a tool call, with the hooks driven one event at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    FunctionCall,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from interpose import DROP, RunContext
from interpose.agui.verify import Verifier
from interpose.events import MARK
from interpose.services import RunServices
from interpose_tool_filter import ToolFilter, ToolFilterSettings

RAW = {"provider": "said secret-tool"}


def run_input(*messages: Message) -> RunAgentInput:
    return RunAgentInput(thread_id="t1", run_id="r1", messages=list(messages))


def through(events: Iterable[BaseEvent], *history: Message, **settings: Any) -> list[BaseEvent]:
    """Drive one instance through the events, and watch that none is changed in place."""
    services = cast("RunServices", SimpleNamespace(input=run_input(*history)))
    ctx = RunContext(services, "tool-filter")
    layer = ToolFilter()
    layer.settings = ToolFilterSettings.model_validate(settings or {"deny": ["secret-tool"]})
    layer.setup(ctx)
    hooks = {
        event_class: name
        for name, method in vars(ToolFilter).items()
        for event_class in getattr(method, MARK, ())
    }
    left: list[BaseEvent] = []
    for event in events:
        before = event.model_dump_json()
        result = getattr(layer, hooks.get(type(event), "on_event"))(ctx, event)
        assert event.model_dump_json() == before
        if result is not DROP:
            left.append(result)
    return left


def call(call_id: str, name: str, args: str = "{}") -> ToolCall:
    return ToolCall(id=call_id, function=FunctionCall(name=name, arguments=args))


def said(message_id: str, content: str | None, *calls: ToolCall) -> AssistantMessage:
    return AssistantMessage(id=message_id, content=content, tool_calls=list(calls) or None)


def answered(message_id: str, call_id: str) -> ToolMessage:
    return ToolMessage(id=message_id, tool_call_id=call_id, content="found")


def started(call_id: str, name: str) -> ToolCallStartEvent:
    return ToolCallStartEvent(tool_call_id=call_id, tool_call_name=name)


def args(call_id: str, delta: str = "{}") -> ToolCallArgsEvent:
    return ToolCallArgsEvent(tool_call_id=call_id, delta=delta)


def ended(call_id: str) -> ToolCallEndEvent:
    return ToolCallEndEvent(tool_call_id=call_id)


def result(call_id: str, message_id: str = "result") -> ToolCallResultEvent:
    return ToolCallResultEvent(tool_call_id=call_id, message_id=message_id, content="found")


def whole(call_id: str, name: str) -> list[BaseEvent]:
    return [started(call_id, name), args(call_id), ended(call_id), result(call_id)]


def wire(events: Sequence[BaseEvent]) -> str:
    return "\n".join(event.model_dump_json(by_alias=True) for event in events)


# The stream of a call ------------------------------------------------------------------------
def test_a_denied_call_leaves_nothing_and_the_rest_passes_as_the_same_objects() -> None:
    shown = [*whole("c1", "search"), TextMessageContentEvent(message_id="m", delta="hi")]
    left = through([*whole("c0", "secret-tool"), *shown])
    assert [id(event) for event in left] == [id(event) for event in shown]


def test_an_allow_list_shows_only_what_it_names() -> None:
    left = through([*whole("c1", "search"), *whole("c2", "other")], allow=["search"])
    assert {getattr(event, "tool_call_id", None) for event in left} == {"c1"}


def test_an_empty_allow_list_hides_all_and_an_empty_deny_list_nothing() -> None:
    assert through(whole("c1", "search"), allow=[]) == []
    assert len(through(whole("c1", "search"), deny=[])) == 4


def test_interleaved_calls_are_told_apart_by_id() -> None:
    events = [
        started("c1", "secret-tool"),
        started("c2", "search"),
        args("c1", "hidden"),
        args("c2", "a"),
        args("c1", "hidden"),
        args("c2", "b"),
        ended("c1"),
        ended("c2"),
    ]
    left = through(events)
    assert [getattr(event, "delta", None) for event in left] == [None, "a", "b", None]


def test_a_second_result_of_a_hidden_call_is_hidden_too() -> None:
    assert through([*whole("c1", "secret-tool"), result("c1"), result("c1")]) == []


def test_an_id_that_a_hidden_call_had_is_shown_when_a_visible_call_takes_it() -> None:
    left = through([*whole("c1", "secret-tool"), *whole("c1", "search")])
    assert left == whole("c1", "search")


def test_an_id_that_a_visible_call_had_is_hidden_when_a_hidden_call_takes_it() -> None:
    left = through([*whole("c1", "search"), *whole("c1", "secret-tool")])
    assert left == whole("c1", "search")


def test_two_runs_share_nothing() -> None:
    assert through(whole("c1", "secret-tool")) == []
    assert len(through([result("c1")])) == 1


# What a call is named in ---------------------------------------------------------------------
def test_an_encrypted_value_of_a_hidden_call_or_of_its_result_is_dropped() -> None:
    def value(subtype: Any, entity: str) -> ReasoningEncryptedValueEvent:
        return ReasoningEncryptedValueEvent(subtype=subtype, entity_id=entity, encrypted_value="e")

    left = through(
        [
            *whole("c1", "secret-tool"),
            value("tool-call", "c1"),
            value("message", "result"),
            value("tool-call", "c2"),
            value("message", "c1"),
        ]
    )
    assert left == [value("tool-call", "c2"), value("message", "c1")]


def test_hidden_calls_are_no_longer_pending() -> None:
    def finished(*pending: str) -> RunFinishedEvent:
        outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=list(pending) or None)
        return RunFinishedEvent(thread_id="t1", run_id="r1", outcome=outcome, raw_event=RAW)

    calls = [started("c1", "secret-tool"), ended("c1"), started("c2", "search"), ended("c2")]
    [*_, some] = through([*calls, finished("c1", "c2")])
    assert '"outcome":{"type":"success","pendingToolCallIds":["c2"]}' in wire([some])
    [*_, none] = through([*calls, finished("c1")])
    assert wire([none]) == (
        '{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"success"}}'
    )
    untouched = finished("c2")
    assert through([*calls, untouched])[-1] is untouched


def test_an_interrupt_about_a_hidden_call_stays_without_the_reference() -> None:
    def finished(*interrupts: Interrupt) -> RunFinishedEvent:
        outcome = RunFinishedInterruptOutcome(interrupts=list(interrupts))
        return RunFinishedEvent(thread_id="t1", run_id="r1", outcome=outcome)

    about = Interrupt(id="i1", reason="approval", tool_call_id="c1")
    other = Interrupt(id="i2", reason="approval", tool_call_id="c2")
    [left] = through([started("c1", "secret-tool"), ended("c1"), finished(about, other)])
    assert left == finished(Interrupt(id="i1", reason="approval"), other)
    untouched = finished(other)
    assert through([untouched])[-1] is untouched


def test_a_subagent_that_a_hidden_call_started_stays_without_the_reference() -> None:
    subagent = SubagentStartedEvent(
        subagent_run_id="s1", name="helper", parent_tool_call_id="c1", parent_message_id="m1"
    )
    [left] = through([started("c1", "secret-tool"), subagent])
    assert left == SubagentStartedEvent(subagent_run_id="s1", name="helper", parent_message_id="m1")
    assert through([started("c1", "search"), subagent])[-1] is subagent


# Histories -----------------------------------------------------------------------------------
def test_a_snapshot_loses_hidden_calls_with_their_results() -> None:
    user = UserMessage(id="u1", content="go")
    both = said("a2", None, call("c2", "secret-tool"), call("c3", "search"))
    history: list[Message] = [
        user,
        said("a1", None, call("c1", "secret-tool")),
        answered("t1", "c1"),
        both,
        answered("t2", "c2"),
        answered("t3", "c3"),
        said("a3", "I looked it up.", call("c4", "secret-tool")),
        said("a4", "", call("c5", "secret-tool")),
    ]
    [left] = through([MessagesSnapshotEvent(messages=history, raw_event=RAW)])
    assert left == MessagesSnapshotEvent(
        messages=[
            user,
            said("a2", None, call("c3", "search")),
            answered("t3", "c3"),
            said("a3", "I looked it up."),
        ]
    )
    assert "toolCalls" not in wire([left]).rsplit("a3", 1)[1]


def test_a_snapshot_without_hidden_calls_passes_as_the_same_object() -> None:
    snapshot = MessagesSnapshotEvent(
        messages=[said("a1", None), said("a2", None, call("c1", "search")), answered("t1", "c1")],
        raw_event=RAW,
    )
    [left] = through([snapshot])
    assert left is snapshot


def test_a_result_that_stands_before_its_call_in_a_snapshot_is_hidden() -> None:
    snapshot = MessagesSnapshotEvent(
        messages=[answered("t1", "c1"), said("a1", None, call("c1", "secret-tool"))]
    )
    assert through([snapshot]) == [MessagesSnapshotEvent(messages=[])]


def test_in_a_snapshot_a_reused_id_means_the_call_made_last_before_the_result() -> None:
    visible: list[Message] = [said("a1", None, call("c1", "search")), answered("t1", "c1")]
    hidden: list[Message] = [said("a2", None, call("c1", "secret-tool")), answered("t2", "c1")]
    [left] = through([MessagesSnapshotEvent(messages=[*visible, *hidden])])
    assert left == MessagesSnapshotEvent(messages=visible)


def test_a_snapshot_tells_the_tool_of_calls_that_come_later() -> None:
    snapshot = MessagesSnapshotEvent(messages=[said("a1", None, call("c1", "secret-tool"))])
    assert through([snapshot, result("c1")]) == [MessagesSnapshotEvent(messages=[])]


def test_a_snapshot_of_an_old_call_does_not_show_the_hidden_one_that_runs_under_its_id() -> None:
    snapshot = MessagesSnapshotEvent(messages=[said("a1", None, call("c1", "search"))])
    left = through([started("c1", "secret-tool"), snapshot, args("c1"), ended("c1")])
    assert left == [snapshot]


def test_the_echoed_input_loses_hidden_calls() -> None:
    echoed = run_input(said("a1", None, call("c1", "secret-tool")), answered("t1", "c1"))
    event = RunStartedEvent(thread_id="t1", run_id="r1", input=echoed, raw_event=RAW)
    assert through([event]) == [RunStartedEvent(thread_id="t1", run_id="r1", input=run_input())]
    bare = RunStartedEvent(thread_id="t1", run_id="r1")
    assert through([bare])[0] is bare


def test_a_call_of_an_earlier_turn_is_known_from_the_input() -> None:
    history = said("a1", None, call("c1", "secret-tool"), call("c2", "search"))
    begin = RunStartedEvent(thread_id="t1", run_id="r1")
    left = through([begin, result("c1"), result("c2")], history)
    assert left == [begin, result("c2")]
    allowed = through([begin, result("c1"), result("c2")], history, allow=["search"])
    assert allowed == [begin, result("c2")]


def test_a_result_of_an_unknown_call_is_hidden_by_allow_and_shown_by_deny() -> None:
    assert through([result("c9")], allow=["search"]) == []
    assert through([result("c9")], deny=["secret-tool"]) == [result("c9")]


def test_an_encrypted_value_of_a_result_in_the_history_is_dropped() -> None:
    snapshot = MessagesSnapshotEvent(
        messages=[said("a1", "text", call("c1", "secret-tool")), answered("t1", "c1")]
    )
    value = ReasoningEncryptedValueEvent(subtype="message", entity_id="t1", encrypted_value="e")
    assert through([snapshot, value]) == [MessagesSnapshotEvent(messages=[said("a1", "text")])]


def test_an_encrypted_value_is_shown_when_a_visible_result_took_over_the_message_id() -> None:
    value = ReasoningEncryptedValueEvent(subtype="message", entity_id="result", encrypted_value="e")
    events = [*whole("c1", "secret-tool"), *whole("c2", "search"), value]
    assert through(events)[-1] is value


# Raw forms -----------------------------------------------------------------------------------
def test_raw_events_pass_by_default() -> None:
    events = [
        RawEvent(event=RAW),
        TextMessageContentEvent(message_id="m", delta="hi", raw_event=RAW),
    ]
    assert [id(event) for event in through(events)] == [id(event) for event in events]


def test_drop_raw_takes_raw_events_and_the_raw_form_of_all_others() -> None:
    events = [
        RunStartedEvent(thread_id="t1", run_id="r1", raw_event=RAW),
        RawEvent(event=RAW),
        TextMessageContentEvent(message_id="m", delta="hi", raw_event=RAW),
        ToolCallStartEvent(tool_call_id="c1", tool_call_name="search", raw_event=RAW),
        CustomEvent(name="n", value=1),
        RunFinishedEvent(thread_id="t1", run_id="r1", raw_event=RAW),
    ]
    left = through(events, deny=["secret-tool"], drop_raw=True)
    assert [event.type.value for event in left] == [
        "RUN_STARTED",
        "TEXT_MESSAGE_CONTENT",
        "TOOL_CALL_START",
        "CUSTOM",
        "RUN_FINISHED",
    ]
    assert "secret-tool" not in wire(left)
    assert left[3] is events[4]


# The rule ------------------------------------------------------------------------------------
@st.composite
def streams(draw: st.DrawFn) -> list[BaseEvent]:
    """Draw a valid run of interleaved calls, hidden ones marked by what they hold."""
    threads: list[list[BaseEvent]] = []
    history: list[Message] = []
    pending: list[str] = []
    for index, hidden in enumerate(draw(st.lists(st.booleans(), max_size=5))):
        call_id = f"hid-{index}" if hidden else f"call-{index}"
        name, text = ("secret-tool", "SECRET") if hidden else ("search", "public")
        thread: list[BaseEvent] = [
            ToolCallStartEvent(
                tool_call_id=call_id, tool_call_name=name, parent_message_id="p", raw_event=text
            )
        ]
        thread += [args(call_id, text)] * draw(st.integers(0, 2))
        thread.append(ended(call_id))
        results = draw(st.integers(0, 2))
        for count in range(results):
            thread.append(
                ToolCallResultEvent(
                    tool_call_id=call_id, message_id=f"of-{call_id}-{count}", content=text
                )
            )
            for subtype, entity in (("tool-call", call_id), ("message", f"of-{call_id}-{count}")):
                thread.append(
                    ReasoningEncryptedValueEvent.model_validate(
                        {"subtype": subtype, "entityId": entity, "encryptedValue": text}
                    )
                )
        if draw(st.booleans()):
            thread.append(
                SubagentStartedEvent(
                    subagent_run_id=f"s{index}", name="helper", parent_tool_call_id=call_id
                )
            )
            thread.append(SubagentFinishedEvent(subagent_run_id=f"s{index}"))
        history.append(
            said(f"a{index}", draw(st.sampled_from([None, "text"])), call(call_id, name, text))
        )
        history.append(ToolMessage(id=f"of-{call_id}-0", tool_call_id=call_id, content=text))
        if not results:
            pending.append(call_id)
        threads.append(thread)
    order = draw(st.permutations([n for n, thread in enumerate(threads) for _ in thread]))
    feeds = [iter(thread) for thread in threads]
    events = [next(feeds[n]) for n in order]
    snapshot = MessagesSnapshotEvent(
        messages=history, raw_event="SECRET" if "hid-" in str(history) else None
    )
    events.insert(draw(st.integers(0, len(events))), snapshot)
    outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=pending or None)
    first = RunStartedEvent(thread_id="t1", run_id="r1", input=run_input(*history))
    last = RunFinishedEvent(thread_id="t1", run_id="r1", outcome=outcome)
    return [first, *events, last]


@hypothesis_settings(max_examples=100, deadline=None)
@given(events=streams(), by_allow=st.booleans())
def test_nothing_of_a_hidden_call_is_in_any_event_and_the_stream_stays_valid(
    events: list[BaseEvent], *, by_allow: bool
) -> None:
    rule = {"allow": ["search"]} if by_allow else {"deny": ["secret-tool"]}
    left = through(events, **rule)
    text = wire(left)
    assert "hid-" not in text
    assert "SECRET" not in text
    assert "secret-tool" not in text
    verifier = Verifier(thread_id="t1", run_id="r1")
    for event in left:
        verifier.check(event)
    verifier.finish()
    clean = [event for event in events if "hid-" not in wire([event])]
    passed = {id(event) for event in left}
    assert all(id(event) in passed for event in clean)
