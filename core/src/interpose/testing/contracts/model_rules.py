"""Checks of models: what they stream is what the loop reads, and closing it ends the call."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar, get_args

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    ToolCallArgsEvent,
    ToolCallStartEvent,
)

from interpose.agui import CHUNKS, Expander, Verifier
from interpose.authoring import Point
from interpose.context import AgentContext
from interpose.errors import InvalidStream, TruncatedStream
from interpose.loop.modelcall import checked
from interpose.loop_errors import ModelFailed
from interpose.model import FinishReason, Model, ModelContext, ModelFinished
from interpose.payloads import ModelRequest
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import difference, fold
from interpose.testing.contracts.parts import USE, ModelSubject
from interpose.testing.contracts.remaining import Leftovers
from interpose.testing.contracts.rule import Rule
from interpose.testing.events import finished, started

T = TypeVar("T")

Look = Callable[[ModelSubject], Awaitable[Finding | None]]
Work = Callable[[Model, Callable[[], ModelContext]], Awaitable[T]]
"""Takes the model, and what makes a context for each call."""

_VALID: Final = "events of one model call: text, reasoning and tool calls, whole or as chunks"
_MOST_STOPS: Final = 12


class Unanswered(Exception):
    """The model failed; why is the cause."""


class _Asking:
    """An agent that does some work with the model, in a real run."""

    points = (Point.RUN, Point.EVENTS, Point.MODEL)

    def __init__(self, work: Work[Any]) -> None:
        self._work = work
        self.answer: Any = None
        self.failure: Exception | None = None

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        yield started(run_input)
        made = iter(range(1_000))
        model = ctx.loop.model(USE)
        try:
            self.answer = await self._work(
                model, lambda: ctx.loop.context(USE, f"message-{next(made)}")
            )
        except Exception as error:  # noqa: BLE001 - raised again outside the run
            self.failure = error
        yield finished(run_input)


async def with_model(subject: ModelSubject, work: Work[T]) -> T:
    """Do some work with the model, in a run of a host that has it. Raises :class:`Unanswered`."""
    asking = _Asking(work)
    async with subject.host(agent=asking) as host:
        result = await host.run("hi")
    failure = asking.failure or result.error
    if failure is not None:
        raise Unanswered from failure
    answer: T = asking.answer
    return answer


def asked(subject: ModelSubject) -> ModelRequest:
    """Return a request that no other call has."""
    return copy.deepcopy(subject.request)


async def play(
    model: Model, request: ModelRequest, context: Callable[[], ModelContext]
) -> list[BaseEvent]:
    """Return the events of one call, as the model gives them."""
    stream = model.stream(request, context())
    return [event async for event in checked(stream, USE)]


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


async def closes(subject: ModelSubject) -> Finding | None:
    """Close the stream after each of its first events."""

    async def work(model: Model, context: Callable[[], ModelContext]) -> Finding | None:
        for stop in range(_MOST_STOPS):
            before = Leftovers()
            stream = _opened(model.stream(asked(subject), context()))
            if not hasattr(stream, "aclose"):
                return Finding("its stream cannot be closed: it has no aclose", _CLOSED)
            taken = [event async for event in _first(stream, stop)]
            try:
                await stream.aclose()
            except Exception as error:  # noqa: BLE001 - a model may raise anything
                return Finding(f"closed after {stop} events, it raises {error!r}", _CLOSED)
            left = await before.told()
            if left:
                return Finding(f"closed after {stop} events, {left}", _CLOSED)
            if len(taken) < stop:
                return None
        return None

    return await with_model(subject, work)


_CLOSED: Final = "closing the stream ends the call, and all that belongs to it"


def _opened(stream: Any) -> Any:
    """Return a stream; what is none is told by the check of answers."""
    if isinstance(stream, Coroutine):
        stream.close()
        raise TypeError
    return stream


async def _first(stream: AsyncIterator[BaseEvent], count: int) -> AsyncIterator[BaseEvent]:
    for _ in range(count):
        try:
            yield await anext(stream)
        except StopAsyncIteration:
            return


async def cancels(subject: ModelSubject) -> Finding | None:
    """Cancel the task that reads the stream, after each of its first events."""

    async def work(model: Model, context: Callable[[], ModelContext]) -> Finding | None:
        for stop in range(1, _MOST_STOPS):
            before = Leftovers()
            stream = _opened(model.stream(asked(subject), context()))
            reading = asyncio.ensure_future(_read(stream, stop))
            await asyncio.wait([reading])
            said = await before.told() or _went_on(reading, stop)
            if said:
                return Finding(f"cancelled after {stop} events, {said}", _CANCELLED)
            if not reading.cancelled():
                return None  # it had fewer events
        return None

    return await with_model(subject, work)


async def _read(stream: Any, stop: int) -> int:
    """Count events; after so many the reader itself is cancelled, wherever it waits next."""
    count = 0
    try:
        async for _ in stream:
            count += 1
            task = asyncio.current_task()
            if count == stop and task is not None:
                task.cancel()
        await asyncio.sleep(0)
    finally:
        await stream.aclose()
    return count


def _went_on(reading: asyncio.Task[int], stop: int) -> str:
    if reading.cancelled():
        return ""
    error = reading.exception()
    if error is not None:
        return f"it raises {error!r}"
    return "it goes on" if reading.result() >= stop else ""


_CANCELLED: Final = "CancelledError passes, and the call ends"


async def interleaved(subject: ModelSubject) -> Finding | None:
    """Make two calls, event by event in turn; each must say what it says alone."""

    async def work(model: Model, context: Callable[[], ModelContext]) -> Finding | None:
        alone = fold(await play(model, asked(subject), context))
        again = fold(await play(model, asked(subject), context))
        if difference(alone, again):
            return None  # a model that answers anew each time cannot be compared
        streams = [checked(model.stream(asked(subject), context()), USE) for _ in range(2)]
        heard: list[list[BaseEvent]] = [[], []]
        open_streams = [0, 1]
        while open_streams:
            for index in list(open_streams):
                try:
                    heard[index].append(await anext(streams[index]))
                except StopAsyncIteration:
                    open_streams.remove(index)
        for events in heard:
            said = difference(alone, fold(events))
            if said:
                return Finding(
                    f"two calls at once: one of them is not what it is alone: {said}",
                    "calls have nothing to do with each other",
                )
        return None

    return await with_model(subject, work)


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
                return Finding(f"after request {number} of failing has failed, {left}", _CLOSED)
        else:
            return Finding(f"request {number} of failing is answered", expected)
    return None


def _answering(look: Look) -> Look:
    """Leave a model that does not answer to the check that tells so."""

    async def answering(subject: ModelSubject) -> Finding | None:
        try:
            return await look(subject)
        except Unanswered:
            return None

    return answering


def _no_failing(subject: ModelSubject) -> str:
    return "" if subject.failing else "failing= gives no request that cannot be answered"


RULES: Final[tuple[Rule[ModelSubject], ...]] = (
    Rule(
        "answer-valid",
        "The loop builds history and stream from these events; what is wrong in them ends the run.",
        answers,
    ),
    Rule("calls-json", "The loop runs tools with these arguments.", _answering(calls)),
    Rule("usage", "Budgets and bills are added up from it.", _answering(usage)),
    Rule(
        "closes",
        "A run that is left closes the call; what goes on is paid for, and keeps its connection.",
        _answering(closes),
    ),
    Rule(
        "cancels",
        "A model that swallows its cancellation keeps a stopped run, and the host, waiting.",
        _answering(cancels),
    ),
    Rule(
        "interleaved-calls", "One model serves all runs of a host at once.", _answering(interleaved)
    ),
    Rule("request-untouched", "Layers and retries share the request.", _answering(untouched)),
    Rule(
        "fails-in-words",
        "Retries wait for RateLimited and ModelUnavailable alone; the class of another library "
        "tells nobody what to do.",
        fails,
        _no_failing,
    ),
)
