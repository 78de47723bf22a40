"""From anything that an operator may call an agent to one shape.

An agent object, an async generator function, a factory and an :class:`AgentFactory` class all
become an :class:`AgentSource`. Everything else is refused here, before a run finds out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from pydantic import BaseModel

from interpose.authoring import Agent, AgentFactory, NoSettings, Point
from interpose.capability import Capability, Scope
from interpose.context import LifespanContext
from interpose.errors import Problem, UsageError
from interpose.startup.agent_shapes import Named, as_agent, fits, framework_problem
from interpose.startup.frameworks import recognise, recognise_single
from interpose.startup.inspection import settings_class
from interpose.startup.settings_rules import settings_faults

DEFAULT_POINTS: Final = (Point.RUN, Point.EVENTS)


@dataclass(frozen=True, slots=True)
class AgentSource:
    """Where agents come from.

    ``make(settings, ctx)`` returns an agent whose ``run`` takes ``(run_input, ctx)``: one for each
    run (``scope`` run) or one per host. It raises :class:`UsageError` when a factory makes none.
    ``given``: the agent was there before; whoever made it closes it, not the host.
    """

    make: Callable[[Any, LifespanContext], Agent]
    scope: Scope
    points: tuple[Point, ...] = DEFAULT_POINTS
    requires: tuple[Capability[Any], ...] = ()
    optional_requires: tuple[Capability[Any], ...] = ()
    provides: tuple[Capability[Any], ...] = ()
    settings_class: type[BaseModel] = NoSettings
    given: bool = False


def adapt_agent(value: object, place: str = "", name: str = "agent") -> AgentSource | Problem:
    """Return the source of agents that ``value`` is, or say why it is none.

    ``name`` is what messages call it: ``module:attr``, or its name in code.
    """
    named = Named(name, place)
    if isinstance(value, type) and issubclass(value, AgentFactory):
        return _from_factory_class(value, named)
    is_object = not isinstance(value, type) and recognise(value) is None
    if is_object and callable(value) and hasattr(value, "scope") and not hasattr(value, "run"):
        return _from_factory(value, named)
    agent = as_agent(value, named)
    if isinstance(agent, Problem):
        return agent
    single = recognise_single(value)
    if single is not None:
        return framework_problem(single, value, named)
    source = AgentSource(lambda _settings, _ctx: agent, "host", given=True)
    return _declared(value, source, named)


def _from_factory_class(value: type[AgentFactory[Any]], named: Named) -> AgentSource | Problem:
    faults = factory_faults(value)
    if faults:
        return named.problem(
            f"{named.name} cannot make agents: {'; '.join(faults)}.",
            f"Correct the class {value.__qualname__}.",
        )
    return source_of(value, named)


def source_of(factory: type[AgentFactory[Any]], named: Named) -> AgentSource:
    """Return the source that a factory without faults is."""
    return AgentSource(
        _making(factory, named),
        factory.scope,
        tuple(factory.points),
        tuple(factory.requires),
        tuple(factory.optional_requires),
        tuple(factory.provides),
        settings_class(factory),
    )


def factory_faults(factory: type[AgentFactory[Any]]) -> tuple[str, ...]:
    """Return what is wrong with a factory's class, each a clause without its full stop."""
    faults: list[str] = []
    call = factory.__call__
    if call is AgentFactory.__call__:
        faults.append("it has no __call__(self, settings, ctx) that returns an agent")
    elif inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call):
        faults.append("its __call__ is `async def`; use `def`, and do slow work in the agent's run")
    elif not fits(call, 3):
        faults.append("its __call__ must take (self, settings, ctx)")
    if factory.scope not in ("run", "host"):
        faults.append(f'its scope is {factory.scope!r}; write "run" or "host"')
    if not fits(factory, 0):
        faults.append("its __init__ takes arguments, and the host has none to give; use settings")
    points: object = factory.points
    if not isinstance(points, tuple) or not all(isinstance(point, Point) for point in points):
        faults.append("its points must be a tuple of Point")
    faults += (
        f"its {attribute} must be a tuple of Capability"
        for attribute in ("requires", "optional_requires", "provides")
        if not _are_capabilities(getattr(factory, attribute))
    )
    return (*faults, *settings_faults(settings_class(factory), "agents"))


def _from_factory(value: Any, named: Named) -> AgentSource | Problem:
    scope = value.scope
    if scope not in ("run", "host"):
        return named.problem(
            f"{named.name} has scope = {scope!r}.", 'Write scope = "run" or scope = "host".'
        )
    call = value if inspect.isroutine(value) else type(value).__call__
    if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call):
        return named.problem(
            f"{named.name} has a scope, so it is a factory, but it is `async def`.",
            "Write `def` and return an agent, or drop the scope if it yields events itself.",
        )
    if not fits(value, 2):
        return named.problem(
            f"{named.name} is a factory that does not take (settings, ctx).",
            "Write `def make(settings, ctx): return MyAgent(...)`.",
        )
    settings = (
        settings_class(type(value))
        if isinstance(value, AgentFactory)
        else _annotated_settings(value)
    )
    faults = settings_faults(settings, "agents")
    if faults:
        return named.problem(f"{named.name}: {'; '.join(faults)}.", "Correct the settings model.")
    source = AgentSource(_making(lambda: value, named), scope, settings_class=settings)
    return _declared(value, source, named)


def _annotated_settings(factory: Callable[..., Any]) -> type[BaseModel]:
    """Return the settings model in the annotation of a factory's first argument."""
    function = factory if inspect.isroutine(factory) else type(factory).__call__
    try:
        hints = get_type_hints(function)
        first = next(iter(inspect.signature(factory).parameters))
    except (AttributeError, NameError, StopIteration, TypeError, ValueError):
        return NoSettings
    found = hints.get(first)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else NoSettings


def _making(
    new: Callable[[], Callable[[Any, LifespanContext], Any]], named: Named
) -> Callable[[Any, LifespanContext], Agent]:
    def make(settings: Any, ctx: LifespanContext) -> Agent:
        made = new()(settings, ctx)
        if inspect.iscoroutine(made):
            made.close()
        agent = as_agent(made, Named(f"what {named.name} made", named.place))
        if isinstance(agent, Problem):
            raise UsageError(agent.message, where=agent.where, hint=agent.hint)
        return agent

    return make


def _declared(value: object, source: AgentSource, named: Named) -> AgentSource | Problem:
    """Add what an agent object or a factory function says about itself."""
    points = getattr(value, "points", DEFAULT_POINTS)
    try:
        offered = tuple(Point(point) for point in points)
    except (TypeError, ValueError):
        return named.problem(
            f"{named.name} has points = {points!r}.",
            f"Write a tuple of Point: {', '.join(f'Point.{point.name}' for point in Point)}.",
        )
    given = {
        attribute: getattr(value, attribute, ())
        for attribute in ("requires", "optional_requires", "provides")
    }
    for attribute, capabilities in given.items():
        if not _are_capabilities(capabilities):
            return named.problem(
                f"{named.name} has {attribute} = {capabilities!r}.", "Write a tuple of Capability."
            )
    return AgentSource(
        source.make,
        source.scope,
        offered,
        settings_class=source.settings_class,
        given=source.given,
        **{attribute: tuple(capabilities) for attribute, capabilities in given.items()},
    )


def _are_capabilities(given: object) -> bool:
    return isinstance(given, Iterable) and all(isinstance(item, Capability) for item in given)
