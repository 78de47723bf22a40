"""Checks of models: what they stream is what the loop reads, and closing it ends the call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, get_args

from ag_ui.core import (
    BaseEvent,
    ToolCallArgsEvent,
    ToolCallStartEvent,
)

from interpose.agui import CHUNKS, Expander, Verifier
from interpose.errors import InvalidStream, TruncatedStream
from interpose.loop_errors import ModelFailed
from interpose.model import FinishReason, ModelFinished
from interpose.payloads import ModelRequest
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.model_calling import Unanswered, answering, asked, play, with_model
from interpose.testing.contracts.model_streams import CLOSED, cancels, closes, interleaved
from interpose.testing.contracts.parts import ModelSubject
from interpose.testing.contracts.remaining import Leftovers
from interpose.testing.contracts.rule import Rule
from interpose.testing.events import finished, started

_VALID: Final = "events of one model call: text, reasoning and tool calls, whole or as chunks"


async def answers(subject: ModelSubject) -> Finding | None:
    """Make one call, and hold what comes against the rules of model calls."""
    try:
        events = await with_model(subject, lambda m, c: play(m, asked(subject), c))
    except Unanswered as failure:
        error = failure.__cause__
        if isinstance(error, InvalidStream):
            return Finding(error.message, _VALID)
        return Finding(
            f"it does not answer the request: {error!r}",
            "request=ModelRequest(...) is one that it can answer",
        )
    said = _invalid(events)
    if said:
        return Finding(f"what it streams is not valid: {said}", _VALID, events)
    return _ending(events)


def _invalid(events: Sequence[BaseEvent]) -> str:
    """Play the events as the middle of a run."""
    expander, verifier = Expander(), Verifier()
    try:
        verifier.check(started())
        for event in (event for event in events if not isinstance(event, ModelFinished)):
            for part in expander.push(event) if event.__class__ in CHUNKS else (event,):
                verifier.check(part)
        for part in expander.close():
            verifier.check(part)
        verifier.check(finished())
        verifier.finish()
    except (InvalidStream, TruncatedStream) as error:
        return error.message
    return ""


def _ending(events: Sequence[BaseEvent]) -> Finding | None:
    ends = [event for event in events if isinstance(event, ModelFinished)]
    expected = "one ModelFinished, last, with the reason and the usage"
    if not ends:
        return Finding("its stream ends without ModelFinished", expected, events)
    if len(ends) > 1 or events[-1] is not ends[0]:
        return Finding("ModelFinished is not its one last event", expected, events)
    reason = ends[0].finish_reason
    if reason is not None and reason not in get_args(FinishReason):
        return Finding(
            f"its finish_reason is {reason!r}", f"one of {', '.join(get_args(FinishReason))}"
        )
    called = any(isinstance(event, ToolCallStartEvent) for event in _whole(events))
    if reason == "tool_calls" and not called:
        return Finding("it says that it ended with tool calls, and made none", expected, events)
    return None


def _whole(events: Sequence[BaseEvent]) -> list[BaseEvent]:
    expander = Expander()
    others = [event for event in events if not isinstance(event, ModelFinished)]
    whole = [part for event in others for part in expander.push(event)]
    return [*whole, *expander.close()]


async def calls(subject: ModelSubject) -> Finding | None:
    """Read the arguments of its tool calls as the loop does."""
    events = await with_model(subject, lambda m, c: play(m, asked(subject), c))
    names: dict[str, str] = {}
    args: dict[str, str] = {}
    for event in _whole(events):
        if isinstance(event, ToolCallStartEvent):
            if event.tool_call_id in names:
                return Finding(
                    f"two tool calls have the id {event.tool_call_id!r}", "an id for each", events
                )
            names[event.tool_call_id] = event.tool_call_name
            args[event.tool_call_id] = ""
        elif isinstance(event, ToolCallArgsEvent):
            args[event.tool_call_id] = args.get(event.tool_call_id, "") + event.delta
    for ident, text in args.items():
        try:
            is_object = isinstance(json.loads(text or "{}"), dict)
        except ValueError:
            is_object = False
        if not is_object:
            return Finding(
                f"the arguments of {names.get(ident, ident)} are {text!r}",
                "a JSON object",
                events,
            )
    return None


async def usage(subject: ModelSubject) -> Finding | None:
    """Add up what a call says that it used."""
    events = await with_model(subject, lambda m, c: play(m, asked(subject), c))
    for event in events:
        if not isinstance(event, ModelFinished):
            continue
        for used in event.usage:
            for name in ("input_tokens", "output_tokens", "total_tokens"):
                count = getattr(used, name)
                if count is not None and (not isinstance(count, int) or count < 0):
                    return Finding(f"its usage has {name} = {count!r}", "counts from 0")
            parts = (used.input_tokens or 0) + (used.output_tokens or 0)
            if used.total_tokens is not None and used.total_tokens < parts:
                return Finding(
                    f"its usage has {used.total_tokens} tokens in total, and {parts} of input and "
                    "output",
                    "a total that is no less than its parts",
                )
    return None


async def untouched(subject: ModelSubject) -> Finding | None:
    """Compare the request before and after the call."""
    before, given = asked(subject), asked(subject)
    await with_model(subject, lambda m, c: play(m, given, c))
    for name in ModelRequest.__dataclass_fields__:
        if getattr(before, name) != getattr(given, name):
            return Finding(
                f"it changes {name} of the request in place",
                "the request stays as it is: a retry, and other layers, use it again",
            )
    return None


async def fails(subject: ModelSubject) -> Finding | None:
    """Make the calls that cannot be answered; they must fail in the loop's words."""
    expected = "ModelFailed or one of its kinds, as RateLimited or ModelUnavailable"
    for number, request in enumerate(subject.failing, start=1):
        before = Leftovers()
        try:
            await with_model(subject, lambda m, c, r=request: play(m, r, c))  # type: ignore[misc]
        except Unanswered as failure:
            error = failure.__cause__
            if not isinstance(error, ModelFailed):
                return Finding(f"request {number} of failing raises {error!r}", expected)
            left = await before.told()
            if left:
                return Finding(f"after request {number} of failing has failed, {left}", CLOSED)
        else:
            return Finding(f"request {number} of failing is answered", expected)
    return None


def _no_failing(subject: ModelSubject) -> str:
    return "" if subject.failing else "failing= gives no request that cannot be answered"


RULES: Final[tuple[Rule[ModelSubject], ...]] = (
    Rule(
        "answer-valid",
        "The loop builds history and stream from these events; what is wrong in them ends the run.",
        answers,
    ),
    Rule("calls-json", "The loop runs tools with these arguments.", answering(calls)),
    Rule("usage", "Budgets and bills are added up from it.", answering(usage)),
    Rule(
        "closes",
        "A run that is left closes the call; what goes on is paid for, and keeps its connection.",
        answering(closes),
    ),
    Rule(
        "cancels",
        "A model that swallows its cancellation keeps a stopped run, and the host, waiting.",
        answering(cancels),
    ),
    Rule(
        "interleaved-calls", "One model serves all runs of a host at once.", answering(interleaved)
    ),
    Rule("request-untouched", "Layers and retries share the request.", answering(untouched)),
    Rule(
        "fails-in-words",
        "Retries wait for RateLimited and ModelUnavailable alone; the class of another library "
        "tells nobody what to do.",
        fails,
        _no_failing,
    ),
)
