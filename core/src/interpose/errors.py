"""Everything that Interpose raises, and how a problem is written for a person.

A *problem* is data: the phases of startup collect problems and go on, so that one
:class:`StartupError` can show all of them. An *exception* ends something. Both carry a ``code``
that stays the same between releases, the places that caused them (``where``) and the remedy
(``hint``); :func:`render` is the one function that turns them into text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ag_ui.core import TokenUsage

Severity = Literal["error", "warning", "note"]
_HTTP_ERRORS = range(400, 600)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, as data.

    ``message`` says what and why, ``where`` names the places (``interpose.toml:12``, the name of
    a variable, ``Host(layers=...)``), ``hint`` says how to fix it. No field ever holds a secret.
    """

    code: str
    """The code, which keeps its meaning between versions."""
    message: str
    """What is wrong, and why."""
    where: tuple[str, ...] = ()
    """The places."""
    hint: str = ""
    """How to fix it."""
    severity: Severity = "error"
    """``error``, ``warning`` or ``note``."""


class InterposeError(Exception):
    """Base of everything that Interpose raises on purpose."""

    code: str = "interpose-error"

    def __init__(self, message: str, *, where: str | Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where: tuple[str, ...] = (where,) if isinstance(where, str) else tuple(where)
        self.hint = hint

    @property
    def problem(self) -> Problem:
        """This error as data."""
        return Problem(self.code, self.message, self.where, self.hint)

    def __str__(self) -> str:
        return render([self.problem])


class StartupError(InterposeError):
    """The host cannot start. Raised once, with every problem of every phase that could run."""

    code = "startup"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        errors = sum(problem.severity == "error" for problem in self.problems)
        super().__init__(f"{errors} problem{'' if errors == 1 else 's'} at startup")

    def __str__(self) -> str:
        return f"{self.message}\n\n{render(self.problems)}"


class UsageError(InterposeError):
    """The API was called in a way it does not allow (a programmer's mistake, not an operator's)."""

    code = "usage"


class InvalidModel(InterposeError):
    """What a factory of ``[models]`` was told, or gave, is no model; ``where`` names its table."""

    code = "invalid-model"


class CapabilityError(InterposeError):
    """A capability was read, provided or promised in a way that was not declared."""

    code = "capability"


class InputError(InterposeError):
    """The input of a run is not a valid ``RunAgentInput``. Raised before the run begins."""

    code = "invalid-input"


class ReplayError(InterposeError):
    """A recorded stream cannot be read; ``where`` is ``file:line``."""

    code = "invalid-replay"


class RunError(InterposeError):
    """Base of what ends one run. ``safe`` says whether the message may be shown to the consumer."""

    code = "run-failed"
    safe = False


class Reject(RunError):
    """Refuse a run. Its message is safe to show; it is never retried.

    Raised from any hook. Before the first event it is the HTTP ``status`` when served, after it
    one RUN_ERROR. ``retry_after``: seconds.

    Example: ``raise Reject("quota", "Your daily quota is used up.", status=429, retry_after=60)``
    """

    safe = True

    def __init__(
        self, code: str, message: str, status: int = 403, retry_after: float | None = None
    ) -> None:
        given: tuple[object, ...] = (code, message)
        if not all(isinstance(text, str) for text in given):
            raise TypeError("Reject takes a code and a message, both strings, then the HTTP status")
        if status not in _HTTP_ERRORS:
            raise ValueError("Reject takes an HTTP status from 400 to 599: a refusal is no success")
        super().__init__(message)
        self.code = code
        self.status: int = int(status)
        self.retry_after = retry_after


class AgentFailed(RunError):
    """The agent sent a RUN_ERROR. ``around_run`` sees it as this exception.

    ``usage`` is what the RUN_ERROR carried. The message is the agent's own.
    """

    safe = True

    def __init__(
        self, code: str | None, message: str, usage: Sequence[TokenUsage] | None = None
    ) -> None:
        super().__init__(message)
        self.code: str = code or "agent-failed"
        self.agent_code = code
        self.usage = usage


class TruncatedStream(RunError):
    """A stream ended without RUN_FINISHED or RUN_ERROR. Never a success (AG-UI 1.1, processing)."""

    code = "truncated-stream"
    safe = True


class InvalidStream(RunError):
    """An event breaks a ``rule`` of AG-UI; ``index`` counts the stream's events from 0."""

    code = "invalid-stream"

    def __init__(self, message: str, *, rule: str = "", index: int | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.index = index


class MiddlewareError(RunError):
    """A middleware broke its contract: a wrong return, a second ``call_next``."""

    code = "middleware-contract"


class RepeatAfterOutput(MiddlewareError):
    """A layer repeated its inner part after events of the first attempt had left it."""

    code = "repeat-after-output"


class DeadlineExceeded(RunError):
    """A layer, a lifespan or the ending of a run took longer than it may. Unit: seconds."""

    code = "deadline-exceeded"


class RunDeadlineExceeded(DeadlineExceeded):
    """A whole run took longer than it may, or was silent for too long: ``[server]`` says so."""

    safe = True


class Transient(RunError):
    """A failure that may pass: connection, timeout, rate limit. ``retry_after``: seconds."""

    code = "transient"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RemoteFailed(RunError):
    """A remote agent answered with something else than a stream of events.

    ``status``: the HTTP status, if there was one. The message is safe to show: what the remote
    agent said beside its status is in the operator's log.
    """

    code = "remote-failed"
    safe = True

    def __init__(self, message: str, *, status: int | None = None, hint: str = "") -> None:
        # Not the next in line: that is Transient for what may pass, which takes no hint.
        RunError.__init__(self, message, hint=hint)
        self.status = status


class RemoteUnavailable(RemoteFailed, Transient):
    """A remote agent could not be reached, was silent for too long, broke off or is too busy.

    It may pass: both a :class:`RemoteFailed` and a :class:`Transient`. ``retry_after``: seconds.
    """

    code = "remote-unavailable"

    def __init__(
        self, message: str, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, status=status)
        self.retry_after = retry_after


def render(problems: Iterable[Problem]) -> str:
    """Write problems for a person: what and why, where, how to fix; one block each."""
    return "\n\n".join(_block(problem) for problem in problems)


def _block(problem: Problem) -> str:
    first, *rest = problem.message.splitlines() or [""]
    lines = [f"{problem.severity}[{problem.code}]: {first}"]
    lines += [f"  {line}".rstrip() for line in rest]
    lines += [f"  at {place}" for place in problem.where]
    if problem.hint:
        head, *more = problem.hint.splitlines()
        lines.append(f"  fix: {head}")
        lines += [f"       {line}".rstrip() for line in more]
    return "\n".join(lines)


def nearest(word: str, choices: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the choice that ``word`` most likely meant, or None; ``likeness`` is 0 to 1."""
    from difflib import get_close_matches

    found: list[Any] = get_close_matches(word, list(choices), n=1, cutoff=likeness)
    return str(found[0]) if found else None


def described(value: object) -> str:
    """Name what a value is, for a message: ``a StrandsAgent``, ``the class Chat``."""
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if value is None:
        return "None"
    kind = type(value).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
