"""Watching how a middleware uses ``call_next``: by a subclass of it that notes each call."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ag_ui.core import BaseEvent, EventType

from interpose.authoring import Middleware
from interpose.errors import MiddlewareError
from interpose.model import ModelFinished
from interpose.startup.inspection import inspect_middleware
from interpose.testing.contracts.subject import Subject

AROUND: Final = ("around_run", "around_step", "around_model_call", "around_tool_call")
MOST_CALLS: Final = 50
"""Calls of one hook after which a repetition counts as endless."""

_TERMINALS: Final = frozenset({EventType.RUN_FINISHED, EventType.RUN_ERROR})


@dataclass(slots=True)
class Called:
    """One call of ``call_next``.

    ``begun``: what it gave was iterated over, or awaited. ``ended``: to its end. ``failed``: what
    came out of it. ``refused``: why the host would not let it be called.
    """

    begun: bool = False
    ended: bool = False
    failed: BaseException | None = None
    refused: MiddlewareError | None = None


@dataclass(slots=True)
class Use:
    """One call of an around hook. ``late``: what it yielded after the terminal event.

    ``returned``: it came to its own end, and was not closed or cancelled. ``changed``: what it was
    given was not the same afterwards.
    """

    hook: str
    calls: list[Called] = field(default_factory=list)
    late: list[BaseEvent] = field(default_factory=list)
    returned: bool = False
    changed: bool = False
    streams: list[AsyncGenerator[BaseEvent, None]] = field(default_factory=list, repr=False)


class Spy:
    """What was seen. ``too_many``: set once a hook has called on and on; it is held up then."""

    def __init__(self) -> None:
        self.uses: list[Use] = []
        self.too_many = asyncio.Event()

    def use(self, hook: str) -> Use:
        """Begin to watch one call of a hook."""
        self.uses.append(Use(hook))
        return self.uses[-1]

    def called(self, use: Use) -> Called:
        """Take note of a call of ``call_next``."""
        use.calls.append(Called())
        if len(use.calls) > MOST_CALLS:
            self.too_many.set()
        return use.calls[-1]


def spied(subject: Subject) -> tuple[Subject, Spy] | None:
    """Return the subject with a class that is watched; None where it cannot be subclassed."""
    spy = Spy()
    own = subject.cls
    namespace: dict[str, Any] = {
        "__module__": own.__module__,
        "__qualname__": own.__qualname__,
        "__doc__": own.__doc__,
    }
    for hook in AROUND:
        if hook in subject.facts.hooks:
            around = _around_tool if hook == "around_tool_call" else _around_stream
            namespace[hook] = around(spy, own, hook)
    make: Any = type(own)
    try:
        watched: type[Middleware[Any, Any]] = make(own.__name__, (own,), namespace)
    except Exception:  # noqa: BLE001 - its own machinery of classes does not allow it
        return None
    return replace(subject, cls=watched, facts=inspect_middleware(watched)), spy


def _around_stream(spy: Spy, own: type[Middleware[Any, Any]], hook: str) -> Callable[..., Any]:
    def around(self: Any, ctx: Any, *given: Any) -> Any:
        *args, call_next = given
        use = spy.use(hook)

        def went_on(*called_with: Any, **options: Any) -> AsyncIterator[BaseEvent]:
            called = spy.called(use)
            try:
                stream = call_next(*called_with, **options)
            except MiddlewareError as error:
                called.refused = error
                raise
            use.streams.append(_inner(spy, called, stream))
            return use.streams[-1]

        before = deepcopy(args)
        stream = getattr(own, hook)(self, ctx, *args, went_on)
        if not hasattr(stream, "__anext__"):
            return stream
        return _outer(use, stream, lambda: before != args)

    around.__name__ = hook
    return around


async def _inner(
    spy: Spy, called: Called, stream: AsyncIterator[BaseEvent]
) -> AsyncGenerator[BaseEvent, None]:
    """Give what the inner part gives."""
    called.begun = True
    if spy.too_many.is_set():
        await asyncio.Event().wait()
    try:
        async for event in stream:
            called.ended = event.type in _TERMINALS or isinstance(event, ModelFinished)
            yield event
        called.ended = True
    except Exception as error:
        called.failed = error
        raise


async def _outer(
    use: Use, stream: Any, has_changed: Callable[[], bool]
) -> AsyncGenerator[BaseEvent, None]:
    """Give what the hook gives, and go on looking after the terminal event."""
    over = False
    try:
        async for event in stream:
            kind = getattr(event, "type", None)
            if over:
                use.late.append(event)
            over = over or (use.hook == "around_run" and kind in _TERMINALS)
            yield event
        use.returned = True
    finally:
        use.changed = has_changed()
        for each in (*use.streams, stream):
            if hasattr(each, "aclose"):
                await each.aclose()


def _around_tool(spy: Spy, own: type[Middleware[Any, Any]], hook: str) -> Callable[..., Any]:
    async def around_tool_call(self: Any, ctx: Any, call: Any, call_next: Any, /) -> Any:
        use = spy.use(hook)
        waiting: list[Coroutine[Any, Any, Any]] = []

        def went_on(*called_with: Any, **options: Any) -> Coroutine[Any, Any, Any]:
            work = executed(spy.called(use), *called_with, **options)
            waiting.append(work)
            return work

        async def executed(called: Called, *called_with: Any, **options: Any) -> Any:
            called.begun = True
            if spy.too_many.is_set():
                await asyncio.Event().wait()
            try:
                result = await call_next(*called_with, **options)
            except MiddlewareError as error:
                called.failed = called.refused = error
                raise
            except Exception as error:
                called.failed = error
                raise
            called.ended = True
            return result

        try:
            answer = getattr(own, hook)(self, ctx, call, went_on)
            result = await answer if inspect.isawaitable(answer) else answer
            use.returned = True
        finally:
            for called, work in zip(use.calls, waiting, strict=True):
                if not called.begun:
                    work.close()  # it says so here; Python need not complain, too
        return result

    return around_tool_call
