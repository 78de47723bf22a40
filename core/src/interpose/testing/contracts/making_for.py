"""The doors of the contracts for providers, models and agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ag_ui.core import RunAgentInput, Tool, UserMessage
from pydantic import BaseModel

from interpose.authoring import Middleware, Provider
from interpose.capability import CREDENTIALS, PRINCIPAL, Capability
from interpose.context import LifespanContext
from interpose.errors import Problem, StartupError, UsageError, described
from interpose.model import Model, ModelFactory
from interpose.payloads import ModelRequest
from interpose.startup.adapting import adapt_agent
from interpose.startup.class_checks import class_faults
from interpose.startup.contributions import RegisteredPart
from interpose.startup.inspection import settings_class
from interpose.startup.uses import Kind
from interpose.testing.contracts.engine import Contract
from interpose.testing.contracts.parts import (
    USE,
    AgentSubject,
    ModelSubject,
    ProviderSubject,
    settings_of,
)
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules import agent_rules, model_rules, part_rules, provider_rules
from interpose.testing.contracts.rules.provider_rules import Behaviour, behaviour_rules
from interpose.testing.contracts.subject import Person, Token
from interpose.testing.events import user_input

Provided = Mapping[Capability[Any], Any]
Given = BaseModel | Mapping[str, Any] | None

_REQUEST: Final = ModelRequest(
    USE,
    (UserMessage(id="user", content="Hello. Where is my order?"),),
    tools=(
        Tool(
            name="look_up",
            description="Look up an order.",
            parameters={"type": "object", "properties": {"order": {"type": "string"}}},
        ),
    ),
)


def contract_for(
    capability: Capability[Any],
    provider: type[Provider[Any] | Middleware[Any, Any]],
    *,
    settings: Given = None,
    provide: Provided | None = None,
    behaviour: Sequence[Behaviour] = (),
    excuse: Mapping[str, str] | None = None,
) -> Contract:
    """Return the checks of what a provider owes to those who require ``capability``.

    * ``provider``: a :class:`Provider`, or a middleware that provides it.
    * ``settings``, ``provide``, ``excuse``: as for :func:`contract`.
    * ``behaviour``: functions ``(value) -> None``, ``def`` or ``async def``, that raise when a
      value does not do what the capability promises. Each is a check under its own name, with a
      fresh provider. The owner of a capability publishes them, for all who provide it.

    Example::

        async def keeps_what_is_put(store: KeyValue) -> None:
            await store.put("a", "1")
            assert await store.get("a") == "1"

        contract_for(STORE, MemoryStore, behaviour=[keeps_what_is_put])
    """
    kind = _kind_of(provider)
    part = _part(kind, provider)
    if capability not in part.target.provides and kind == "provider":
        raise UsageError(
            f"{provider.__qualname__} does not provide {capability.name}",
            hint=f"it provides {', '.join(c.name for c in provider.provides) or 'nothing'}",
        )
    subject = ProviderSubject(
        name=provider.__qualname__,
        part=part,
        settings=settings_of(settings_class(provider), settings, provider.__qualname__),
        provide=_filled(part.target, provide),
        capability=capability,
    )
    rules: list[Rule[ProviderSubject]] = [*provider_rules.RULES]
    rules += [*behaviour_rules(tuple(behaviour)), *part_rules.RULES]
    return Contract(rules, subject, excuse or {})


def model_contract(
    model: Model | type[ModelFactory[Any]],
    *,
    settings: Given = None,
    request: ModelRequest | None = None,
    failing: Sequence[ModelRequest] = (),
    provide: Provided | None = None,
    excuse: Mapping[str, str] | None = None,
) -> Contract:
    """Return the checks of what a model owes to the loop that calls it.

    * ``model``: a :class:`ModelFactory`, or a model.
    * ``request``: what it is asked; default: a question, with a tool to look up orders.
    * ``failing``: requests that it cannot answer; each must fail as ``interpose.loop_errors`` say.
    * ``settings``, ``provide``, ``excuse``: as for :func:`contract`.
    """
    factory, name = _factory_of(model)
    subject = ModelSubject(
        name=name,
        part=_part("model", factory),
        settings=settings_of(settings_class(factory), settings, name),
        provide=_filled(factory, provide),
        request=_REQUEST if request is None else request.replace(model=USE),
        failing=tuple(each.replace(model=USE) for each in failing),
    )
    return Contract((*model_rules.RULES, *part_rules.RULES), subject, excuse or {})


def agent_contract(
    agent: object,
    *,
    settings: Given = None,
    asked: str | RunAgentInput = "Hello. Where is my order?",
    failing: Sequence[str | RunAgentInput] = (),
    provide: Provided | None = None,
    excuse: Mapping[str, str] | None = None,
) -> Contract:
    """Return the checks of what an agent owes to a host and its consumers.

    * ``agent``: an :class:`AgentFactory`, an agent, or a function: whatever ``Host(agent=...)``
      takes.
    * ``asked``: what it is asked. ``failing``: what it cannot answer; each ends as an error.
    * ``settings``, ``provide``, ``excuse``: as for :func:`contract`.
    """
    name = str(getattr(agent, "__qualname__", None) or type(agent).__qualname__)
    source = adapt_agent(agent, "", name)
    if isinstance(source, Problem):
        raise StartupError([source])
    subject = AgentSubject(
        name=name,
        part=RegisteredPart("agent", USE, USE, source),
        settings=settings_of(source.settings_class, settings, name),
        provide=_filled(source, provide),
        asked=_input(asked),
        failing=tuple(map(_input, failing)),
    )
    return Contract((*agent_rules.RULES, *part_rules.RULES), subject, excuse or {})


def _kind_of(provider: object) -> Kind:
    if isinstance(provider, type) and issubclass(provider, Provider):
        return "provider"
    if isinstance(provider, type) and issubclass(provider, Middleware):
        return "middleware"
    raise UsageError(
        f"contract_for takes a Provider or a Middleware class, not {described(provider)}",
        hint="contract_for(CAPABILITY, MyProvider, settings=...)",
    )


def _part(kind: Kind, target: Any) -> RegisteredPart:
    faults = list(class_faults(kind, target, None))
    if faults:
        raise StartupError(
            [Problem("invalid-plugin", fault, (target.__qualname__,)) for fault in faults]
        )
    return RegisteredPart(kind, USE, USE, target)


def _factory_of(model: object) -> tuple[type[ModelFactory[Any]], str]:
    if isinstance(model, type) and issubclass(model, ModelFactory):
        return model, model.__qualname__
    if isinstance(model, type) or not callable(getattr(model, "stream", None)):
        raise UsageError(
            f"model_contract takes a ModelFactory class or a model, not {described(model)}",
            hint="a model has `stream(self, request, ctx)` that yields AG-UI events",
        )
    given: Any = model

    class Given(ModelFactory):
        """Makes the model that was given."""

        def __call__(self, _settings: Any, _ctx: LifespanContext, /) -> Model:
            return _Kept(given)

    return Given, type(model).__qualname__


class _Kept:
    """A model that was there before, and that no host closes."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        if name == "aclose":
            raise AttributeError(name)
        return getattr(self._model, name)

    def stream(self, request: ModelRequest, ctx: Any, /) -> Any:
        return self._model.stream(request, ctx)


def _filled(target: Any, provide: Provided | None) -> Provided:
    """Return what was given, with made-up values of PRINCIPAL and CREDENTIALS."""
    wanted = (*target.requires, *target.optional_requires)
    made_up: dict[Capability[Any], Any] = {PRINCIPAL: Person(), CREDENTIALS: Token()}
    return {**{c: made_up[c] for c in wanted if c in made_up}, **(provide or {})}


def _input(asked: str | RunAgentInput) -> RunAgentInput:
    return asked if isinstance(asked, RunAgentInput) else user_input(asked)
