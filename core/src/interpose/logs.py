"""The one place that decides who may log.

Inside a library loguru adds and removes no sink, and is silent until the application says
otherwise: ``logger.enable("interpose")``, ``logger.enable("interpose_logging")``. The CLI does so
for everything it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from loguru import logger

if TYPE_CHECKING:
    from loguru import Logger, Record


def quiet(package: str) -> None:
    """Silence a package for embedders, unless the application has already decided about it."""
    decided: Any = getattr(getattr(logger, "_core", None), "activation_list", ())
    if not any(name == f"{package}." for name, _ in decided):
        logger.disable(package)


def bound(**values: str) -> Logger:
    """Return a logger that carries these values in ``extra``, so that none can forge a line.

    Ids come from clients: what is not printable is escaped.
    """
    return logger.bind(
        **{key: text if text.isprintable() else ascii(text)[1:-1] for key, text in values.items()}
    )


def cause(error: BaseException) -> str:
    """Return an exception's type and the first line of its text."""
    message = getattr(error, "message", None) or str(error)
    first = str(message).partition("\n")[0]
    said = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return ", ".join([said, *getattr(error, "__notes__", ())])


def to_stderr(level: str = "WARNING", *, traces: bool = False, runs: bool = False) -> None:
    """Show what every package logs on standard error; for the CLI only, which owns the process.

    ``traces``: with the tracebacks that are logged at DEBUG. ``runs``: with the failures of runs;
    ``interpose run`` reports its own.
    """
    to_sink(
        sys.stderr,
        "DEBUG" if traces else level,
        # A function, because loguru adds the traceback to a format that is a string.
        form=lambda _: "{time:HH:mm:ss} {level: <7} {name}: {message}\n",
        without=None if runs else {"interpose.runtime.playing": False},
    )


def to_sink(
    sink: Any,
    level: str,
    *,
    form: str | Callable[[Record], str] = "{message}",
    without: Mapping[str | None, str | int | bool] | None = None,
) -> None:
    """Hand what every package logs to ``sink`` and to nothing else; for the CLI only."""
    logger.remove()
    logger.enable("")
    logger.add(
        sink,
        level=level,
        format=form,
        filter={"": 0, **(without or {})},
        backtrace=False,
        diagnose=False,
    )


quiet("interpose")
