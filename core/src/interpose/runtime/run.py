"""One run as its caller sees it: iterate over its events, or await its result."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass, field
from types import AsyncGeneratorType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, cast

from ag_ui.core import BaseEvent, Interrupt, Message, TokenUsage
from typing_extensions import TypeVar

from interpose.errors import Reject, UsageError
from interpose.payloads import ErrorInfo, FinishInfo
from interpose.runtime.playing import Play

if TYPE_CHECKING:
    from interpose.runtime.record import RunRecord

Out = TypeVar("Out", default=None)
Outcome = Literal["success", "interrupt", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class RunResult(Generic[Out]):
    """What a run came to, folded from the events that left the outermost layer.

    ``text``: the last assistant message of the run. ``messages`` and ``state``: the conversation
    after it. ``result``: RUN_FINISHED's own. ``error``: the original exception of a failed run,
    for the application; the consumer saw only a safe text. ``output``: the structured output that
    ``host.run(output=...)`` asked for; None unless the run succeeded with one. ``thread_id``: the
    conversation, for the run that goes on with it.
    """

    outcome: Outcome
    text: str
    messages: tuple[Message, ...]
    state: Any
    output: Out | None = None
    result: Any = None
    usage: tuple[TokenUsage, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    error: BaseException | None = field(default=None, repr=False)
    thread_id: str = ""
    run_id: str = ""


class Run(Generic[Out]):
    """One execution of an agent through its layers. Made by ``host.run``; good for one use.

    * ``async for event in run``: the events, as they leave the outermost layer;
    * ``await run``: the :class:`RunResult`; it never raises for a failed run;
    * ``async with run``: closes the run at the end of the block, however it is left.

    A run begins when it is first iterated or awaited, in the task that does so.
    """

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._play = Play(record)
        self._stream: AsyncGeneratorType[BaseEvent, None] | None = None
        self._closed = False

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._record.run_id

    @property
    def thread_id(self) -> str:
        """The id of the conversation."""
        return self._record.thread_id

    @property
    def rejected(self) -> Reject | None:
        """The :class:`Reject` that refused the run before its first event, once that has happened.

        A server answers with its ``status`` in place of a stream.
        """
        return self._play.rejected

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run with the cancelled outcome; from any task of the loop, more than once.

        It takes effect at once while the run awaits its agent, otherwise at the next step.
        """
        self._record.cancel(reason)

    def __aiter__(self) -> AsyncIterator[BaseEvent]:
        if self._stream is not None or self._closed:
            raise UsageError(
                "a run can be used once, and this one has been", hint="call host.run again"
            )
        self._stream = cast("AsyncGeneratorType[BaseEvent, None]", self._play.events())
        self._record.stream = weakref.ref(self._stream)
        return self._stream

    def __await__(self) -> Generator[Any, Any, RunResult[Out]]:
        return self._outcome().__await__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the run if it is still open: generators closed, terminal hooks called.

        A run that another task drives at this moment is cancelled, and waited for.
        """
        self._closed = True
        self._play.closing = True
        stream = self._stream
        if stream is None:
            return
        if stream.ag_running:
            self._record.cancel("the run was closed")
            await self._record.wait_closed()
        else:
            await stream.aclose()

    async def _outcome(self) -> RunResult[Out]:
        if self._play.end is None:
            stream = aiter(self)
            try:
                async for _ in stream:
                    pass
            finally:
                await self.aclose()
        return self._result()

    def _result(self) -> RunResult[Out]:
        play = self._play
        info = None if play.end is None else play.end.info
        outcome: Outcome
        error: BaseException | None = None
        if isinstance(info, FinishInfo):
            outcome = info.outcome
        elif isinstance(info, ErrorInfo):
            outcome, error = "error", info.error
        else:
            outcome = "cancelled"
        terminal = play.terminal
        return RunResult(
            outcome=outcome,
            text=play.fold.text,
            messages=play.fold.messages,
            state=play.fold.state,
            output=self._record.output if outcome == "success" else None,
            result=getattr(terminal, "result", None),
            usage=tuple(getattr(terminal, "usage", None) or ()),
            interrupts=info.interrupts if isinstance(info, FinishInfo) else (),
            error=error,
            thread_id=self._record.thread_id,
            run_id=self._record.run_id,
        )

    def __repr__(self) -> str:
        return f"<Run {self.run_id!r} of agent {self._record.agent}>"


def record_of(run: Run[Any]) -> RunRecord:
    """Return the state of a run, for the doors that drive it."""
    return run._record  # noqa: SLF001 - the same module
