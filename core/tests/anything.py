"""Any stream and any chain, for property tests: what agents may send and layers may do.

A stream is a list of *items*: makers that are given the run's input and return an event, raw data,
something that is neither, or an exception to raise.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
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
    TextMessageEndEvent,
    TextMessageStartEvent,
    UserMessage,
)
from hypothesis import strategies as st

from interpose import CallRun, Middleware, Reject, RunContext
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
_wild = st.one_of(_tame, _tame, st.sampled_from(BROKEN).map(_constant), st.sampled_from(FRAME))


def _message(id_: str, deltas: list[str]) -> list[Item]:
    events = [
        TextMessageStartEvent(message_id=id_, role="assistant"),
        *(TextMessageContentEvent(message_id=id_, delta=delta) for delta in deltas),
        TextMessageEndEvent(message_id=id_),
    ]
    return [_constant(event) for event in events]


_messages = st.builds(_message, st.sampled_from(["m", "n"]), st.lists(st.just("word "), max_size=3))
items = st.one_of(_tame.map(lambda item: [item]), _messages)


def _joined(parts: Sequence[Sequence[Item]]) -> list[Item]:
    return [item for part in parts for item in part]


bodies = st.lists(items, max_size=6).map(_joined)
"""Between a run's start and end, mostly in order."""

streams = st.one_of(
    st.builds(lambda body: [started, *body, finished], bodies),
    st.builds(lambda body, end: [started, *body, end], bodies, st.sampled_from(FRAME)),
    st.builds(lambda body, more: [started, *body, finished, *more], bodies, bodies),
    st.builds(lambda one, two: [started, *one, finished, started, *two, finished], bodies, bodies),
    st.lists(_wild, max_size=8),
    st.builds(lambda body: [started, *body], st.lists(_wild, max_size=8)),
)


# -- layers -------------------------------------------------------------------------------------


@dataclass
class Act:
    """What one layer does in one run: ``at`` its n-th event, with the events of ``items``."""

    at: int
    items: Sequence[Item] = field(default_factory=list)
    seen: int = 0

    def is_due(self) -> bool:
        self.seen += 1
        return self.seen == self.at

    def events(self, run: RunAgentInput) -> list[Any]:
        made = [item(run) for item in self.items]
        return [event for event in made if isinstance(event, BaseEvent)]


def act(ctx: RunContext) -> Act:
    found: Act = ctx.attributes["acts"][ctx.layer]
    return found


class Drops(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        return [] if act(ctx).is_due() else event


class Doubles(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        return [event, event] if act(ctx).is_due() else event


class Holds(Middleware):
    def setup(self, ctx: RunContext) -> None:
        self.held: list[BaseEvent] = []

    async def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        if act(ctx).is_due():
            self.held.append(event)
            return []
        held, self.held = self.held, []
        return [event, *held]


class Fails(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        if act(ctx).is_due():
            raise ValueError("a layer's own")
        return event


class Skips(Fails):
    on_failure = "skip"


class Injects(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        return [*act(ctx).events(ctx.input), event] if act(ctx).is_due() else event


class Returns(Middleware):
    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        return [item(ctx.input) for item in act(ctx).items] if act(ctx).is_due() else event


class Raw(Middleware):
    form = "raw"
    rewrites_history = True

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        return [event, *act(ctx).events(ctx.input)] if act(ctx).is_due() else event


class Ends(Middleware):
    """Ends the run on purpose, in one of the ways; swallows what that raises in others."""

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        if act(ctx).is_due():
            way = len(act(ctx).items)
            try:
                self.end(ctx, way % 3)
            except BaseException:
                if way % 2 == 0:
                    raise
        return event

    def end(self, ctx: RunContext, way: int) -> None:
        if way == 0:
            ctx.finish("that is all")
        if way == 1:
            ctx.abort("enough")
        ctx.interrupt(Interrupt(id="i", reason="r"))


class Tracks(Middleware):
    tracks_state = True

    def on_event(self, ctx: RunContext, event: BaseEvent) -> Any:
        if act(ctx).is_due() and (ctx.messages or ctx.state):
            ctx.emit(event)
        return None

    def on_message(self, ctx: RunContext, message: Any) -> None:
        for event in act(ctx).events(ctx.input):
            ctx.emit(event)


class Answers(Middleware):
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        if act(ctx).at % 2:
            async for event in call_next(run_input):
                yield event
                if act(ctx).is_due():
                    break
        for event in act(ctx).events(run_input):
            ctx.emit(event)
            yield event


class Swallows(Middleware):
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        try:
            async for event in call_next(run_input):
                yield event
        except Exception:  # noqa: BLE001
            for event in act(ctx).events(run_input):
                yield event
            if act(ctx).at % 2:
                yield finished(run_input)


class Retries(Middleware):
    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        held: list[BaseEvent] = []
        for _ in range(2):
            with contextlib.suppress(Exception):
                async for event in call_next(run_input):
                    held.append(event)
                    if act(ctx).is_due():
                        yield event
                break
        for event in held:
            yield event


class Continues(Middleware):
    may_continue = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(run_input):
            yield event
        for event in act(ctx).events(run_input):
            yield event
        if act(ctx).at % 2:
            more = [*run_input.messages, UserMessage(id="again", content="again")]
            longer = run_input.model_copy(update={"messages": more})
            async for event in call_next(longer, continues=True):
                yield event


LAYERS: tuple[type[Middleware[Any, Any]], ...] = (
    *(Drops, Doubles, Holds, Fails, Skips, Injects, Returns, Ends, Tracks),
    *(Answers, Swallows, Retries, Continues),
)
acts = st.builds(Act, st.integers(0, 6), st.lists(_wild, max_size=3))
chains = st.builds(
    lambda outer, inner: [*outer, *inner],
    st.lists(st.sampled_from(LAYERS), max_size=3),
    st.lists(st.just(Raw), max_size=1),
)
