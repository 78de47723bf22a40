"""TextTransform: a middleware that changes text, also where it crosses chunks."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ag_ui.core import BaseEvent, RunAgentInput

from interpose.authoring import Middleware, S, Shared
from interpose.errors import MiddlewareError, UsageError
from interpose.events import MARK, Result, on
from interpose.text.covers import Covers
from interpose.text.lanes import Holding, Question, Scan, Work
from interpose.text.stream import HANDLED, TextStream

if TYPE_CHECKING:
    from interpose.context import RunContext

T = TypeVar("T")


class TextTransform(Middleware[S, Shared]):
    """Base of a middleware that changes text, wherever an agent's run carries it.

    Override :meth:`scan`. It sees each message, reasoning, string of a tool call's arguments and
    so on as a text of its own, however the agent cut it into chunks, and says what is to be
    replaced and from where on a later chunk could still change the answer. The rest is done here:
    holding back no more than that, keeping texts apart, letting go at the end of a text and of
    the run, and everything that :class:`Covers` lists.

    Two texts are never joined: a message that has ended has left. ``raw_event`` is taken off every
    event, for it may hold the text as the provider sent it.

    The attributes below may depend on settings: set ``self.max_hold`` and so on in ``setup``.
    Set ``rewrites_history = True`` if the change is to be stored and seen by the model, too.

    Example::

        class Shout(TextTransform):
            covers = Covers.TEXT

            def scan(self, text: str, start: int, final: bool) -> Scan:
                return Scan([(start, len(text), text[start:].upper())], keep_from=len(text))
    """

    covers: Covers = Covers.ALL
    """Which texts are looked at."""
    max_hold: int = 256
    """Characters that are held at most. A candidate that is longer is replaced by ``too_long``,
    and with it the rest of its text, for nobody can tell where it would have ended."""
    look_behind: int = 64
    """Characters of what has left that ``scan`` still sees."""
    too_long: str = "[removed]"
    """What replaces a candidate longer than ``max_hold``."""
    keep_raw: bool = False
    """Let RAW events pass, unseen; by default they are dropped."""
    number_digits: int | None = None
    """In JSON, whole numbers of at least so many digits are texts, too; None: no number is."""

    def scan(self, text: str, start: int, final: bool, /) -> Awaitable[Scan] | Scan:  # noqa: FBT001 - the contract
        """Look at ``text[start:]`` and say what is to be replaced, and what must be held.

        ``text[:start]`` has left, in its original form: context only, at most ``look_behind``
        characters. ``final``: nothing follows; all of the edits count and nothing is held.
        ``def`` or ``async def``. It is called again for what was held, so the same text in the
        same place must get the same answer: what lies before ``keep_from`` must not depend on
        what may follow. Then the result does not depend on how the text was cut.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no scan")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check(cls)
        is_async = inspect.iscoroutinefunction(cls.scan)
        setattr(cls, _EVENT_HOOK, _async_event if is_async else _sync_event)
        if Covers.INPUT in cls.covers:
            setattr(cls, _INPUT_HOOK, _async_input if is_async else _sync_input)
        elif getattr(cls, _INPUT_HOOK) in (_async_input, _sync_input):
            setattr(cls, _INPUT_HOOK, Middleware.on_input)


_EVENT_HOOK: Final = "_interpose_text"
_INPUT_HOOK: Final = "on_input"
_STREAM: Final = "_interpose_text_stream"


def _check(cls: type[TextTransform[Any, Any]]) -> None:
    """Refuse what would leave text uncovered without anybody noticing."""
    name = cls.__qualname__
    marked = {
        attribute
        for klass in cls.__mro__
        for attribute, value in vars(klass).items()
        if hasattr(value, MARK) and attribute != _EVENT_HOOK
    }
    if marked or cls.on_event is not Middleware.on_event:
        raise UsageError(
            f"{name} is a text transform and has an event hook of its own "
            f"({', '.join(sorted(marked or {'on_event'}))}), which would take events from the "
            f"transform",
            hint="put the hook in a middleware of its own",
        )
    own_input = cls.on_input not in {Middleware.on_input, _sync_input, _async_input}
    if own_input and Covers.INPUT in cls.covers:
        raise UsageError(
            f"{name} overrides on_input, by which a text transform covers INPUT",
            hint="put the hook in a middleware of its own, or set covers without Covers.INPUT",
        )
    if cls.form == "raw":
        raise UsageError(
            f'{name} is a text transform with form = "raw": chunks have no lanes',
            hint="remove form",
        )
    if cls.max_hold < 1 or cls.look_behind < 1:
        raise UsageError(
            f"{name} has max_hold = {cls.max_hold} and look_behind = {cls.look_behind}; "
            f"both must be at least 1 character"
        )


def _stream(self: TextTransform[Any, Any]) -> TextStream:
    # Made when first needed, so that authors may write setup and __init__ without super().
    stream: TextStream | None = self.__dict__.get(_STREAM)
    if stream is None:
        holding = Holding(self.max_hold, self.look_behind, self.too_long, self.number_digits)
        stream = TextStream(holding, self.covers, keep_raw=self.keep_raw)
        self.__dict__[_STREAM] = stream
    return stream


@on(*HANDLED)
def _sync_event(self: Any, ctx: RunContext, event: BaseEvent) -> Result:
    stream = _stream(self)
    return _drive(self, ctx, stream, stream.event(event))


@on(*HANDLED)
async def _async_event(self: Any, ctx: RunContext, event: BaseEvent) -> Result:
    stream = _stream(self)
    return await _drive_async(self, ctx, stream, stream.event(event))


def _sync_input(self: Any, ctx: RunContext, run_input: RunAgentInput, /) -> RunAgentInput:
    if Covers.INPUT not in self.covers:
        return run_input
    stream = _stream(self)
    return _drive(self, ctx, stream, stream.run_input(run_input))


async def _async_input(self: Any, ctx: RunContext, run_input: RunAgentInput, /) -> RunAgentInput:
    if Covers.INPUT not in self.covers:
        return run_input
    stream = _stream(self)
    return await _drive_async(self, ctx, stream, stream.run_input(run_input))


def _drive(self: Any, ctx: RunContext, stream: TextStream, work: Work[T]) -> T:
    """Do ``work``, asking a sync ``scan``."""
    before = stream.overflows
    answer: Scan | None = None
    try:
        while True:
            try:
                question = work.send(answer)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as done:
                result: T = done.value
                break
            answer = _checked(self, self.scan(*question), question)
    except BaseException:
        stream.discard()
        raise
    _report(self, ctx, stream.overflows - before)
    return result


async def _drive_async(self: Any, ctx: RunContext, stream: TextStream, work: Work[T]) -> T:
    """Do ``work``, asking an async ``scan``."""
    before = stream.overflows
    answer: Scan | None = None
    try:
        while True:
            try:
                question = work.send(answer)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as done:
                result: T = done.value
                break
            answer = _checked(self, await self.scan(*question), question)
    except BaseException:
        stream.discard()
        raise
    _report(self, ctx, stream.overflows - before)
    return result


def _checked(self: Any, scan: Any, question: Question) -> Scan:
    """Return what ``scan`` returned, if it keeps to the contract. Never quotes the text."""
    text, start, _ = question
    name = type(self).__qualname__
    if not isinstance(scan, Scan):
        raise MiddlewareError(
            f"{name}.scan returned {type(scan).__name__}, not a Scan",
            hint="return Scan(edits, keep_from); a scan that awaits is an `async def`",
        )
    if not start <= scan.keep_from <= len(text):
        raise MiddlewareError(
            f"{name}.scan returned keep_from = {scan.keep_from}, outside of {start} to {len(text)}",
            hint="keep_from lies in text[start:]; len(text) holds nothing",
        )
    for first, last, _ in scan.edits:
        if not start <= first <= last <= len(text):
            raise MiddlewareError(
                f"{name}.scan returned an edit of {first} to {last}, "
                f"outside of {start} to {len(text)}",
                hint="edits lie in text[start:]: what is before it has left",
            )
    return scan


def _report(self: Any, ctx: RunContext, overflows: int) -> None:
    if overflows:
        ctx.log.warning(
            "{}: removed {} text(s) from a candidate on that is longer than max_hold = {}",
            type(self).__qualname__,
            overflows,
            self.max_hold,
        )
