"""Calling the model under contract, in a real run."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
)

from interpose.authoring import Point
from interpose.context import AgentContext
from interpose.loop.modelcall import checked
from interpose.model import Model, ModelContext
from interpose.payloads import ModelRequest
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.parts import USE, ModelSubject
from interpose.testing.events import finished, started

T = TypeVar("T")

Look = Callable[[ModelSubject], Awaitable[Finding | None]]
Work = Callable[[Model, Callable[[], ModelContext]], Awaitable[T]]
"""Takes the model, and what makes a context for each call."""


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


def answering(look: Look) -> Look:
    """Leave a model that does not answer to the check that tells so."""

    @wraps(look)
    async def checked_anyway(subject: ModelSubject) -> Finding | None:
        try:
            return await look(subject)
        except Unanswered:
            return None

    return checked_anyway
