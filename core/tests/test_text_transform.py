"""TextTransform: every carrier of text, lanes, metadata, endings, and a contract that is checked."""
# ruff: noqa: FBT001 - scan's signature

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from typing import Any

import pytest
from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    BaseEvent,
    Context,
    CustomEvent,
    EventType,
    Interrupt,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from interpose import (
    DROP,
    Covers,
    Middleware,
    MiddlewareError,
    NoSettings,
    PatternTransform,
    Scan,
    Settings,
    TextTransform,
    UsageError,
    on,
)
from interpose.startup.inspection import inspect_middleware, settings_class
from interpose.text.stream import HANDLED


class Hide(TextTransform):
    """Replaces SECRET by ***."""

    word = "SECRET"

    def scan(self, text: str, start: int, final: bool, /) -> Scan:
        edits, at = [], start
        while (found := text.find(self.word, at)) >= 0:
            at = found + len(self.word)
            edits.append((found, at, "***"))
        if final:
            return Scan(edits, len(text))
        tails = range(min(len(self.word) - 1, len(text) - at), 0, -1)
        held = next((n for n in tails if text.endswith(self.word[:n])), 0)
        return Scan(edits, len(text) - held)


class HideAsync(Hide):
    async def scan(self, text: str, start: int, final: bool, /) -> Scan:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().scan(text, start, final)


class Ctx:
    pass


def sent(transform: Any, *events: BaseEvent) -> list[BaseEvent]:
    out: list[BaseEvent] = []
    for event in events:
        before = event.model_dump()
        answer = transform._interpose_text(Ctx(), event)
        assert event.model_dump() == before  # never changed in place
        if answer is not DROP:
            out += answer if isinstance(answer, list) else [answer]
    return out


def text_of(events: Iterable[BaseEvent], ident: str = "m") -> str:
    return "".join(
        getattr(event, "delta", "")
        for event in events
        if ident in (getattr(event, "message_id", None), getattr(event, "tool_call_id", None))
    )


def start(ident: str = "m", subagent: str | None = None) -> TextMessageStartEvent:
    return TextMessageStartEvent(message_id=ident, role="assistant", subagent_run_id=subagent)


def chunk(
    text: str, ident: str = "m", subagent: str | None = None, **more: Any
) -> TextMessageContentEvent:
    return TextMessageContentEvent(message_id=ident, delta=text, subagent_run_id=subagent, **more)


def end(ident: str = "m", subagent: str | None = None) -> TextMessageEndEvent:
    return TextMessageEndEvent(message_id=ident, subagent_run_id=subagent)


def finished(**more: Any) -> RunFinishedEvent:
    return RunFinishedEvent(thread_id="t", run_id="r", **more)


# Lanes -----------------------------------------------------------------------------------------
def test_a_word_that_crosses_chunks_is_replaced_and_nothing_of_it_leaves_before() -> None:
    out = sent(Hide(), start(), chunk("my SEC"), chunk("RE"), chunk("T is"), end())
    assert [getattr(event, "delta", event.type) for event in out] == [
        EventType.TEXT_MESSAGE_START,
        "my ",
        "*** is",
        EventType.TEXT_MESSAGE_END,
    ]


def test_what_is_untouched_is_the_same_event() -> None:
    events = [start(), chunk("hello"), chunk(""), end(), StepStartedEvent(step_name="s")]
    assert all(a is b for a, b in zip(sent(Hide(), *events), events, strict=True))


def test_what_is_held_leaves_before_the_end() -> None:
    out = sent(Hide(), start(), chunk("SECR"), end())
    assert [event.type.value for event in out] == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
    ]
    assert text_of(out) == "SECR"


@pytest.mark.parametrize("terminal", [finished(), RunErrorEvent(message="x")])
def test_what_is_held_leaves_before_a_terminal(terminal: BaseEvent) -> None:
    out = sent(Hide(), start(), chunk("SECR"), terminal)
    assert text_of(out) == "SECR"
    assert out[-1] is terminal


def test_two_messages_and_two_subagents_never_share_a_lane() -> None:
    transform = Hide()
    out = sent(
        transform,
        start("a"),
        start("b", "sub"),
        chunk("SEC", "a"),
        chunk("SEC", "b", "sub"),
        chunk("x", "b", "sub"),
        chunk("RET", "a"),
        end("b", "sub"),
        end("a"),
    )
    assert text_of(out, "a") == "***"
    assert text_of(out, "b") == "SECx"
    assert sent(transform, chunk("SEC", "a"), chunk("RET", "a", "other")) != []


def test_an_empty_id_is_an_id() -> None:
    out = sent(Hide(), start(""), chunk("my SEC", ""), chunk("RET", ""), end(""))
    assert text_of(out, "") == "my ***"


def test_a_continuation_need_not_repeat_its_subagent() -> None:
    out = sent(Hide(), start("a", "sub"), chunk("SEC", "a", "sub"), chunk("RET", "a"), end("a"))
    assert text_of(out, "a") == "***"


def test_a_subagents_end_lets_go_of_its_own_text_only() -> None:
    out = sent(
        Hide(),
        start("a", "sub"),
        start("b"),
        chunk("SEC", "a", "sub"),
        chunk("SEC", "b"),
        SubagentFinishedEvent(subagent_run_id="sub"),
    )
    assert text_of(out, "a") == "SEC"
    assert text_of(out, "b") == ""


def test_reasoning_has_lanes_of_its_own() -> None:
    out = sent(
        Hide(),
        start("m"),
        ReasoningMessageStartEvent(message_id="m", role="reasoning"),
        chunk("SEC"),
        ReasoningMessageContentEvent(message_id="m", delta="RET SEC"),
        ReasoningMessageContentEvent(message_id="m", delta="RET"),
        ReasoningMessageEndEvent(message_id="m"),
        end(),
    )
    assert [e.delta for e in out if isinstance(e, ReasoningMessageContentEvent)] == ["RET ", "***"]
    assert [e.delta for e in out if isinstance(e, TextMessageContentEvent)] == ["SEC"]


def test_metadata_of_a_held_chunk_leaves_with_the_next_text() -> None:
    out = sent(
        Hide(),
        start(),
        chunk("SEC", metadata={"a": 1, "b": 1}, timestamp=1),
        chunk("RET", metadata={"b": 2}, timestamp=2),
        chunk("SE", metadata={"c": 3}, timestamp=3),
        end(),
    )
    content = [
        (e.delta, e.metadata, e.timestamp) for e in out if isinstance(e, TextMessageContentEvent)
    ]
    assert content == [("***", {"a": 1, "b": 2}, 2), ("SE", {"c": 3}, 3)]


def test_metadata_of_text_that_is_removed_is_not_lost() -> None:
    class Remove(Hide):
        def scan(self, text: str, start: int, final: bool, /) -> Scan:
            return Scan([(start, len(text), "")], len(text))

    out = sent(Remove(), start(), chunk("x", metadata={"a": 1}), end())
    assert [(e.delta, e.metadata) for e in out if isinstance(e, TextMessageContentEvent)] == [
        ("", {"a": 1})
    ]


def with_raw_event(kind: Any) -> BaseEvent:
    """Return an event of this class with as little as it needs."""
    needs = {name for name, field in kind.model_fields.items() if field.is_required()}
    given: dict[str, Any] = dict.fromkeys(needs, "x")
    given |= {name: [] for name in needs & {"messages", "patch"}}
    given |= {"delta": []} if kind is StateDeltaEvent else {}
    given |= {"content": {}} if kind is ActivitySnapshotEvent else {}
    given |= {"subtype": "message"} if "subtype" in needs else {}
    event: BaseEvent = kind(**given, raw_event={"text": "SECRET"})
    return event


@pytest.mark.parametrize("kind", HANDLED)
def test_every_event_loses_its_raw_event(kind: Any) -> None:
    """It may carry the text as the provider sent it."""
    if "Chunk" in kind.__name__ or kind is RawEvent:
        return
    out = sent(Hide(), with_raw_event(kind))
    assert [event.raw_event for event in out] == [None]


def test_raw_events_are_dropped_unless_kept() -> None:
    class Keep(Hide):
        keep_raw = True

    raw = RawEvent(event={"a": 1})
    assert sent(Hide(), raw) == []
    assert sent(Keep(), raw) == [raw]


def test_an_event_of_an_own_class_is_treated_as_what_it_derives_from() -> None:
    """Also after events of all its bases: what was found for one is not taken for another."""

    class Stamped(BaseEvent):
        stamp: str = "now"

    class StampedContent(Stamped, TextMessageContentEvent):
        pass

    class StampedRaw(Stamped, RawEvent):
        pass

    content, raw = EventType.TEXT_MESSAGE_CONTENT, EventType.RAW
    plain = Stamped(type=EventType.STEP_STARTED)
    out = sent(
        Hide(),
        plain,
        start(),
        StampedContent(type=content, message_id="m", delta="SEC"),
        StampedRaw(type=raw, event={"text": "SECRET"}),
        StampedContent(type=content, message_id="m", delta="RET!"),
        end(),
    )
    assert out[0] is plain
    assert text_of(out) == "***!"
    assert not [event for event in out if isinstance(event, RawEvent)]


def test_a_chunk_event_is_refused_because_it_has_no_lane() -> None:
    with pytest.raises(MiddlewareError, match="TextMessageChunkEvent"):
        sent(Hide(), TextMessageChunkEvent(message_id="m", delta="SECRET"))


# Whole carriers --------------------------------------------------------------------------------
def only(event: BaseEvent) -> Any:
    (out,) = sent(Hide(), event)
    return out


def test_tool_arguments_and_results_are_covered() -> None:
    out = sent(
        Hide(),
        ToolCallStartEvent(tool_call_id="c", tool_call_name="SECRET"),
        ToolCallArgsEvent(tool_call_id="c", delta='{"a": "S\\u00'),
        ToolCallArgsEvent(tool_call_id="c", delta='45CRET"}'),
        ToolCallEndEvent(tool_call_id="c"),
        ToolCallResultEvent(message_id="x", tool_call_id="c", content='{"r": "\\u0053ECRET"}'),
    )
    assert text_of(out, "c") == '{"a": "***"}'
    assert out[-1].content == '{"r": "***"}'  # type: ignore[attr-defined]
    assert out[0].tool_call_name == "SECRET"  # type: ignore[attr-defined]


def test_a_result_waits_for_arguments_that_were_never_ended() -> None:
    result = ToolCallResultEvent(message_id="x", tool_call_id="c", content="ok")
    out = sent(
        Hide(),
        ToolCallStartEvent(tool_call_id="c", tool_call_name="t"),
        ToolCallArgsEvent(tool_call_id="c", delta='{"a": "SEC'),
        result,
    )
    assert [event.type.value for event in out][-2:] == ["TOOL_CALL_ARGS", "TOOL_CALL_RESULT"]
    assert text_of(out, "c") == '{"a": "SEC'


def test_content_parts_are_covered_and_media_stay() -> None:
    media = {"type": "image", "source": {"type": "url", "value": "https://x/SECRET"}}
    result = ToolCallResultEvent.model_validate(
        {
            "messageId": "x",
            "toolCallId": "c",
            "content": [{"type": "text", "text": "SECRET"}, media],
        }
    )
    content = only(result).content
    assert content[0].text == "***"
    assert content[1].source.value == "https://x/SECRET"


def test_a_snapshot_is_covered_in_every_role() -> None:
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": '{"a": "SECRET"}'},
    }
    event = MessagesSnapshotEvent.model_validate(
        {
            "messages": [
                {"id": "1", "role": "user", "content": [{"type": "text", "text": "SECRET"}]},
                {"id": "2", "role": "assistant", "content": "SECRET", "toolCalls": [call]},
                {
                    "id": "3",
                    "role": "tool",
                    "toolCallId": "c",
                    "content": "SECRET",
                    "error": "SECRET",
                },
                {"id": "4", "role": "reasoning", "content": "SECRET"},
                {"id": "5", "role": "system", "content": "SECRET"},
                {"id": "6", "role": "developer", "content": "SECRET"},
                {"id": "7", "role": "activity", "activityType": "a", "content": {"x": ["SECRET"]}},
                {"id": "8", "role": "assistant", "content": "fine"},
                {"id": "9", "role": "assistant"},
            ]
        }
    )
    out = only(event)
    dumped = out.model_dump_json()
    assert "SECRET" not in dumped
    assert dumped.count("***") == 9
    assert out.messages[7] is event.messages[7]


def test_a_snapshot_in_the_middle_of_a_message_holds_back_what_may_still_change() -> None:
    def snapshot(text: str) -> MessagesSnapshotEvent:
        return MessagesSnapshotEvent(messages=[AssistantMessage(id="m", content=text)])

    out = sent(Hide(), start(), chunk("my SEC"), snapshot("my SEC"), chunk("RET."), end())
    assert out[2].messages[0].content == "my "  # type: ignore[attr-defined]
    assert [e.delta for e in out[3:] if isinstance(e, TextMessageContentEvent)] == ["***."]


def test_a_snapshot_in_the_middle_of_a_tool_call_does_too() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "SEC'}}
    snapshot = MessagesSnapshotEvent.model_validate(
        {"messages": [{"id": "m", "role": "assistant", "toolCalls": [call]}]}
    )
    out = sent(
        Hide(),
        ToolCallStartEvent(tool_call_id="c", tool_call_name="f"),
        snapshot,
        ToolCallArgsEvent(tool_call_id="c", delta='RET"}'),
        ToolCallEndEvent(tool_call_id="c"),
    )
    assert out[1].messages[0].tool_calls[0].function.arguments == '{"a": "'  # type: ignore[attr-defined]
    assert text_of(out, "c") == '***"}'


def test_text_that_only_a_snapshot_brought_leaves_at_the_end() -> None:
    snapshot = MessagesSnapshotEvent(
        messages=[AssistantMessage(id="m", content="SEC"), ReasoningMessage(id="r", content="SEC")]
    )
    begin = ReasoningMessageStartEvent(message_id="r", role="reasoning")
    out = sent(Hide(), start(), begin, snapshot, finished())
    assert [event.type.value for event in out][-3:] == [
        "TEXT_MESSAGE_CONTENT",
        "REASONING_MESSAGE_CONTENT",
        "RUN_FINISHED",
    ]


def test_state_activity_and_custom_values_are_covered_and_keys_stay() -> None:
    value = {"SECRET": ["SECRET", 1, None, True, {"k": "a SECRET"}]}
    masked = {"SECRET": ["***", 1, None, True, {"k": "a ***"}]}
    patch: list[Any] = [
        {"op": "add", "path": "/SECRET", "value": value},
        {"op": "replace", "path": "/a", "value": "SECRET"},
        {"op": "test", "path": "/a", "value": "SECRET"},
        {"op": "remove", "path": "/b"},
    ]
    assert only(StateSnapshotEvent(snapshot=value)).snapshot == masked
    assert only(CustomEvent(name="n", value=value)).value == masked
    assert (
        only(ActivitySnapshotEvent(message_id="a", activity_type="t", content=value)).content
        == masked
    )
    for out in (
        only(StateDeltaEvent(delta=patch)).delta,
        only(ActivityDeltaEvent(message_id="a", activity_type="t", patch=patch)).patch,
    ):
        assert [getattr(op, "value", None) for op in out] == [masked, "***", "***", None]


def test_results_interrupts_errors_and_subagents_are_covered() -> None:
    told = {"graph": {"raw": {"SECRET": "send SECRET?"}, "step": 3}}
    interrupt = Interrupt(id="i", reason="approval", message="send SECRET?", metadata=told)
    outcome = RunFinishedInterruptOutcome(interrupts=[interrupt])
    out = only(finished(result={"r": "SECRET"}, outcome=outcome))
    assert out.result == {"r": "***"}
    [shown] = out.outcome.interrupts
    assert shown.message == "send ***?"
    assert shown.metadata == {"graph": {"raw": {"SECRET": "send ***?"}, "step": 3}}
    assert told == interrupt.metadata  # nothing is changed in place
    assert only(RunErrorEvent(message="no SECRET")).message == "no ***"
    assert only(SubagentErrorEvent(subagent_run_id="s", message="SECRET")).message == "***"
    assert only(SubagentFinishedEvent(subagent_run_id="s", result="SECRET")).result == "***"
    assert (
        only(SubagentStartedEvent(subagent_run_id="s", name="n", description="SECRET")).description
        == "***"
    )


def run_input() -> RunAgentInput:
    return RunAgentInput(
        thread_id="t",
        run_id="r",
        state={"s": "SECRET"},
        messages=[
            UserMessage(id="1", content="SECRET"),
            ToolMessage(id="2", tool_call_id="c", content='{"a": "\\u0053ECRET"}'),
            ActivityMessage(id="3", activity_type="a", content={"k": "SECRET"}),
        ],
        context=[Context(description="SECRET", value="SECRET")],
        forwarded_props={"token": "SECRET"},
    )


def test_the_input_is_covered_on_the_way_in_and_in_its_echo() -> None:
    given = run_input()
    before = given.model_dump()
    out = Hide().on_input(Ctx(), given)  # type: ignore[arg-type]
    assert isinstance(out, RunAgentInput)
    assert given.model_dump() == before
    dumped = out.model_dump()
    assert dumped.pop("forwarded_props") == {"token": "SECRET"}
    assert "SECRET" not in str(dumped)
    echo = only(RunStartedEvent(thread_id="t", run_id="r", input=given))
    assert echo.input == out


def test_the_inputs_state_is_covered_only_with_both_covers() -> None:
    class Messages(Hide):
        covers = Covers.INPUT

    out = Messages().on_input(Ctx(), run_input())  # type: ignore[arg-type]
    assert isinstance(out, RunAgentInput)
    assert out.state == {"s": "SECRET"}
    assert out.messages[0].content == "***"


def test_an_input_without_a_match_is_the_same_object() -> None:
    given = RunAgentInput(thread_id="t", run_id="r", messages=[UserMessage(id="1", content="hi")])
    assert Hide().on_input(Ctx(), given) is given  # type: ignore[arg-type]


COVERED: dict[Covers, BaseEvent] = {
    Covers.TEXT: chunk("SECRET "),
    Covers.REASONING: ReasoningMessageContentEvent(message_id="m", delta="SECRET "),
    Covers.TOOL_ARGS: ToolCallArgsEvent(tool_call_id="m", delta='{"a": "SECRET"}'),
    Covers.TOOL_RESULTS: ToolCallResultEvent(message_id="m", tool_call_id="c", content="SECRET"),
    Covers.MESSAGES: MessagesSnapshotEvent(messages=[UserMessage(id="1", content="SECRET")]),
    Covers.STATE: StateSnapshotEvent(snapshot="SECRET"),
    Covers.ACTIVITY: ActivitySnapshotEvent(
        message_id="m", activity_type="a", content={"x": "SECRET"}
    ),
    Covers.CUSTOM: CustomEvent(name="x", value="SECRET"),
    Covers.INPUT: RunStartedEvent(
        thread_id="t",
        run_id="r",
        input=run_input().model_copy(update={"state": None, "forwarded_props": None}),
    ),
    Covers.RESULT: finished(result="SECRET"),
    Covers.ERROR: RunErrorEvent(message="SECRET"),
}


@pytest.mark.parametrize("cover", list(Covers))
def test_each_cover_means_its_own_events_and_no_others(cover: Covers) -> None:
    class One(Hide):
        covers = cover

    assert set(COVERED) == set(Covers)
    for other, event in COVERED.items():
        leaks = "SECRET" in str([each.model_dump() for each in sent(One(), event)])
        assert leaks is (other is not cover), other


def test_all_is_every_cover_and_the_default() -> None:
    assert list(Covers.ALL) == list(Covers)
    assert TextTransform.covers is Covers.ALL


# The contract ----------------------------------------------------------------------------------
def test_an_async_scan_gives_async_hooks_and_the_same_result() -> None:
    events = [start(), chunk("my SEC"), chunk("RET"), end()]

    async def main() -> list[Any]:
        transform: Any = HideAsync()
        return [await transform._interpose_text(Ctx(), event) for event in events]

    out = asyncio.run(main())
    assert [getattr(event, "delta", None) for event in out] == [None, "my ", "***", None]
    assert inspect.iscoroutinefunction(HideAsync.on_input)
    assert not inspect.iscoroutinefunction(Hide.on_input)


def broken(answer: Any) -> Any:
    class Broken(TextTransform):
        def scan(self, text: str, start: int, final: bool, /) -> Scan:
            return answer  # type: ignore[no-any-return]

    return Broken()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "Broken.scan returned NoneType, not a Scan"),
        (Scan([], 9), "Broken.scan returned keep_from = 9, outside of 0 to 3"),
        (Scan([(0, 4, "")], 3), "Broken.scan returned an edit of 0 to 4, outside of 0 to 3"),
        (Scan([(2, 1, "")], 3), "Broken.scan returned an edit of 2 to 1, outside of 0 to 3"),
    ],
)
def test_a_scan_that_breaks_the_contract_is_named_and_the_text_is_not_shown(
    answer: Any, says: str
) -> None:
    with pytest.raises(MiddlewareError) as caught:
        sent(broken(answer), chunk("abc"))
    assert caught.value.message.endswith(says)
    assert "abc" not in str(caught.value)


def test_an_edit_in_text_that_has_left_is_refused() -> None:
    class Back(TextTransform):
        def scan(self, text: str, start: int, final: bool, /) -> Scan:
            return Scan([(0, len(text), "x")], len(text))

    with pytest.raises(MiddlewareError, match="an edit of 0 to 6, outside of 3 to 6"):
        sent(Back(), chunk("abc"), chunk("def"))


def test_after_a_scan_that_failed_nothing_held_leaves() -> None:
    class Fails(Hide):
        def scan(self, text: str, start: int, final: bool, /) -> Scan:
            if "!" in text:
                raise RuntimeError("no")
            return super().scan(text, start, final)

    transform = Fails()
    sent(transform, start(), chunk("SECR"))
    with pytest.raises(RuntimeError):
        sent(transform, chunk("ET!"))
    assert text_of(sent(transform, RunErrorEvent(message="x"))) == ""


def test_scan_sees_at_most_look_behind_characters_that_have_left() -> None:
    seen: list[tuple[str, int, bool]] = []

    class Look(TextTransform):
        look_behind = 2

        def scan(self, text: str, start: int, final: bool, /) -> Scan:
            seen.append((text, start, final))
            return Scan([], len(text))

    sent(Look(), start(), chunk("abc"), chunk("de"), end())
    assert seen == [("abc", 0, False), ("bcde", 2, False), ("de", 2, True)]


def test_text_may_be_added_at_the_end_however_it_was_cut() -> None:
    class Sign(TextTransform):
        def scan(self, text: str, start: int, final: bool, /) -> Scan:
            return Scan([(len(text), len(text), "!")] if final else [], len(text))

    assert text_of(sent(Sign(), start(), chunk("ab"), chunk("c"), end())) == "abc!"


def test_limits_may_come_from_settings_in_setup() -> None:
    class Small(Hide):
        def setup(self, ctx: Any, /) -> None:
            self.max_hold = 2
            self.covers = Covers.TEXT
            self.too_long = "~"

    transform = Small()
    transform.setup(None)

    class Log(Ctx):
        log: Any = type("L", (), {"warning": lambda *_: None})()

    out = transform._interpose_text(Log(), chunk("SECR"))  # type: ignore[attr-defined]
    assert out.delta == "~"
    given = run_input()
    assert transform.on_input(Ctx(), given) is given  # type: ignore[arg-type]


def test_hooks_that_would_uncover_text_are_refused_when_the_class_is_made() -> None:
    with pytest.raises(UsageError, match="has an event hook of its own"):

        class WithEvent(Hide):
            def on_event(self, ctx: Any, event: BaseEvent, /) -> None: ...

    with pytest.raises(UsageError, match="has an event hook of its own"):

        class WithOn(Hide):
            @on(CustomEvent)
            def custom(self, ctx: Any, event: CustomEvent) -> None: ...

    class Listens(Middleware):
        def on_event(self, ctx: Any, event: BaseEvent, /) -> None: ...

    with pytest.raises(UsageError, match="has an event hook of its own"):

        class Inherits(Listens, Hide):
            pass

    with pytest.raises(UsageError, match="overrides on_input"):

        class WithInput(Hide):
            def on_input(self, ctx: Any, run_input: RunAgentInput, /) -> None: ...

    with pytest.raises(UsageError, match='form = "raw"'):

        class Raw(Hide):
            form = "raw"

    with pytest.raises(UsageError, match="max_hold = 0"):

        class Nothing(Hide):
            max_hold = 0


def test_without_the_input_cover_there_is_no_input_hook() -> None:
    class Out(Hide):
        covers = Covers.ALL & ~Covers.INPUT

    class In(Out):
        covers = Covers.INPUT

    assert Out.on_input is Middleware.on_input
    assert In.on_input is Hide.on_input


def test_every_event_class_of_the_protocol_is_handled() -> None:
    from ag_ui.core import events

    known = {
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, BaseEvent) and value is not BaseEvent
    }
    assert set(HANDLED) == known


def test_settings_are_known_through_all_bases() -> None:
    class Words(Settings):
        words: tuple[str, ...] = ()

    class Mask(PatternTransform[Words]):
        pass

    class MaskMore(Mask):
        pass

    found = [settings_class(cls) for cls in (Mask, MaskMore, Hide, PatternTransform)]
    assert found == [Words, Words, NoSettings, NoSettings]
    assert inspect_middleware(MaskMore).faults == ()
    assert inspect_middleware(HideAsync).faults == ()
