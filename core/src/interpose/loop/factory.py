"""``use = "loop"``: the built-in agent, from a configuration."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

from pydantic import Field

from interpose.authoring import Agent, AgentFactory, Point, Settings
from interpose.context import LifespanContext
from interpose.errors import UsageError
from interpose.loop.agent import LoopAgent
from interpose.loop.limits import (
    LONGEST,
    Budget,
    Strategy,
    combine,
    max_iterations,
    max_tool_calls,
)

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class BudgetTable(Settings):
    """What one turn may spend, with its subagents and continuations."""

    seconds: Seconds | None = None
    """Seconds, without the time that people take."""
    tokens: Count | None = None
    """Tokens that models read and wrote."""
    model_calls: Count | None = None
    """Model calls."""
    tool_calls: Count | None = None
    """Tool calls that are executed."""


class LoopSettings(Settings):
    """What ``[agent] use = "loop"`` says."""

    model: str = Field(
        default="scripted", description="A key of [models]; scripted needs no table."
    )
    instructions: str = Field(default="", description="The system prompt.")
    tools: tuple[str, ...] = Field(default=(), description='Functions, as "module:function".')
    settings: dict[str, Any] = Field(
        default={}, description="Settings of the model, as its provider names them."
    )
    max_iterations: Count = Field(default=10, description="Model calls in one run, at most.")
    max_tool_calls: Count | None = Field(
        default=None, description="Tool calls in one run, at most; without it, any number."
    )
    budget: BudgetTable = Field(default=BudgetTable(), description="What one turn may spend.")
    concurrency: Annotated[int, Field(ge=1)] = Field(
        default=8, description="Tool calls that run at once."
    )
    tool_timeout: Seconds = Field(default=60.0, description="Seconds that a tool call may take.")
    repairs: Count = Field(
        default=1, description="Further model calls when structured output is not valid."
    )
    answer_within: Annotated[Seconds, Field(le=LONGEST)] = Field(
        default=86_400.0, description="Seconds that people have to answer a paused run."
    )


class Loop(AgentFactory[LoopSettings]):
    """``use = "loop"``: a model and tools, with every point open to middlewares."""

    scope = "host"
    points = tuple(Point)

    def __call__(self, settings: LoopSettings, _: LifespanContext, /) -> Agent:
        """Return the agent. Raises :class:`UsageError` for a tool that cannot be one."""
        budget = settings.budget
        return LoopAgent(
            settings.model,
            [named_tool(name) for name in settings.tools],
            instructions=settings.instructions,
            settings=settings.settings,
            until=_until(settings),
            budget=None if budget == BudgetTable() else Budget(**budget.model_dump()),
            concurrency=settings.concurrency,
            tool_timeout=settings.tool_timeout,
            repairs=settings.repairs,
            answer_within=settings.answer_within,
        )


def _until(settings: LoopSettings) -> Strategy:
    most = max_iterations(settings.max_iterations)
    if settings.max_tool_calls is None:
        return most
    return combine(most, max_tool_calls(settings.max_tool_calls))


def named_tool(name: str) -> object:
    """Return what ``module:function`` names; startup has seen to it that it is there."""
    module, _, attribute = name.partition(":")
    found: object = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{name} is a {type(found).__name__}, which is no tool")
    return found
