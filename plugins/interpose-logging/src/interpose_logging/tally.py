"""What one run amounts to: events by type, and tokens."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ag_ui.core import BaseEvent, EventType, TokenUsage

TOKENS: Final = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "reasoning_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
)
"""The counts that a usage report may hold."""


class Tally:
    """Counts of one run."""

    __slots__ = ("events", "types", "usage")

    def __init__(self) -> None:
        self.events = 0
        """How many events there were."""
        self.types: Counter[str] = Counter()
        """Events by type, in the order in which the types first came."""
        self.usage: Counter[str] = Counter()
        """Tokens by kind, over all models; only kinds that were reported."""

    @property
    def tool_calls(self) -> int:
        """How many tool calls began."""
        return self.types[EventType.TOOL_CALL_START.value]

    def add_event(self, event: BaseEvent) -> None:
        """Count an event."""
        self.events += 1
        self.types[event.type.value] += 1

    def add_usage(self, usage: TokenUsage) -> None:
        """Add the tokens of one model call; a kind that was not reported stays absent."""
        for kind in TOKENS:
            count = getattr(usage, kind)
            if count is not None:
                self.usage[kind] += count
