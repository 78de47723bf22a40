"""What models, tools and the loop around them raise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from interpose.errors import InterposeError, Reject, RunError, Transient


class ModelFailed(RunError):
    """A model call failed. The text is the operator's; the consumer sees the code."""

    code = "model-failed"


class ModelUnavailable(ModelFailed, Transient):
    """The provider could not be reached, answered with a server error, or broke off."""

    code = "model-unavailable"


class RateLimited(ModelFailed, Transient):
    """The provider asks to slow down. ``retry_after``: seconds, if it says so."""

    code = "model-rate-limited"


class QuotaExceeded(ModelFailed):
    """The account has no credit left; waiting does not help."""

    code = "model-quota"


class RequestTooLong(ModelFailed):
    """The request is longer than the model's context."""

    code = "model-request-too-long"


class ModelRefused(ModelFailed):
    """The provider's content filter refused the request or the answer."""

    code = "model-refused"


class InvalidModelRequest(ModelFailed):
    """The provider calls the request invalid: unknown model, bad key, bad parameter."""

    code = "model-invalid-request"


class ToolError(InterposeError):
    """A tool call failed, and the model may know why: the message becomes the call's result.

    Raised from a tool, or from ``around_tool_call``. Any other exception of a tool is shown by its
    class alone; its text stays in the operator's log.
    """

    code = "tool-error"


class OutputError(RunError):
    """The model gave no valid structured output.

    ``code``: ``structured-output-missing-result``, ``structured-output-parse-failed`` or
    ``structured-output-validation-failed``.
    """

    code: str = "structured-output-failed"
    safe = True

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


ResumeFault = Literal[
    "unknown-interrupt",
    "expired",
    "stale",
    "conflict",
    "invalid-payload",
    "invalid-edited-args",
    "incomplete-batch",
]


@dataclass(frozen=True, slots=True)
class ResumeProblem:
    """What is wrong with one entry of ``resume``; ``interrupt_id`` None: with the batch."""

    code: ResumeFault
    message: str
    interrupt_id: str | None = None


class InvalidResume(Reject):
    """The answers to a run's interrupts cannot be taken; nothing was executed.

    ``problems``: all of them, per entry and for the batch. Served as HTTP 409.
    """

    def __init__(self, problems: Sequence[ResumeProblem]) -> None:
        self.problems: tuple[ResumeProblem, ...] = tuple(problems)
        said = "; ".join(f"{each.code}: {each.message}" for each in self.problems)
        super().__init__("invalid-resume", f"The answers cannot be taken. {said}", status=409)
