"""Whether an object is an agent, and how its ``run`` is to be called.

An agent is an object whose ``run`` yields AG-UI events, or an async generator function. Both may
take ``(run_input, ctx)`` or only ``(run_input)``.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from ag_ui.core import BaseEvent, RunAgentInput

from interpose.authoring import Agent
from interpose.context import AgentContext
from interpose.errors import Problem, described
from interpose.startup.frameworks import Framework, recognise

_CONTEXT_NAMES: Final = ("ctx", "context")


@dataclass(frozen=True, slots=True)
class Named:
    """What messages call an object (``module:attr``, or its name in code), and where it is said."""

    name: str
    place: str = ""

    def problem(self, message: str, hint: str, code: str = "invalid-agent") -> Problem:
        """Return a problem about the object."""
        return Problem(code, message, (self.place,) if self.place else (), hint)


@dataclass(frozen=True, slots=True)
class _Called:
    """An agent that is a function, or whose ``run`` takes only the input."""

    call: Callable[..., AsyncIterator[BaseEvent]]
    takes_context: bool
    aclose: Callable[[], object] | None = None
    """How the agent itself is closed, if it says so."""

    def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        return self.call(run_input, ctx) if self.takes_context else self.call(run_input)


def as_agent(value: object, named: Named) -> Agent | Problem:
    """Return ``value`` as an agent with ``run(run_input, ctx)``, or say why it is none."""
    framework = recognise(value)
    if framework is not None:
        return framework_problem(framework, value, named)
    if isinstance(value, type):
        return _class_problem(value, named)
    run = getattr(value, "run", None)
    if run is None and inspect.isroutine(value):
        return _function_agent(value, named)
    if not callable(run):
        return named.problem(
            f"{named.name} is {described(value)}, which is no agent: it has no `run` method.",
            "An agent is an object with `async def run(self, run_input, ctx)` that yields AG-UI "
            "events, or an async generator function (run_input, ctx).",
        )
    shown = Named(f"{named.name}.run", named.place)
    wrong = _not_a_stream(run, shown) or _wrong_arguments(run, shown)
    if wrong is not None:
        return wrong
    # One that takes a context is used as it is: it may have more to it than `run`.
    without_context = _Called(run, takes_context=False, aclose=getattr(value, "aclose", None))
    return cast("Agent", value) if _takes_context(run) else without_context


def _class_problem(value: type, named: Named) -> Problem:
    if hasattr(value, "run"):
        hint = f"Name an object: agent = {value.__name__}(), and use that."
    else:
        hint = "Name an object with a `run` method, or derive the class from AgentFactory."
    return named.problem(f"{named.name} is {described(value)}, not an agent.", hint)


def _function_agent(function: Any, named: Named) -> Agent | Problem:
    wrong = _not_a_stream(function, named)
    if wrong is None and not inspect.isasyncgenfunction(function):
        wrong = named.problem(
            f"{named.name} is a plain function: neither an async generator, nor marked as a "
            f"factory.",
            "An agent is `async def` and yields events; a factory (settings, ctx) that returns an "
            'agent says how long one lives: make.scope = "run", or "host".',
        )
    wrong = wrong or _wrong_arguments(function, named)
    return wrong or _Called(function, _takes_context(function))


def _not_a_stream(run: Callable[..., Any], named: Named) -> Problem | None:
    function = run if inspect.isroutine(run) else type(run).__call__
    if inspect.iscoroutinefunction(function):
        return named.problem(
            f"{named.name} is a coroutine: it returns once, and an agent yields its events.",
            "Write `async def` with `yield` for each event; RUN_STARTED first, RUN_FINISHED last.",
        )
    if inspect.isgeneratorfunction(function):
        return named.problem(
            f"{named.name} is a plain generator, and agents are asynchronous.",
            "Write `async def` in place of `def`.",
        )
    return None


def _wrong_arguments(run: Callable[..., Any], named: Named) -> Problem | None:
    if fits(run, 1) or fits(run, 2):
        return None
    return named.problem(
        f"{named.name} cannot be called with (run_input, ctx), nor with (run_input).",
        "Give it these arguments, and no further required ones.",
    )


def fits(function: Callable[..., Any], count: int) -> bool:
    """Say whether ``function`` can be called with ``count`` positional arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a signature that Python cannot read
        return True
    return True


def _takes_context(run: Callable[..., Any]) -> bool:
    """Say whether ``run`` is to be given a context, as its second argument.

    It is when it must have one. An optional one may be anything (a timeout), so its name decides.
    """
    if not fits(run, 2):
        return False
    if not fits(run, 1):
        return True
    try:
        parameters = tuple(inspect.signature(run).parameters.values())
    except ValueError:
        return True
    last = parameters[min(1, len(parameters) - 1)]
    return last.kind is last.VAR_POSITIONAL or last.name in _CONTEXT_NAMES


def framework_problem(framework: Framework, value: object, named: Named) -> Problem:
    """Say why ``value`` needs something around it, and which lines put it on."""
    module, _, variable = named.name.partition(":")
    kind = type(value)
    in_code = (
        named.name == f"{kind.__module__}:{kind.__qualname__}"
    )  # what code calls it, who knows
    if in_code or not variable.isidentifier():
        module, variable = "", "agent"
    return named.problem(
        f"{named.name} is {described(value)} of {framework.name}, {framework.fault}.",
        framework.remedy(variable, module),
        "framework-agent",
    )
