"""One failure, two faces: an exception in around hooks, a RUN_ERROR event in event hooks.

:class:`Failures` converts at each boundary and keeps the original. Only a text that is safe to
show leaves the host: an exception's own text stays with the operator unless its class says
otherwise (:class:`Reject`, :class:`AgentFailed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ag_ui.core import RunErrorEvent, TokenUsage

from interpose.errors import AgentFailed, InvalidStream, RunError

AGENT_FAILED = "agent-failed"
MIDDLEWARE_FAILED = "middleware-failed"
_TEXTS = {
    AGENT_FAILED: "The agent failed.",
    MIDDLEWARE_FAILED: "The run could not be completed.",
}
_MOST_BLAMED = 16
_INVALID = "The events of the run broke the rules of AG-UI."


class Failures:
    """The failures of one run: which event stands for which exception."""

    __slots__ = ("_blamed", "_events", "raised", "used")

    def __init__(self) -> None:
        self._events: list[tuple[RunErrorEvent, BaseException]] = []
        self._blamed: list[BaseException] = []
        self.used: Callable[[], Sequence[TokenUsage]] = tuple
        """What the run's model calls have used so far, as far as its agent tells."""
        self.raised = False
        """Whether an around hook was given a failure; then it may have left something open."""

    def blame(self, error: BaseException) -> None:
        """Take note that a layer raised it; an agent that calls layers' hooks passes it on."""
        self._blamed = [*self._blamed[1 - _MOST_BLAMED :], error]

    def is_blamed(self, error: BaseException) -> bool:
        """Whether a layer raised it."""
        return any(error is each for each in self._blamed)

    def event(self, error: BaseException, code: str) -> RunErrorEvent:
        """Return the event face of ``error``: always the same one for the same exception.

        ``code`` is for errors that have none of their own.
        """
        for event, known in self._events:
            if known is error:
                return event
        if self.is_blamed(error):
            code = MIDDLEWARE_FAILED
        message = _INVALID if isinstance(error, InvalidStream) else _TEXTS[code]
        if isinstance(error, RunError):
            code = error.code
            message = error.message if error.safe else message
        given = error.usage if isinstance(error, AgentFailed) else None
        usage = list(given or self.used()) or None
        event = RunErrorEvent(message=message, code=code, usage=usage)
        self._events.append((event, error))
        return event

    def exception(self, event: RunErrorEvent) -> BaseException:
        """Return the exception face of ``event``: the original, if the host made the event."""
        self.raised = True
        original = self.original(event)
        if original is not None:
            return original
        failed = AgentFailed(event.code, event.message, event.usage)
        if self._events:
            failed.__cause__ = self._events[-1][1]
        return failed

    def original(self, event: RunErrorEvent) -> BaseException | None:
        """Return the exception that ``event`` stands for, or None when somebody else made it."""
        for known, error in reversed(self._events):
            if known is event:
                return error
        return None
