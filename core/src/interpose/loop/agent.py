"""The built-in agent: a model and tools, with every point open to middlewares."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ag_ui.core import BaseEvent, RunAgentInput

from interpose.authoring import Point
from interpose.context import AgentContext
from interpose.errors import UsageError
from interpose.loop.catalogue import check_disclosing
from interpose.loop.limits import (
    LONGEST,
    Budget,
    Strategy,
    StrategyLike,
    as_strategy,
    check_count,
    check_seconds,
    max_iterations,
)
from interpose.loop.running import LoopRun
from interpose.loop.settings import LoopParts
from interpose.loop.tools import tools_of
from interpose.model import Model


class LoopAgent:
    """An agent that calls a model, runs the tools it asks for, and goes on until it is done.

    * ``model``: an object with ``stream(request, ctx)``, or a key of ``[models]`` (``"scripted"``
      needs no table).
    * ``instructions``: system prompts. ``settings``: for the model, as its provider names them.
    * ``tools``: functions, or what :func:`interpose.loop.tool` made of them.
    * ``until``: when to stop; see :func:`max_iterations` and its siblings. ``budget``: what one
      turn may spend.
    * ``concurrency``: tool calls at once. ``tool_timeout``: seconds for each (None: any time).
    * ``repairs``: further model calls when structured output is not valid.
    * ``answer_within``: seconds that people have to answer before a paused run expires; ten years
      at most.

    An argument that cannot be one is a :class:`UsageError`.
    """

    points: ClassVar[tuple[Point, ...]] = tuple(Point)

    def __init__(
        self,
        model: Model | str = "scripted",
        tools: Iterable[object] = (),
        *,
        instructions: str | Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
        until: StrategyLike | None = None,
        budget: Budget | None = None,
        concurrency: int = 8,
        tool_timeout: float | None = 60.0,
        repairs: int = 1,
        answer_within: float = 86_400.0,
    ) -> None:
        check_count("LoopAgent", "concurrency", concurrency, least=1)
        check_count("LoopAgent", "repairs", repairs)
        check_seconds("LoopAgent", "answer_within", answer_within, most=LONGEST)
        if tool_timeout is not None:
            check_seconds("LoopAgent", "tool_timeout", tool_timeout)
        if budget is not None and not isinstance(budget, Budget):
            raise UsageError(
                f"the budget is a {type(budget).__name__}",
                where="LoopAgent(budget=...)",
                hint="as in Budget(model_calls=5, seconds=60)",
            )
        strategy: Strategy = max_iterations(10) if until is None else as_strategy(until)
        given: dict[str, Model] = {}
        if not isinstance(model, str):
            if isinstance(model, type):
                raise UsageError(
                    f"model is the class {model.__name__}",
                    where="LoopAgent(model)",
                    hint=f"make one: {model.__name__}(...)",
                )
            if not callable(getattr(model, "stream", None)):
                raise UsageError(
                    f"model is a {type(model).__name__}, which is no model",
                    where="LoopAgent(model)",
                    hint="an object with `stream(self, request, ctx)`, or a key of [models]",
                )
            given["model"] = model
        if settings is not None and not isinstance(settings, Mapping):
            raise UsageError(
                f"the settings are a {type(settings).__name__}",
                where="LoopAgent(settings=...)",
                hint='give a mapping, as in {"temperature": 0}',
            )
        found = tools_of(tools, "LoopAgent(tools=...)")
        check_disclosing(found, "LoopAgent(tools=...)")
        self.parts = LoopParts(
            model=model if isinstance(model, str) else "model",
            models=given,
            instructions=_prompts(instructions),
            tools=found,
            until=strategy,
            budget=budget,
            settings=dict(settings or {}),
            concurrency=concurrency,
            tool_timeout=tool_timeout,
            repairs=repairs,
            answer_within=answer_within,
        )

    def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play one run."""
        return LoopRun(self.parts, run_input, ctx).events()


def _prompts(instructions: str | Sequence[str]) -> tuple[str, ...]:
    """Return system prompts; an empty text is none, and providers refuse one."""
    given: object = (instructions,) if isinstance(instructions, str) else instructions
    if not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise UsageError(
            "the instructions are no text",
            where="LoopAgent(instructions=...)",
            hint="give a text, or a list of texts",
        )
    return tuple(each for each in given if each)
