"""The one place that decides who may log.

Inside a library loguru adds and removes no sink, and is silent until the application says
otherwise: ``logger.enable("interpose")``, ``logger.enable("interpose_logging")``. The CLI does so
for everything it runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from loguru import logger

if TYPE_CHECKING:
    from loguru import Logger


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


def to_stderr(level: str = "WARNING") -> None:
    """Show what every package logs on standard error; for the CLI only, which owns the process."""
    logger.remove()
    logger.enable("")
    logger.add(
        sys.stderr,
        level=level,
        format="{time:HH:mm:ss} {level: <7} {name}: {message}",
        backtrace=False,
        diagnose=False,
    )


quiet("interpose")
