"""When a loop stops: strategies, asked before an iteration; budgets, checked before each spend."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Final, TypeAlias

from ag_ui.core import TokenUsage

from interpose.errors import UsageError
from interpose.services import Clock

LONGEST: Final = 315_360_000.0
"""Seconds that people may have to answer, at most: ten years."""


def check_count(owner: str, name: str, value: object, *, least: int = 0) -> None:
    """Raise :class:`UsageError` unless an argument of ``owner`` is a count, not too small."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(
            f"{name} is {value!r}",
            where=f"{owner}({name}=...)",
            hint=f"give a whole number, {least} or more",
        )


def check_seconds(owner: str, name: str, value: object, *, most: float = math.inf) -> None:
    """Raise :class:`UsageError` unless an argument of ``owner`` is a time that passes."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= most or value == math.inf:  # type: ignore[operator]
        bound = "" if most == math.inf else f", {most:.0f} at most"
        raise UsageError(
            f"{name} is {value!r}",
            where=f"{owner}({name}=...)",
            hint=f"give seconds, more than 0{bound}",
        )


@dataclass(frozen=True, slots=True)
class LoopState:
    """Where a loop stands before an iteration.

    ``iterations``: done so far. ``tool_calls``: executed in the run, ``last_tool_calls``: in the
    last iteration. ``finish_reason``: the last model call's. ``usage``: per model call.
    """

    iterations: int = 0
    tool_calls: int = 0
    last_tool_calls: int = 0
    finish_reason: str | None = None
    usage: tuple[TokenUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class Strategy:
    """Decides whether a loop goes on. ``name`` is what the outcome says when it does not.

    ``most_calls``: how many tool calls a run may execute; it holds within an iteration, too.
    """

    name: str
    goes_on: Callable[[LoopState], bool]
    most_calls: int | None = None

    def limit(self, state: LoopState) -> str | None:
        """Return the name of what stops the loop here; None: it goes on."""
        try:
            return None if self.goes_on(state) else self.name
        except Exception as error:
            error.add_note(f"in the strategy {self.name!r}")
            raise


@dataclass(frozen=True, slots=True)
class _Combined(Strategy):
    parts: tuple[Strategy, ...] = ()

    def limit(self, state: LoopState) -> str | None:
        found = [part.limit(state) for part in self.parts]
        return next((name for name in found if name is not None), None)


StrategyLike: TypeAlias = "Strategy | Callable[[LoopState], bool]"


def max_iterations(most: int) -> Strategy:
    """Stop after this many iterations: model calls, each with its tools."""
    _check("max_iterations", most)
    return Strategy(f"max_iterations({most})", lambda state: state.iterations < most)


def max_tool_calls(most: int) -> Strategy:
    """Stop when this many tool calls were executed; further ones of a batch are not."""
    _check("max_tool_calls", most)
    return Strategy(f"max_tool_calls({most})", lambda state: state.tool_calls < most, most)


def until_finish_reason(*reasons: str) -> Strategy:
    """Stop after a model call that ended with one of these; the first call is always made."""
    if not reasons:
        raise UsageError("until_finish_reason names no reason", hint='as in "stop"')
    return Strategy(
        f"until_finish_reason({', '.join(reasons)})",
        lambda state: not state.iterations or state.finish_reason not in reasons,
    )


def combine(*strategies: StrategyLike) -> Strategy:
    """Go on only while all of these do; the outcome names the first that does not."""
    parts = tuple(as_strategy(each) for each in strategies)
    most = [part.most_calls for part in parts if part.most_calls is not None]
    return _Combined(
        f"combine({', '.join(part.name for part in parts)})",
        lambda state: all(part.goes_on(state) for part in parts),
        min(most, default=None),
        parts,
    )


def as_strategy(given: StrategyLike) -> Strategy:
    """Return a strategy; a function of the state is one."""
    if isinstance(given, Strategy):
        return given
    makers: tuple[object, ...] = (max_iterations, max_tool_calls, until_finish_reason, combine)
    if given in makers:
        raise UsageError(
            f"{getattr(given, '__name__', given)} was given without its numbers",
            hint="as in max_iterations(5)",
        )
    if inspect.iscoroutinefunction(given):
        raise UsageError(
            f"the strategy {given.__name__!r} is `async def`, and would never stop the loop",
            hint="make it `def`; what waits belongs into on_should_continue of a middleware",
        )
    if callable(given):
        return Strategy(getattr(given, "__name__", "strategy"), given)
    raise UsageError(
        f"{given!r} is no strategy", hint="as in max_iterations(5), or a function of LoopState"
    )


def _check(name: str, most: object) -> None:
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise UsageError(f"{name}({most!r}) counts nothing", hint=f"as in {name}(5)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one turn may spend: a run with its subagents and its continuations.

    Checked before each model call and each tool call. ``seconds`` do not count the time that
    people take to answer. Counts are 0 or more, ``seconds`` more than 0; anything else is a
    :class:`UsageError`.
    """

    seconds: float | None = None
    tokens: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None:
                check = check_seconds if each.name == "seconds" else check_count
                check("Budget", each.name, value)


def tightest(*budgets: Budget | None) -> Budget:
    """Return a budget with the least that any of these allows."""
    least: dict[str, float] = {}
    for budget in budgets:
        for each in () if budget is None else fields(budget):
            most = getattr(budget, each.name)
            if most is not None:
                least[each.name] = min(most, least.get(each.name, most))
    return Budget(**least)  # type: ignore[arg-type] # each from its own field


@dataclass(slots=True)
class Spending:
    """What a run and its subagents have spent so far."""

    clock: Clock
    started: float
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    before: float = 0.0
    """Seconds that the runs took which this one continues."""
    usage: list[TokenUsage] = field(default_factory=list)

    def add(self, usage: Sequence[TokenUsage]) -> None:
        """Count what a model call used."""
        self.usage += usage
        self.tokens += sum(
            each.total_tokens or (each.input_tokens or 0) + (each.output_tokens or 0)
            for each in usage
        )

    @property
    def seconds(self) -> float:
        """How long the turn has taken."""
        return self.before + self.clock.monotonic() - self.started

    def over(self, budget: Budget | None) -> str | None:
        """Return what is used up, so that nothing more can be spent; None: nothing is."""
        if budget is None:
            return None
        for name, used in (
            ("seconds", self.seconds),
            ("tokens", self.tokens),
            ("model_calls", self.model_calls),
        ):
            most = getattr(budget, name)
            if most is not None and used >= most:
                return f"budget.{name}({most:g})"
        return None

    def calls_left(self, most: int | None, budget: Budget | None) -> int | None:
        """Return how many tool calls may still be executed; None: any number."""
        limits = (most, None if budget is None else budget.tool_calls)
        given = [limit for limit in limits if limit is not None]
        return max(0, min(given) - self.tool_calls) if given else None
