"""The middleware under contract, with everything that is needed to run it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ag_ui.core import BaseEvent, RunAgentInput
from pydantic import BaseModel, SecretStr, ValidationError

from interpose.authoring import Declaration, Layer, Middleware, Point, middleware_id
from interpose.capability import CREDENTIALS, PRINCIPAL, Capability
from interpose.context import AgentContext
from interpose.errors import Problem, StartupError, UsageError, described
from interpose.logs import cause
from interpose.startup.built_in import built_in_parts
from interpose.startup.declaration_rules import declaration_faults
from interpose.startup.discovery import Discovery
from interpose.startup.hook_rules import HOOKS
from interpose.startup.inspection import MiddlewareFacts, inspect_middleware
from interpose.startup.prepared import Given
from interpose.startup.preparing import prepare
from interpose.startup.tree import KeyPath

LOOP_POINTS: Final = frozenset({Point.STEP, Point.MODEL, Point.TOOLS, Point.INTERRUPTS})
"""The points that an agent with a loop offers."""

_LONGEST_WORD: Final = 200


@dataclass(frozen=True, slots=True)
class Person:
    """A made-up principal, for middlewares that require one."""

    subject: str = "ada"
    tenant: str | None = "acme"
    roles: frozenset[str] = frozenset({"member"})
    claims: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Token:
    """Made-up credentials."""

    scheme: str = "Bearer"
    token: str = "made-up-token"  # noqa: S105 - no secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The middleware under contract.

    * ``settings``: as they were given, validated; ``declaration``: what it declares under them.
    * ``agent``: the author's own agent, if there is one; rules play it beside their own streams.
    * ``provide``: values for what it requires.
    * ``words``: every string of the settings and of ``samples``: material that it may act on.
    """

    cls: type[Middleware[Any, Any]]
    facts: MiddlewareFacts
    settings: BaseModel
    declaration: Declaration
    agent: object = None
    provide: Mapping[Capability[Any], Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What is worked out once for all checks."""

    @property
    def name(self) -> str:
        """The class's name, for messages."""
        return self.cls.__qualname__

    @property
    def layer_id(self) -> str:
        """The id of its layer."""
        return middleware_id(self.cls)

    @property
    def points(self) -> frozenset[Point]:
        """The points that its hooks need."""
        return frozenset(Point(HOOKS[name].point) for name in self.facts.hooks) | (
            frozenset({Point.EVENTS}) if self.facts.has_event_hooks else frozenset()
        )

    @property
    def uses_loop(self) -> bool:
        """Whether a hook is called only by an agent with a loop."""
        return bool((self.points | frozenset(self.declaration.essential)) & LOOP_POINTS)

    @property
    def touches_stream(self) -> bool:
        """Whether what the consumer gets passes through its code."""
        around = {"around_run", "around_step", "around_model_call"}
        return self.facts.has_event_hooks or bool(around & set(self.facts.hooks))

    @property
    def path(self) -> KeyPath:
        """The path of its table."""
        return ("middleware", self.layer_id)

    def start_up(self, table: Mapping[str, Any], environ: Mapping[str, str]) -> BaseModel:
        """Return the settings that a real startup makes of a table and variables.

        Raises :class:`StartupError`.
        """
        of_runs = tuple(c for c in self.provide if c.scope == "run")
        given = Given(
            folder=Path.cwd(),
            environ=environ,
            layers=[Layer(self.cls, table, id=self.layer_id)],
            agents={"default": _Anything()},
            provide={c: value for c, value in self.provide.items() if c.scope == "host"},
            provides=of_runs,
            discover=lambda: Discovery(()),
            built_in=built_in_parts(),
        )
        return prepare(given).layers["default", self.layer_id].settings

    def layer(self, layer_id: str | None = None, **options: Any) -> Layer:
        """Return it as a layer, strict about its isolated hooks, too."""
        options.setdefault("on_failure", "fail" if self.declaration.on_failure is None else None)
        return Layer(self.cls, self.settings, id=layer_id or self.layer_id, **options)


class _Anything:
    """An agent around which any middleware may stand; nobody runs it."""

    points = tuple(Point)

    def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        raise NotImplementedError


def subject_of(
    cls: object,
    settings: BaseModel | Mapping[str, Any] | None,
    agent: object,
    provide: Mapping[Capability[Any], Any] | None,
    samples: Sequence[str],
) -> Subject:
    """Return the subject of a contract. Raises :class:`UsageError` for what cannot be one.

    A class that the host would refuse at startup raises :class:`StartupError`, as there.
    """
    if not (isinstance(cls, type) and issubclass(cls, Middleware)):
        raise UsageError(
            f"contract takes a middleware class, not {cls!r}",
            hint="give the class itself, or what @middleware made of a function",
        )
    if isinstance(samples, str):
        raise UsageError("samples is a single text", hint=f"write samples=[{samples!r}]")
    facts = inspect_middleware(cls)
    if facts.faults:
        raise _refused(cls, "invalid-plugin", facts.faults)
    valid = _validated(facts, settings)
    declaration = declared(cls, valid)
    subject = Subject(
        cls=cls,
        facts=facts,
        settings=valid,
        declaration=declaration,
        agent=agent,
        provide=_provided(cls, declaration, provide or {}),
        words=tuple(dict.fromkeys([*samples, *_strings(valid.model_dump(warnings=False))])),
    )
    with suppress(Exception):  # some cannot be copied
        subject.memo["settings"] = valid.model_copy(deep=True)  # before anybody changes them
    return subject


def declared(cls: type[Middleware[Any, Any]], settings: BaseModel) -> Declaration:
    """Return what the class declares under these settings. Raises :class:`StartupError`."""
    try:
        found: object = cls.declare(settings)
    except (Exception, SystemExit) as error:
        raise _refused(cls, "failed-declare", [f"declare failed: {cause(error)}"]) from error
    if not isinstance(found, Declaration):
        raise _refused(cls, "failed-declare", [f"declare returned {described(found)}"])
    faults = list(declaration_faults(found))
    if faults:
        raise _refused(cls, "failed-declare", faults)
    return found


def _refused(cls: type, code: str, faults: Iterable[str]) -> StartupError:
    return StartupError([Problem(code, fault, (cls.__qualname__,)) for fault in faults])


def _validated(facts: MiddlewareFacts, settings: BaseModel | Mapping[str, Any] | None) -> BaseModel:
    model = facts.settings_class
    if isinstance(settings, model):
        return settings
    given = dict(settings) if isinstance(settings, Mapping) else {}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise UsageError(
            f"the settings of the contract are not valid: {error}",
            hint=f"give contract({facts.cls.__qualname__}, settings=...) valid ones",
        ) from None


def _provided(
    cls: type[Middleware[Any, Any]],
    declaration: Declaration,
    given: Mapping[Capability[Any], Any],
) -> Mapping[Capability[Any], Any]:
    made_up: dict[Capability[Any], Any] = {PRINCIPAL: Person(), CREDENTIALS: Token()}
    wanted = (*declaration.requires, *declaration.optional_requires)
    found = {c: made_up[c] for c in wanted if c in made_up and c not in declaration.provides}
    found.update(given)
    missing = [c.name for c in declaration.requires if c not in found]
    if missing:
        raise UsageError(
            f"{cls.__qualname__} requires {', '.join(missing)}, and the contract has no value",
            hint="give one: contract(..., provide={CAPABILITY: value})",
        )
    return found


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings of dumped settings, not the secrets."""
    if isinstance(value, SecretStr):
        return
    if isinstance(value, str):
        if value.strip() and len(value) <= _LONGEST_WORD:
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in sorted(value, key=str):
            yield from _strings(item)
