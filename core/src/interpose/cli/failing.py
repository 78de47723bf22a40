"""From an exception to a message and an exit code."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from interpose.cli.exits import PROBLEMS, USAGE
from interpose.cli.terminal import complain
from interpose.errors import InterposeError, Problem, RunError, UsageError, render


def report(error: Exception, *, debug: bool) -> int:
    """Show what ended the command, with its traceback if wanted; returns the exit code."""
    if debug:
        traceback.print_exception(error)
    if isinstance(error, InterposeError):
        complain(str(error))
        return USAGE if isinstance(error, UsageError) else PROBLEMS
    complain(render([_bug(error)]))
    return PROBLEMS


def _bug(error: Exception) -> Problem:
    return Problem(
        "bug",
        f"This is a bug in Interpose or in a plugin: {said(error)}",
        raised_at(error),
        "Run it again with --debug, and report what it shows.",
    )


def failure(
    code: str, message: str, error: BaseException | None, scrub: Callable[[str], str]
) -> Problem:
    """Return a failed run as a problem: what the consumer was told, and for the operator, why.

    ``scrub`` takes secrets out of the exception's own text.
    """
    if error is None or (isinstance(error, RunError) and error.safe):
        return Problem(code, message, hint=getattr(error, "hint", ""))
    if isinstance(error, InterposeError):
        return Problem(code, f"{message}\n{scrub(error.message)}", error.where, error.hint)
    hint = "--debug shows the traceback."
    return Problem(code, f"{message}\n{scrub(said(error))}", raised_at(error), hint)


def said(error: BaseException) -> str:
    """Return an exception's type and the first line of its text."""
    first, *_ = str(error).splitlines() or [""]
    name = type(error).__name__
    return f"{name}: {first}" if first else name


def raised_at(error: BaseException) -> tuple[str, ...]:
    """Return the file and line that raised, as far as there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    return (f"{frames[-1].filename}:{frames[-1].lineno}",) if frames else ()
