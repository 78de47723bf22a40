"""The transcript. Numbers in brackets are this suite's conformance cases for AG-UI streams."""

import copy
from typing import Any

import pytest
from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    FunctionCall,
    Message,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageStartEvent,
    RunAgentInput,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.agui import Expander, Transcript
from interpose.errors import UsageError

HELLO = UserMessage(id="u", content="hello")


def start(id_: str = "m", **more: Any) -> BaseEvent:
    return TextMessageStartEvent(message_id=id_, **more)


def content(delta: str, id_: str = "m", **more: Any) -> BaseEvent:
    return TextMessageContentEvent(message_id=id_, delta=delta, **more)


def end(id_: str = "m", **more: Any) -> BaseEvent:
    return TextMessageEndEvent(message_id=id_, **more)


def call(id_: str = "c", name: str = "f", **more: Any) -> BaseEvent:
    return ToolCallStartEvent(tool_call_id=id_, tool_call_name=name, **more)


def args(delta: str, id_: str = "c", **more: Any) -> BaseEvent:
    return ToolCallArgsEvent(tool_call_id=id_, delta=delta, **more)


def result(id_: str = "c", message_id: str = "r", **more: Any) -> BaseEvent:
    return ToolCallResultEvent(message_id=message_id, tool_call_id=id_, content="ok", **more)


def delta(*operations: dict[str, Any]) -> BaseEvent:
    return StateDeltaEvent.model_validate({"delta": operations})


def activity(id_: str = "a", **more: Any) -> BaseEvent:
    return ActivitySnapshotEvent(
        message_id=id_, **{"activity_type": "plan", "content": {"n": 1}, **more}
    )


def patch(*operations: dict[str, Any], **more: Any) -> BaseEvent:
    fields = {"messageId": "a", "activityType": "plan", "patch": operations, **more}
    return ActivityDeltaEvent.model_validate(fields)


def tool_call(id_: str = "c", arguments: str = "") -> ToolCall:
    return ToolCall(id=id_, function=FunctionCall(name="f", arguments=arguments))


def built(*events: BaseEvent, messages: tuple[Message, ...] = (), state: Any = None) -> Transcript:
    transcript = Transcript(messages, state)
    for event in events:
        transcript.apply(event)
    return transcript


def ids(transcript: Transcript) -> list[str]:
    return [message.id for message in transcript.messages]


# -- text ---------------------------------------------------------------------------------------


def test_12_messages_and_state_are_those_after_the_event() -> None:
    transcript = Transcript([HELLO], {"n": 0})
    seen = []
    for event in (start(), content("a"), content("b"), StateSnapshotEvent(snapshot={"n": 1})):
        transcript.apply(event)
        seen.append((transcript.messages[-1].content, transcript.state))
    assert seen == [("", {"n": 0}), ("a", {"n": 0}), ("ab", {"n": 0}), ("ab", {"n": 1})]


def test_what_was_read_before_does_not_change_later() -> None:
    transcript = built(start(), content("a"))
    before = transcript.messages
    transcript.apply(content("b"))
    assert before[0].content == "a"
    assert transcript.messages[0].content == "ab"


def test_reading_twice_builds_once_and_untouched_messages_are_the_given_ones() -> None:
    transcript = built(start(), content("a"), messages=(HELLO,))
    assert transcript.messages is transcript.messages
    assert transcript.messages[0] is HELLO


def test_13_chunks_build_one_message_however_many_transcripts_look() -> None:
    expander = Expander()
    layers = [Transcript(), Transcript(), Transcript()]
    for chunk in (
        TextMessageChunkEvent(message_id="m", delta="a"),
        TextMessageChunkEvent(delta="b"),
    ):
        for event in expander.push(chunk):
            for layer in layers:
                layer.apply(event)
    for layer in layers:
        assert layer.messages == (AssistantMessage(id="m", content="ab"),)


def test_14_tool_call_chunks_build_an_assistant_message_with_calls() -> None:
    expander, transcript = Expander(), Transcript()
    for chunk in (
        ToolCallChunkEvent(tool_call_id="c", tool_call_name="f", delta='{"a"'),
        ToolCallChunkEvent(delta=":1}"),
    ):
        for event in expander.push(chunk):
            transcript.apply(event)
    assert transcript.messages == (
        AssistantMessage(id="c", tool_calls=[tool_call("c", '{"a":1}')]),
    )


def test_18_the_given_messages_come_first_and_the_given_state_stays() -> None:
    transcript = built(start(), content("hi"), messages=(HELLO,), state={"kept": True})
    assert ids(transcript) == ["u", "m"]
    assert transcript.state == {"kept": True}


def test_a_text_message_has_the_role_name_and_owner_of_its_start() -> None:
    transcript = built(start(role="user", name="Ada", subagent_run_id="s"), content("x"))
    assert transcript.messages == (
        UserMessage(id="m", content="x", name="Ada", subagent_run_id="s"),
    )


def test_a_start_of_a_known_id_goes_on_with_that_message() -> None:
    transcript = built(
        call(parent_message_id="m"), start(), content("a"), end(), start(), content("b")
    )
    assert transcript.messages == (
        AssistantMessage(id="m", content="ab", tool_calls=[tool_call()]),
    )


def test_content_without_a_message_is_left_out_with_a_warning() -> None:
    transcript = built(content("x", "ghost"))
    assert transcript.messages == ()
    assert transcript.warnings == [
        "TEXT_MESSAGE_CONTENT was not applied: there is no message 'ghost'"
    ]


def test_text_does_not_go_into_an_activity() -> None:
    transcript = built(activity("m"), start(), content("x"), end())
    assert transcript.messages == (ActivityMessage(id="m", activity_type="plan", content={"n": 1}),)
    assert len(transcript.warnings) == 3


def test_reasoning_builds_a_reasoning_message() -> None:
    transcript = built(
        ReasoningMessageStartEvent(message_id="m", role="reasoning"),
        ReasoningMessageContentEvent(message_id="m", delta="hm"),
        ReasoningEncryptedValueEvent(subtype="message", entity_id="m", encrypted_value="v"),
    )
    assert transcript.messages == (ReasoningMessage(id="m", content="hm", encrypted_value="v"),)


def test_metadata_merges_key_by_key_into_what_the_event_builds() -> None:
    transcript = built(
        start(metadata={"a": 1, "b": {"x": 1}}),
        content("x", metadata={"b": {"y": 2}}),
        end(metadata={"c": 3}),
        call(parent_message_id="m", metadata={"k": 1}),
        args("{}", metadata={"k": 2}),
        CustomEvent(name="n", value=1, metadata={"nowhere": 1}),
    )
    (message,) = transcript.messages
    assert isinstance(message, AssistantMessage)
    assert message.metadata == {"a": 1, "b": {"y": 2}, "c": 3}
    assert message.tool_calls
    assert message.tool_calls[0].metadata == {"k": 2}


def test_text_is_the_last_assistant_message_that_this_run_wrote() -> None:
    old = AssistantMessage(id="old", content="before")
    assert built(messages=(old,)).text == ""
    transcript = built(
        start("1"), content("first", "1"), start("2"), content("last", "2"), call(),
        start("3", subagent_run_id="s"), content("subagent", "3"), messages=(old,),
    )  # fmt: skip
    assert transcript.text == "last"


# -- tool calls ---------------------------------------------------------------------------------


def test_a_call_goes_into_its_parent_message() -> None:
    transcript = built(start(), content("x"), call(parent_message_id="m"), args("{}"))
    assert transcript.messages == (
        AssistantMessage(id="m", content="x", tool_calls=[tool_call("c", "{}")]),
    )


def test_a_call_without_a_known_parent_makes_one() -> None:
    assert built(call(parent_message_id="p")).messages == (
        AssistantMessage(id="p", tool_calls=[tool_call()]),
    )
    assert built(call(subagent_run_id="s")).messages == (
        AssistantMessage(id="c", subagent_run_id="s", tool_calls=[tool_call()]),
    )


def test_56_a_parent_that_is_no_assistant_message_is_not_used() -> None:
    transcript = built(call(parent_message_id="u"), messages=(HELLO,))
    assert transcript.messages == (HELLO, AssistantMessage(id="c", tool_calls=[tool_call()]))
    assert len(transcript.warnings) == 1


def test_a_known_call_is_not_started_twice() -> None:
    given = AssistantMessage(id="m", tool_calls=[tool_call("c", "{}")])
    transcript = built(call("c", "g", parent_message_id="elsewhere"), messages=(given,))
    (message,) = transcript.messages
    assert isinstance(message, AssistantMessage)
    assert message.tool_calls
    assert message.tool_calls[0].function == FunctionCall(name="g", arguments="{}")
    assert len(transcript.warnings) == 1


def test_a_result_stands_behind_its_call_even_if_it_comes_late() -> None:
    transcript = built(
        call("c1", parent_message_id="m"), call("c2", parent_message_id="m"),
        start("after"), content("text", "after"),
        result("c1", "r1", metadata={"k": 1}, subagent_run_id="s"), result("c2", "r2"),
    )  # fmt: skip
    assert ids(transcript) == ["m", "r1", "r2", "after"]
    assert transcript.messages[1] == ToolMessage(
        id="r1", tool_call_id="c1", content="ok", metadata={"k": 1}, subagent_run_id="s"
    )
    transcript.apply(content(" goes on", "after"))
    assert transcript.messages[3].content == "text goes on"


def test_a_result_of_an_unknown_call_stands_at_the_end() -> None:
    assert ids(built(start(), result("ghost"))) == ["m", "r"]


def test_an_encrypted_value_lands_on_the_call() -> None:
    event = ReasoningEncryptedValueEvent(subtype="tool-call", entity_id="c", encrypted_value="v")
    ghost = ReasoningEncryptedValueEvent(subtype="message", entity_id="?", encrypted_value="v")
    (message,) = built(call(), event, ghost).messages
    assert isinstance(message, AssistantMessage)
    assert message.tool_calls
    assert message.tool_calls[0].encrypted_value == "v"


# -- state --------------------------------------------------------------------------------------


def test_15_snapshot_and_deltas_evolve_step_by_step() -> None:
    transcript = Transcript()
    assert transcript.state == {}
    transcript.apply(StateSnapshotEvent(snapshot={"n": 1}))
    first = transcript.state
    transcript.apply(delta({"op": "replace", "path": "/n", "value": 2}))
    transcript.apply(delta({"op": "add", "path": "/l", "value": [1]}))
    assert transcript.state == {"n": 2, "l": [1]}
    assert first == {"n": 1}


@pytest.mark.parametrize("snapshot", [None, 0, "", False, []])
def test_a_falsy_snapshot_replaces_the_state(snapshot: object) -> None:
    assert built(StateSnapshotEvent(snapshot=snapshot), state={"n": 1}).state == snapshot


@pytest.mark.parametrize(
    "failing",
    [
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "test", "path": "/n", "value": "hunter2"},
        {"op": "add", "path": "/n/deep", "value": 1},
    ],
)
def test_53_a_patch_that_does_not_fit_changes_nothing_and_warns_without_values(
    failing: dict[str, Any],
) -> None:
    transcript = built(delta({"op": "add", "path": "/x", "value": 1}, failing), state={"n": "pw"})
    assert transcript.state == {"n": "pw"}
    (warning,) = transcript.warnings
    assert warning.startswith("STATE_DELTA was not applied: the patch does not fit")
    assert failing["path"] in warning
    assert "hunter2" not in warning
    assert "pw" not in warning


def test_53_members_that_an_operation_does_not_define_are_ignored() -> None:
    transcript = built(delta({"op": "remove", "path": "/n", "value": "left over"}), state={"n": 1})
    assert transcript.state == {}


def test_a_patch_does_not_reach_into_its_own_event() -> None:
    event = StateDeltaEvent.model_validate(
        {
            "delta": [
                {"op": "add", "path": "/a", "value": {"x": 1}},
                {"op": "add", "path": "/a/y", "value": 2},
            ]
        }
    )
    before = event.model_copy(deep=True)
    assert built(event).state == {"a": {"x": 1, "y": 2}}
    assert event == before


# -- snapshots of messages ----------------------------------------------------------------------


def snapshot(*messages: Message, **more: Any) -> BaseEvent:
    return MessagesSnapshotEvent(messages=list(messages), **more)


def test_16_a_snapshot_replaces_the_messages() -> None:
    new = UserMessage(id="n", content="new")
    assert built(start(), snapshot(new), messages=(HELLO,)).messages == (new,)


def test_16_an_empty_snapshot_leaves_no_messages() -> None:
    transcript = built(start())
    assert ids(transcript) == ["m"]
    transcript.apply(snapshot())
    assert transcript.messages == ()


def test_57_known_messages_keep_their_place_and_new_ones_follow() -> None:
    one, two = UserMessage(id="1", content="1"), UserMessage(id="2", content="2")
    changed, new = UserMessage(id="2", content="two"), UserMessage(id="3", content="3")
    transcript = built(snapshot(new, changed, one), messages=(one, two))
    assert transcript.messages == (one, changed, new)


THOUGHT = ReasoningMessage(id="r", content="hm")
PLAN = ActivityMessage(id="a", activity_type="plan", content={})
CHART = ActivityMessage(id="b", activity_type="chart", content={})


def test_57_activities_and_reasoning_stay_until_a_snapshot_carries_their_kind() -> None:
    given = (HELLO, THOUGHT, PLAN)
    assert built(snapshot(HELLO), messages=given).messages == given
    assert built(snapshot(HELLO, CHART), messages=given).messages == (HELLO, THOUGHT, CHART)
    other = ReasoningMessage(id="other", content="")
    assert built(snapshot(HELLO, other), messages=given).messages == (HELLO, PLAN, other)


@pytest.mark.parametrize(
    ("declared", "left"),
    [(None, ["u"]), (["plan"], ["u", "b"]), ([], ["u", "a", "b"]), ("plan", ["u", "a", "b"])],
)
def test_57_a_producer_may_declare_which_activities_it_owns(
    declared: object, left: list[str]
) -> None:
    metadata = {"@ag-ui/client": {"authoritativeActivityTypes": declared}}
    transcript = built(snapshot(HELLO, metadata=metadata), messages=(HELLO, PLAN, CHART))
    assert ids(transcript) == left


def test_text_goes_on_in_the_message_that_a_snapshot_brought() -> None:
    transcript = built(
        start(), content("a"), snapshot(AssistantMessage(id="m", content="A")), content("b")
    )
    assert transcript.messages == (AssistantMessage(id="m", content="Ab"),)


def test_the_echoed_input_adds_what_is_unknown() -> None:
    given = RunAgentInput(
        thread_id="t", run_id="r", messages=[UserMessage(id="u", content="other"), PLAN]
    )
    event = RunStartedEvent(thread_id="t", run_id="r", input=given)
    assert built(event, messages=(HELLO,)).messages == (HELLO, PLAN)


# -- activities ---------------------------------------------------------------------------------


def test_an_activity_is_made_replaced_and_patched() -> None:
    transcript = built(
        activity(metadata={"a": 1}, subagent_run_id="s"),
        activity(activity_type="plan2", content={"n": 2}, metadata={"b": 2}),
        patch({"op": "replace", "path": "/n", "value": 3}, activityType="plan2"),
    )
    assert transcript.messages == (
        ActivityMessage(id="a", activity_type="plan2", content={"n": 3}, metadata={"a": 1, "b": 2}),
    )


def test_an_activity_that_does_not_replace_leaves_what_is_there() -> None:
    first, second = activity(), activity(content={"n": 9}, replace=False)
    assert built(first, second).messages == built(first).messages
    assert built(activity("u", replace=False), messages=(HELLO,)).messages == (HELLO,)


def test_an_activity_may_replace_another_kind_of_message() -> None:
    given = AssistantMessage(id="a", tool_calls=[tool_call()])
    transcript = built(activity(), args("x"), messages=(given,))
    assert transcript.messages == (ActivityMessage(id="a", activity_type="plan", content={"n": 1}),)
    assert len(transcript.warnings) == 1


def test_a_patch_of_an_activity_keeps_its_metadata_even_if_it_fails() -> None:
    failing = patch({"op": "remove", "path": "/ghost"}, metadata={"k": 1})
    transcript = built(activity(), failing)
    assert transcript.messages == (
        ActivityMessage(id="a", activity_type="plan", content={"n": 1}, metadata={"k": 1}),
    )
    assert len(transcript.warnings) == 1


def test_a_patch_that_leaves_no_object_is_not_applied() -> None:
    transcript = built(activity(), patch({"op": "replace", "path": "", "value": [1]}))
    assert transcript.messages == built(activity()).messages
    assert len(transcript.warnings) == 1


def test_a_patch_of_an_unknown_activity_is_ignored_and_of_another_message_warned() -> None:
    assert built(patch()).warnings == []
    transcript = built(patch(), messages=(UserMessage(id="a", content=""),))
    assert len(transcript.warnings) == 1


# -- misuse, and for all streams ----------------------------------------------------------------


def test_a_chunk_is_refused_with_the_remedy() -> None:
    with pytest.raises(UsageError, match="Pass the stream through an Expander first"):
        Transcript().apply(TextMessageChunkEvent(message_id="m"))


ID = st.sampled_from(["", "m", "a", "u"])
META = st.sampled_from([None, {"k": {"deep": 1}}])
VALUE = st.sampled_from([1, {"x": [1]}, [1]])
OPERATION = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "replace", "remove"]),
        "path": st.sampled_from(["", "/s", "/s/x", "/s/x/0", "/n"]),
        "value": VALUE,
    }
)
MESSAGE = st.one_of(
    st.builds(UserMessage, id=ID, content=st.just("hi")),
    st.builds(AssistantMessage, id=ID, tool_calls=st.lists(st.builds(tool_call, ID), max_size=2)),
    st.builds(ActivityMessage, id=ID, activity_type=st.just("plan"), content=st.just({"n": [1]})),
)
EVENT = st.one_of(
    st.builds(start, ID, metadata=META),
    st.builds(content, st.just("x"), ID, metadata=META),
    st.builds(end, ID, metadata=META),
    st.builds(call, ID, parent_message_id=ID | st.none(), metadata=META),
    st.builds(args, st.just("{"), ID, metadata=META),
    st.builds(lambda id_: ToolCallEndEvent(tool_call_id=id_), ID),
    st.builds(result, ID, ID, metadata=META),
    st.builds(StateSnapshotEvent, snapshot=st.builds(lambda value: {"s": value}, VALUE)),
    st.lists(OPERATION, max_size=3).map(lambda ops: delta(*ops)),
    st.lists(OPERATION, max_size=3).map(lambda ops: patch(*ops, metadata={"p": 1})),
    st.builds(activity, ID, replace=st.booleans(), metadata=META),
    st.builds(lambda messages: snapshot(*messages), st.lists(MESSAGE, max_size=3)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(MESSAGE, max_size=3), st.lists(EVENT, max_size=15), st.booleans())
def test_nothing_given_is_ever_changed_and_reading_does_not_matter(
    messages: list[Message],
    events: list[BaseEvent],
    read: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    state = {"s": {"x": [1]}}
    given_before = copy.deepcopy((messages, state, events))
    eager, lazy = Transcript(messages, state), Transcript(messages, state)
    handed_out = []
    for event in events:
        eager.apply(event)
        lazy.apply(event)
        if read:
            handed_out.append((eager.messages, eager.state))
    frozen = copy.deepcopy(handed_out)
    assert eager.messages == lazy.messages
    assert eager.state == lazy.state
    eager.apply(content("more"))
    assert (messages, state, events) == given_before
    assert handed_out == frozen


def test_copies_that_double_a_state_are_bounded_and_the_run_goes_on() -> None:
    transcript = Transcript(state={"a": "x" * 100})
    double = [{"op": "copy", "from": "", "path": f"/k{number}"} for number in range(40)]
    before = transcript.state
    transcript.apply(StateDeltaEvent.model_validate({"delta": double}))
    assert transcript.state == before
    [warning] = transcript.warnings
    assert "copies more than 250000 values" in warning


def test_copies_of_many_patches_count_together() -> None:
    transcript = Transcript(state={"a": [0] * 10_000})
    for number in range(30):
        operation = {"op": "copy", "from": "/a", "path": f"/k{number}"}
        transcript.apply(StateDeltaEvent.model_validate({"delta": [operation]}))
    assert len(transcript.state) == 25  # "a", and 24 copies of its 10,001 values
    assert len(transcript.warnings) == 6
