"""What a loop is made of, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interpose.loop.limits import Budget, Strategy
from interpose.loop.resume import Continuations
from interpose.loop.tools import LoopTool
from interpose.model import Model


@dataclass(frozen=True, slots=True, eq=False)
class LoopParts:
    """A loop's parts; shared by its runs, never changed.

    ``models``: given as objects, by id. ``tool_timeout``, ``answer_within``: seconds. ``repairs``:
    further calls when structured output is not valid.
    """

    model: str
    models: Mapping[str, Model]
    instructions: tuple[str, ...]
    tools: tuple[LoopTool, ...]
    until: Strategy
    budget: Budget | None
    settings: Mapping[str, Any]
    concurrency: int
    tool_timeout: float | None
    repairs: int
    answer_within: float
    continuations: Continuations = field(default_factory=Continuations)
