"""What is logged, how loud, and where to."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from interpose import Settings

Level = Literal["TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL"]
"""loguru's own levels."""

Format = Literal["text", "json"]


class LoggingSettings(Settings):
    """The settings of a ``logging`` layer. By default no line holds anything that was said."""

    level: Level = "INFO"
    """How loud the start line and the end line are."""
    failure_level: Level = "ERROR"
    """How loud the end line of a run that failed is."""
    events: bool = True
    """A line at DEBUG for each event: its type and ids."""
    content: bool = False
    """Add what was said: input, events, error messages. They may hold personal data and secrets."""
    format: Format = "text"
    """``json``: each line is one JSON object with stable keys."""
    file: Path | None = None
    """Append the lines to this file, instead of handing them to loguru."""
