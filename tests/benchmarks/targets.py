"""The ratios that Interpose is held to, and how far a quick run lets them go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .measuring import Ratio


@dataclass(frozen=True, slots=True)
class Target:
    """One ratio. ``guard``: what fails a quick run; None where a quick run does not measure it."""

    key: str
    what: str
    limit: float
    sense: Literal["at most", "at least"] = "at most"
    guard: float | None = None

    def is_met(self, found: Ratio) -> bool:
        """Whether the median is on the right side of the limit."""
        return self._within(found.median, self.limit)

    def breaks(self, found: Ratio) -> bool:
        """Whether it is a regression: beyond the guard even where it was measured at its best."""
        if self.guard is None:
            return False
        best = found.low if self.sense == "at most" else found.high
        return not self._within(best, self.guard)

    def _within(self, value: float, limit: float) -> bool:
        return value <= limit if self.sense == "at most" else value >= limit


TARGETS: Final = (
    Target("segment-alone", "compiled segment, no hook overridden, against bare", 1.05, guard=1.15),
    Target("run-without-layers", "host.run without layers, against bare", 3.5, guard=4.5),
    Target("unhandled-flat", "class nobody handles, N = 50 against N = 0", 1.4, guard=1.6),
    Target("hooks-nested-10", "segment alone, hooks on every event, against nested, N = 10", 0.45, guard=0.75),
    Target("hooks-nested-20", "segment alone, hooks on every event, against nested, N = 20", 0.30, guard=0.6),
    Target(
        "encoding-generator", "ten hooks and encoding against agent and the SDK's encoder", 1.2
    ),
    Target("encoding-served", "the same, served form", 0.4, guard=0.7),
    Target("tiny-run", "a 5-event run with 10 layers against bare", 15.0),
    Target("memory-run", "memory added per run, N = 10, against nested", 0.5),
    Target(
        "loop-model-layers",
        "run of 6 model and 5 tool calls, ten layers around model calls, against none",
        1.35,
        guard=1.6,
    ),
    Target(
        "loop-tool-layers", "the same, ten layers around tool calls, against none", 1.2, guard=1.5
    ),
    Target("call-agent-framework", "call, cost per layer, against agent-framework", 0.5),
    Target("call-pydantic-ai", "call, cost per layer, against pydantic-ai", 0.05),
    Target("call-langchain", "call, cost per layer, against LangChain", 0.02),
    Target("event-tanstack", "per-event hook against TanStack AI, N = 10", 0.25),
    Target("event-ag-ui-class", "per-event hook against AG-UI TS class, N = 10", 0.33),
    Target("event-pydantic-ai", "per-event hook against pydantic-ai stream wrap, N = 10", 0.125),
    Target(
        "sse-burst", "SSE burst, ten hooks, throughput against Starlette and the SDK's encoder",
        5.0, "at least", guard=3.0,
    ),
    Target("sse-per-wake", "the same, one event per wake", 1.0, "at least", guard=0.8),
    Target("discovery", "discovery with 100 plugins against import ag_ui.core", 0.06, guard=0.12),
    Target("resolution-growth", "resolution, exponent of n log n + edges, 500 to 2,000", 1.15),
)  # fmt: skip
