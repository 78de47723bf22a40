"""What a tool sees of the run that calls it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from ag_ui.core import BaseEvent, CustomEvent, EventType, Interrupt
from pydantic import BaseModel
from pydantic_core import from_json, to_json

from interpose.capability import Capability
from interpose.context import AgentContext
from interpose.errors import UsageError, described
from interpose.interrupts import InterruptDefinition, Resolutions
from interpose.loop_errors import ToolError
from interpose.payloads import ToolCall
from interpose.services import Clock

if TYPE_CHECKING:
    from loguru import Logger

T = TypeVar("T")
P = TypeVar("P", bound=BaseModel)
R = TypeVar("R")

PROGRESS: Final = "tool.progress"
"""The name of the CUSTOM event that reports progress."""

_REFUSED: Final = frozenset(
    {
        EventType.RUN_STARTED,
        EventType.RUN_FINISHED,
        EventType.RUN_ERROR,
        EventType.STEP_STARTED,
        EventType.STEP_FINISHED,
        EventType.TEXT_MESSAGE_CHUNK,
        EventType.REASONING_MESSAGE_CHUNK,
        EventType.TOOL_CALL_CHUNK,
    }
)


class ToolContext:
    """One tool call's view of its run.

    A tool gets it in any parameter that is annotated with this class; the model does not see that
    parameter. It may be used from the thread that a sync tool runs in::

        def export(ctx: ToolContext, table: str) -> str:
            for done in range(10):
                ctx.progress(done)
                if ctx.cancelled:
                    return "stopped"
            return "done"
    """

    __slots__ = (
        "_abort",
        "_interrupt",
        "_loop",
        "_origin",
        "_over",
        "_run",
        "_send",
        "_thread_id",
        "_verdict",
        "call",
        "resolutions",
        "run_id",
    )

    def __init__(
        self,
        call: ToolCall,
        run: AgentContext,
        *,
        origin: str,
        send: Callable[[BaseEvent], None],
        interrupt: Callable[..., NoReturn],
        abort: Callable[[str], NoReturn],
        resolutions: Resolutions | None = None,
    ) -> None:
        self.resolutions: Resolutions = Resolutions() if resolutions is None else resolutions
        """What people answered to the questions that this very call asked, in an earlier run."""
        self.call: ToolCall = call
        """The call, with its arguments as JSON values."""
        self.run_id: str = run.run_id
        """The id of the run."""
        self._thread_id = run.thread_id
        self._run = run
        self._origin = origin
        self._send = send
        self._interrupt = interrupt
        self._abort = abort
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = False
        self._verdict: BaseException | None = None

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.call.id

    @property
    def name(self) -> str:
        """The name that the model called."""
        return self.call.name

    @property
    def thread_id(self) -> str:
        """The id of the conversation."""
        return self._thread_id

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this call, in the run that it began in and in later ones.

        For what must not happen twice: give it to the service that the tool calls.
        """
        return f"{self._origin}:{self.call.id}"

    @property
    def metadata(self) -> Mapping[str, Any]:
        """JSON values kept with the run, to be read."""
        return MappingProxyType(dict(self._run.metadata))

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for this call any more. A sync tool looks here now and then."""
        return self._over or self._run.cancelled

    @property
    def clock(self) -> Clock:
        """The host's clock."""
        return self._run.clock

    @property
    def log(self) -> Logger:
        """A loguru logger bound to run, agent and tool."""
        return self._run.log.bind(tool=self.call.name)

    def sleep(self, seconds: float, /) -> Awaitable[None]:
        """Wait, on the host's clock; for async tools."""
        return self._run.clock.sleep(seconds)

    def __getitem__(self, capability: Capability[T], /) -> T:
        """Return the capability's value; :class:`CapabilityError` when nobody provided it."""
        return self._run[capability]

    def get(self, capability: Capability[T], /) -> T | None:
        """Return the capability's value, or None when it is absent."""
        return self._run.get(capability)

    def progress(self, value: Any, /) -> Awaitable[None]:
        """Report a JSON value as the CUSTOM event ``tool.progress``; sent at once.

        Its value is ``{"toolCallId": ..., "value": value}``. Await it to let others run; in a sync
        tool, calling it is enough. :class:`UsageError` when it cannot be written as JSON.
        """
        try:
            plain = from_json(to_json(value, inf_nan_mode="strings"))
        except ValueError as error:
            raise UsageError(
                f"the tool {self.name!r} reports {described(value)} as progress",
                hint="report what can be written as JSON",
            ) from error
        self.emit(CustomEvent(name=PROGRESS, value={"toolCallId": self.call.id, "value": plain}))
        return _Sent()

    def emit(self, event: BaseEvent, /) -> None:
        """Send an event of AG-UI into the run, before the result of this call.

        A whole event, not one that begins or ends a run or a step, and not this call's own result:
        :class:`UsageError` otherwise. After the call has ended it is dropped with a warning.
        """
        if not isinstance(event, BaseEvent):
            raise UsageError(f"the tool {self.name!r} emits {described(event)}, no event")
        own = getattr(event, "tool_call_id", None) == self.call.id
        if event.type in _REFUSED or (event.type is EventType.TOOL_CALL_RESULT and own):
            raise UsageError(
                f"the tool {self.name!r} emits {event.type.value}, which is not a tool's to send",
                hint="emit whole messages, state, activities or CUSTOM events",
            )
        self._inside(self._deliver, event)

    def _deliver(self, event: BaseEvent) -> None:
        if self._over:
            self.log.warning("{} came after the end of its tool call", event.type.value)
        else:
            self._send(event)

    def ask(
        self, question: InterruptDefinition[P, R], key: str, message: str, payload: P | None = None
    ) -> R:
        """Return what people answered; where they have not been asked yet, ask them.

        The first time it never returns: the run pauses, and the tool is called again, from its
        beginning, when there is an answer. So ask before anything that must not happen twice.
        ``key`` tells the questions of one call apart; those of other calls are others. Raises
        :class:`ToolError` when the question was cancelled.
        """
        key = f"{key}@{self.call.id}"
        for each in self.resolutions:
            if each.interrupt.id == question.id(key):
                if each.status == "cancelled":
                    raise ToolError("Nobody answered the question of this call.")
                return question.read(each.payload)
        self.interrupt(question.interrupt(key, message, payload))
        raise AssertionError("unreachable")  # pragma: no cover

    def interrupt(self, *interrupts: Interrupt) -> NoReturn:
        """Let this call wait for people. Never returns; the other calls of its batch finish.

        The tool is called again, from its beginning, in the run that goes on; :attr:`resolutions`
        has the answers then. :meth:`ask` does both.
        """
        self._inside(self._interrupt, *interrupts)
        raise AssertionError("unreachable")  # pragma: no cover

    def abort(self, reason: str) -> NoReturn:
        """End the run with the cancelled outcome. Never returns."""
        self._inside(self._abort, reason)
        raise AssertionError("unreachable")  # pragma: no cover

    def enter(self) -> None:
        """Take note of the event loop that the call runs on: called once, by the loop."""
        self._loop = asyncio.get_running_loop()

    def leave(self) -> None:
        """Take note that the call has ended: called by the loop."""
        self._over = True

    def has_ended_by(self, error: BaseException | None) -> bool:
        """Whether ``error`` is how the tool itself left, from a thread, by ending the run."""
        return error is not None and error is self._verdict

    @property
    def is_over(self) -> bool:
        """Whether the call has ended for the run; a thread of it may still go on."""
        return self._over

    def _inside(self, function: Callable[..., Any], *args: Any) -> None:
        """Call ``function`` on the run's event loop, and wait for it if that is elsewhere."""
        loop = self._loop
        if loop is None or loop is _running():
            function(*args)
            return
        done: Future[None] = Future()

        def call() -> None:
            try:
                function(*args)
            except BaseException as error:  # noqa: BLE001 - it belongs to the thread that asked
                if not isinstance(error, Exception):
                    self._verdict = error
                done.set_exception(error)
            else:
                done.set_result(None)

        loop.call_soon_threadsafe(call, context=contextvars.copy_context())
        done.result()

    def __repr__(self) -> str:
        return f"<ToolContext run={self.run_id} tool={self.name} call={self.call.id}>"


class _Sent:
    """What has been done already; awaiting it lets others run."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        yield from asyncio.sleep(0).__await__()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
