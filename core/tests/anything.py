"""Any stream, for property tests: what agents may send.

A stream is a list of *items*: makers that are given the run's input and return an event, raw data,
something that is neither, or an exception to raise.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
)
from hypothesis import strategies as st

from interpose import Reject
from interpose.agui import EVENT_CLASSES, to_json

Item = Callable[[RunAgentInput], Any]
IDS = ("x", "y")
OWNERS = ("a", "b")


# -- events -------------------------------------------------------------------------------------


def _event(kind: str, **fields: Any) -> BaseEvent:
    return EVENT_CLASSES[kind].model_validate(fields)


def _whole_events() -> list[BaseEvent]:
    events: list[BaseEvent] = []
    for owner in ({}, {"subagentRunId": "a"}, {"subagentRunId": "b"}):
        for id_ in IDS:
            message = {"messageId": id_, **owner}
            call = {"toolCallId": id_, **owner}
            events += [
                _event("TEXT_MESSAGE_START", **message),
                _event("TEXT_MESSAGE_CONTENT", **message, delta="hi"),
                _event("TEXT_MESSAGE_END", **message),
                _event("TOOL_CALL_START", **call, toolCallName="f", parentMessageId="x"),
                _event("TOOL_CALL_START", **call, toolCallName="g"),
                _event("TOOL_CALL_ARGS", **call, delta="{"),
                _event("TOOL_CALL_END", **call),
                _event("TOOL_CALL_RESULT", **call, messageId=f"r{id_}", content="ok"),
                _event("REASONING_START", **message),
                _event("REASONING_MESSAGE_START", **message, role="reasoning"),
                _event("REASONING_MESSAGE_CONTENT", **message, delta="hm"),
                _event("REASONING_MESSAGE_END", **message),
                _event("REASONING_END", **message),
                _event("TEXT_MESSAGE_CHUNK", **message, delta="hi", metadata={"n": 1}),
                _event("TOOL_CALL_CHUNK", **call, toolCallName="f", delta="{}"),
                _event("REASONING_MESSAGE_CHUNK", **message, delta="hm"),
                _event("STEP_STARTED", stepName=id_, **owner),
                _event("STEP_FINISHED", stepName=id_, **owner),
                _event("ACTIVITY_SNAPSHOT", **message, activityType="p", content={"n": 1}),
            ]
        events += [
            _event("TEXT_MESSAGE_CHUNK", **owner, delta="more"),
            _event("TOOL_CALL_CHUNK", **owner),
            _event("REASONING_MESSAGE_CHUNK", **owner, delta="more"),
            _event("STATE_SNAPSHOT", snapshot=None, **owner),
            _event("CUSTOM", name="n", value=None, **owner),
            _event("RAW", event={"a": [1]}, **owner),
        ]
    patch = [{"op": "replace", "path": "/n", "value": 2}]
    for owner_id in OWNERS:
        child = {"subagentRunId": owner_id}
        events += [
            _event("SUBAGENT_STARTED", **child, name="n"),
            _event("SUBAGENT_STARTED", **child, name="n", parentSubagentRunId="b"),
            _event("SUBAGENT_FINISHED", **child),
            _event("SUBAGENT_ERROR", **child, message="no"),
        ]
    user = {"id": "x", "role": "user", "content": "hi", "subagentRunId": "b"}
    called = {"id": "x", "type": "function", "function": {"name": "f", "arguments": ""}}
    events += [
        _event("STATE_DELTA", delta=patch),
        _event("ACTIVITY_DELTA", messageId="x", activityType="p", patch=patch),
        _event("REASONING_ENCRYPTED_VALUE", subtype="message", entityId="x", encryptedValue="e"),
        _event("MESSAGES_SNAPSHOT", messages=[]),
        _event("MESSAGES_SNAPSHOT", messages=[user]),
        _event(
            "MESSAGES_SNAPSHOT", messages=[{"id": "y", "role": "assistant", "toolCalls": [called]}]
        ),
    ]
    return events


class _Grown(TextMessageContentEvent):
    """A class that a framework made of an event."""

    more: str = ""


WHOLE = _whole_events()
ODD: list[Any] = [
    _Grown(message_id="x", delta="grown"),
    BaseEvent(type="STEP_STARTED", stepName="x"),  # type: ignore[arg-type, call-arg]
    {"type": "THINKING_START", "title": "t"},
    {"type": "THINKING_TEXT_MESSAGE_START"},
    {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "hm"},
    {"type": "THINKING_TEXT_MESSAGE_END"},
    {"type": "THINKING_END"},
    {"type": "TEXT_MESSAGE_CHUNK", "message_id": "x", "delta": "snake", "new": 1},
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": "x", "delta": None, "rawEvent": None},
    {"type": "TOOL_CALL_CHUNK", "toolCallId": "x", "toolCallName": "f", "parentMessageId": None},
    {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "u", "role": "oracle"}]},
    {
        "type": "MESSAGES_SNAPSHOT",
        "messages": [{"id": "u", "role": "user", "content": [{"type": "binary", "id": "f"}]}],
    },
    {"type": "CUSTOM", "name": "n", "value": {"deep": [None, {"é": "\U0001f600"}]}},
    {"type": "STATE_DELTA", "delta": [{"op": "new"}, {"op": "add", "path": "/a", "value": None}]},
    {"type": "HOLOGRAM"},
]
BROKEN: list[Any] = [
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "x"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "x", "delta": 5},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "x", "delta": "\ud83d"},
    {"type": "TEXT_MESSAGE_END", "messageId": "x", "subagentRunId": None},
    {"type": 7},
    {},
    "RUN_FINISHED",
    None,
    ValueError("the agent's own"),
    Reject("no", "No."),
]


def _raw(event: BaseEvent) -> Any:
    return json.loads(to_json(event))


def _constant(value: Any) -> Item:
    return lambda _: value


def started(run: RunAgentInput) -> BaseEvent:
    return RunStartedEvent(thread_id=run.thread_id, run_id=run.run_id)


def echoing(run: RunAgentInput) -> BaseEvent:
    return RunStartedEvent(thread_id=run.thread_id, run_id=run.run_id, input=run)


def finished(run: RunAgentInput) -> BaseEvent:
    return RunFinishedEvent(thread_id=run.thread_id, run_id=run.run_id)


def _ended(outcome: Any) -> Item:
    return lambda run: finished(run).model_copy(update={"outcome": outcome})


FRAME: list[Item] = [
    started,
    echoing,
    lambda run: _raw(started(run)),
    lambda run: RunStartedEvent(thread_id=run.thread_id, run_id="another"),
    finished,
    lambda run: {**_raw(finished(run)), "outcome": None, "result": None},
    lambda run: RunFinishedEvent(thread_id="another", run_id=run.run_id),
    _ended(RunFinishedCancelledOutcome()),
    _ended(RunFinishedInterruptOutcome(interrupts=[Interrupt(id="i", reason="r")])),
    _constant(RunErrorEvent(message="no")),
]

_whole = st.sampled_from(WHOLE).map(_constant)
_whole_raw = st.sampled_from(WHOLE).map(lambda event: _constant(_raw(event)))
_odd = st.sampled_from(ODD).map(_constant)
_tame = st.one_of(_whole, _whole_raw, _odd)
wild = st.one_of(_tame, _tame, st.sampled_from(BROKEN).map(_constant), st.sampled_from(FRAME))


# -- streams ------------------------------------------------------------------------------------

GROUPS: list[list[tuple[str, dict[str, Any]]]] = [
    [
        ("TEXT_MESSAGE_START", {"messageId": "$"}),
        ("TEXT_MESSAGE_CONTENT", {"messageId": "$", "delta": "hi "}),
        ("TEXT_MESSAGE_CONTENT", {"messageId": "$", "delta": "word"}),
        ("TEXT_MESSAGE_END", {"messageId": "$"}),
    ],
    [
        ("TOOL_CALL_START", {"toolCallId": "$", "toolCallName": "f"}),
        ("TOOL_CALL_ARGS", {"toolCallId": "$", "delta": "{}"}),
        ("TOOL_CALL_END", {"toolCallId": "$"}),
        ("TOOL_CALL_RESULT", {"toolCallId": "$", "messageId": "r$", "content": "ok"}),
    ],
    [
        ("REASONING_START", {"messageId": "$"}),
        ("REASONING_MESSAGE_START", {"messageId": "$", "role": "reasoning"}),
        ("REASONING_MESSAGE_CONTENT", {"messageId": "$", "delta": "hm"}),
        ("REASONING_MESSAGE_END", {"messageId": "$"}),
        ("REASONING_END", {"messageId": "$"}),
    ],
    [
        ("THINKING_START", {"title": "t"}),
        ("THINKING_TEXT_MESSAGE_START", {}),
        ("THINKING_TEXT_MESSAGE_CONTENT", {"delta": "hm"}),
        ("THINKING_TEXT_MESSAGE_END", {}),
        ("THINKING_END", {}),
    ],
    [("STEP_STARTED", {"stepName": "$"}), ("STEP_FINISHED", {"stepName": "$"})],
    [
        ("SUBAGENT_STARTED", {"subagentRunId": "$", "name": "n"}),
        ("TEXT_MESSAGE_CHUNK", {"messageId": "m$", "delta": "a", "subagentRunId": "$"}),
        ("TEXT_MESSAGE_CHUNK", {"messageId": "m$", "delta": "b", "subagentRunId": "$"}),
        ("SUBAGENT_FINISHED", {"subagentRunId": "$", "result": None}),
    ],
    [
        ("TEXT_MESSAGE_CHUNK", {"messageId": "$", "delta": "hi"}),
        ("TEXT_MESSAGE_CHUNK", {"messageId": "$", "rawEvent": {"a": 1}}),
    ],
    [
        ("TOOL_CALL_CHUNK", {"toolCallId": "$", "toolCallName": "f", "delta": "{"}),
        ("TOOL_CALL_CHUNK", {"toolCallId": "$", "toolCallName": "f", "delta": "}"}),
    ],
    [("STATE_SNAPSHOT", {"snapshot": {"n": 1}}), ("STATE_DELTA", {"delta": []})],
    [("CUSTOM", {"name": "$", "value": None})],
    [("RAW", {"event": {"id": "$"}}), ("HOLOGRAM", {})],
]
"""What belongs together, with ``$`` for an id; any of them may interleave and stay valid."""


def _named(value: Any, id_: str) -> Any:
    if isinstance(value, str):
        return value.replace("$", id_)
    return (
        {key: _named(item, id_) for key, item in value.items()}
        if isinstance(value, dict)
        else value
    )


@st.composite
def bodies(draw: st.DrawFn) -> list[Item]:
    """What a valid run holds between its start and its end, as models or as raw data."""
    chosen = draw(st.lists(st.sampled_from(range(len(GROUPS))), max_size=4))
    thinking = [index for index in chosen if GROUPS[index][0][0] == "THINKING_START"]
    left = [
        [{"type": kind, **_named(fields, f"g{number}")} for kind, fields in GROUPS[index]]
        for number, index in enumerate(chosen)
        if index not in thinking[1:] or chosen.index(index) == number
    ]
    body: list[Item] = []
    while left:
        at = draw(st.integers(0, len(left) - 1))
        raw = left[at].pop(0)
        left = [group for group in left if group]
        typed = raw["type"] in EVENT_CLASSES and draw(st.booleans())
        body.append(_constant(EVENT_CLASSES[raw["type"]].model_validate(raw) if typed else raw))
    return body


def _with(run: list[Item], at: int, item: Item) -> list[Item]:
    place = 1 + at % len(run)
    return [*run[:place], item, *run[place:]]


def _without(run: list[Item], at: int) -> list[Item]:
    return [item for index, item in enumerate(run) if index != at % len(run)]


_runs = st.builds(lambda body, end: [started, *body, end], bodies(), st.just(finished))
_places = st.integers(0, 12)
_kinds = {
    "valid": _runs,
    "ended otherwise": st.builds(
        lambda body, end: [started, *body, end], bodies(), st.sampled_from(FRAME)
    ),
    "with one more": st.builds(_with, _runs, _places, _tame),
    "with anything": st.builds(_with, _runs, _places, wild),
    "with one less": st.builds(_without, _runs, _places),
    "two runs": st.builds(lambda one, more: [*one, *more], _runs, st.one_of(_runs, bodies())),
    "anything": st.lists(wild, max_size=8),
}
_weights = {"valid": 5, "with one more": 3, "two runs": 2}
streams = st.sampled_from([kind for kind in _kinds for _ in range(_weights.get(kind, 1))]).flatmap(
    lambda kind: _kinds[kind]
)
"""What an agent sends: often valid, often nearly so, and sometimes anything."""
