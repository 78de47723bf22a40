"""The host: the one imperative shell around resolution and runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ag_ui.core import BaseEvent, RunAgentInput

from interpose.agents.scripted import Scripted
from interpose.authoring import Agent, Layer, Middleware
from interpose.capability import Capability
from interpose.context import AgentContext, LifespanContext
from interpose.errors import CapabilityError, Problem, StartupError, UsageError
from interpose.logs import bound, quiet
from interpose.plan import LifespanStep, Plan
from interpose.runtime.clock import SystemClock
from interpose.runtime.inputs import Asked, to_input
from interpose.runtime.layer import ActiveLayer
from interpose.runtime.lifespans import Lifespans, Step
from interpose.runtime.program import Program
from interpose.runtime.record import RunRecord
from interpose.runtime.run import Run
from interpose.runtime.sync import SyncHost
from interpose.runtime.tasks import HostTasks
from interpose.services import Clock
from interpose.startup.adapting import AgentSource, adapt_agent
from interpose.startup.contributions import RegisteredPart
from interpose.startup.facts import refs
from interpose.startup.files import find_files
from interpose.startup.lifecycle import call_started, call_stopped
from interpose.startup.preparing import Given, Prepared, PreparedLayer, prepare, replan
from interpose.startup.tree import KeyPath

BUILT_IN_AGENTS = ("scripted",)


class Host:
    """Runs agents through resolved chains of middleware.

    Making one goes through all of startup and raises :class:`StartupError` with every problem;
    nothing is started yet. Enter it (``async with host:``) to start the lifespans, then call
    :meth:`run`. A host is an ordinary object: a process may have several, and none is global.

    * ``layers``: middlewares, outermost first: classes, functions made with ``@middleware``, or
      :class:`Layer` with settings and place.
    * ``agent`` or ``agents``: what answers the runs, by id; ``agent`` is ``agents["default"]``.
    * ``provide``: host-scope capabilities that the application gives, with their values.
    * ``provides``: run-scope capabilities that it promises to give to every run.
    * ``overrides``: configuration stronger than any file or variable, as nested mappings.
    * ``strict``: refuse what is otherwise a warning. Default: ``[host] strict``.
    * ``clock``: time for the host and its layers; tests give one that they drive.
    """

    def __init__(
        self,
        layers: Sequence[Layer | type[Middleware[Any, Any]]] = (),
        *,
        agent: object = None,
        agents: Mapping[str, object] | None = None,
        provide: Mapping[Capability[Any], Any] | None = None,
        provides: Sequence[Capability[Any]] = (),
        overrides: Mapping[str, Any] | None = None,
        strict: bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._start_from(
            Given(
                folder=Path.cwd(),
                layers=_layers(layers),
                agents=_agents(agent, agents),
                provide=dict(provide or {}),
                provides=tuple(provides),
                overrides=dict(overrides or {}),
                built_in=built_in_parts(),
            ),
            strict=strict,
            clock=clock,
        )

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        overlays: Sequence[str | os.PathLike[str]] = (),
        layers: Sequence[Layer | type[Middleware[Any, Any]]] = (),
        agent: object = None,
        agents: Mapping[str, object] | None = None,
        provide: Mapping[Capability[Any], Any] | None = None,
        provides: Sequence[Capability[Any]] = (),
        overrides: Mapping[str, Any] | None = None,
        strict: bool | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a host from files, variables and what is given here.

        ``path``: the base file; without it ``INTERPOSE_CONFIG``, ``interpose.toml`` or
        ``[tool.interpose]`` of ``pyproject.toml`` in the working directory. ``overlays`` lie over
        it in order. ``layers`` come after the file's; ``agent`` and ``agents`` take the place of
        the file's agents of the same id. ``environ``: variables (default: the process's).

        Raises :class:`StartupError` with every problem of every source.
        """
        variables = dict(os.environ if environ is None else environ)
        folder = Path.cwd()
        named = [*([] if path is None else [path]), *overlays]
        files = find_files(named, environ=variables, folder=folder)
        if not files:
            raise StartupError(
                [
                    Problem(
                        "no-config",
                        "There is no interpose.toml here, and no pyproject.toml with "
                        "[tool.interpose].",
                        (str(folder),),
                        "Name a file, set INTERPOSE_CONFIG, or make an interpose.toml.",
                    )
                ]
            )
        host = cls.__new__(cls)
        host._start_from(  # noqa: SLF001 - a second constructor of this class
            Given(
                folder=folder,
                files=files,
                environ=variables,
                layers=_layers(layers),
                agents=_agents(agent, agents),
                provide=dict(provide or {}),
                provides=tuple(provides),
                overrides=dict(overrides or {}),
                built_in=built_in_parts(),
            ),
            strict=strict,
            clock=clock,
        )
        return host

    @classmethod
    def from_given(cls, given: Given, prepared: Prepared) -> Self:
        """Make a host of a startup that has been gone through. Private: the CLI uses it."""
        host = cls.__new__(cls)
        host._adopt(given, prepared, strict=None, clock=None)  # noqa: SLF001 - likewise
        return host

    def _start_from(self, given: Given, *, strict: bool | None, clock: Clock | None) -> None:
        self._adopt(given, prepare(given), strict=strict, clock=clock)

    def _adopt(
        self, given: Given, prepared: Prepared, *, strict: bool | None, clock: Clock | None
    ) -> None:
        self._given = given
        self._prepared = prepared
        self._strict = prepared.config.host.strict if strict is None else strict
        self._clock: Clock = clock or SystemClock()
        self._lifespans: Lifespans | None = None
        self._tasks = HostTasks()
        self._programs: dict[str, Program] = {}
        self._shared: dict[KeyPath, Any] = {}
        self._host_agents: dict[str, Agent] = {}
        self._open: set[RunRecord] = set()
        for plugin in prepared.catalogue.active:
            quiet(plugin.value.partition(":")[0].partition(".")[0])

    # What was resolved -----------------------------------------------------------------------
    @property
    def agents(self) -> tuple[str, ...]:
        """The ids of the agents."""
        return tuple(self._prepared.plans)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is worth knowing about the configuration, though the host can start."""
        return self._prepared.warnings

    def plan(self, agent: str = "default") -> Plan:
        """Return the plan of an agent: its layers in order, and why."""
        self._check_agent(agent)
        return self._prepared.plans[agent]

    def _check_agent(self, agent: str) -> None:
        if agent not in self._prepared.plans:
            raise UsageError(
                f"this host has no agent {agent!r}",
                hint=f"its agents are {', '.join(sorted(self._prepared.plans)) or 'none'}",
            )

    # Life ------------------------------------------------------------------------------------
    async def __aenter__(self) -> Self:
        if self._lifespans is not None:
            raise UsageError("this host has been entered already", hint="make another Host")
        table = self._prepared.config.host
        self._lifespans = Lifespans(
            clock=self._clock,
            folder=self._folder(),
            provided=self._given.provide,
            startup_deadline=table.startup_deadline,
            ending_deadline=table.ending_deadline,
            scrub=self._prepared.scrub,
        )
        try:
            await self._lifespans.start([self._step(s) for s in self._prepared.lifespan_order])
        except BaseException:
            self._lifespans = None
            raise
        for agent in self._prepared.plans:
            self._programs[agent] = self._program(agent, self._prepared.plans[agent])
        for failure in call_started(self._prepared.catalogue.plugins, self):
            bound().error("{}", failure.message)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lifespans = self._lifespans
        if lifespans is None:
            return
        seconds = self._prepared.config.host.ending_deadline
        try:
            await self._close_runs(seconds)
            await self._tasks.drain(seconds)
        finally:
            self._programs.clear()
            await lifespans.stop()
            self._lifespans = None
            self._shared.clear()
            self._host_agents.clear()
            for failure in call_stopped(self._prepared.catalogue.plugins, self):
                bound().error("{}", failure.message)

    async def _close_runs(self, seconds: float) -> None:
        """Cancel the runs that are still open, and wait until their callers have let go."""
        for record in self._open:
            record.cancel("the host stops")
        waiting = [record.closed.wait() for record in self._open]
        if waiting:
            await asyncio.wait([asyncio.ensure_future(each) for each in waiting], timeout=seconds)

    def sync(self) -> SyncHost:
        """Return this host for use from threads: ``with host.sync() as h: h.run("hello")``."""
        return SyncHost(self)

    def _folder(self) -> Path:
        files = self._given.files
        return (self._given.folder / files[0]).parent if files else self._given.folder

    # Runs ------------------------------------------------------------------------------------
    def run(
        self,
        asked: Asked,
        *,
        agent: str = "default",
        thread_id: str | None = None,
        provide: Mapping[Capability[Any], Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Run:
        """Return a run of ``agent``; it begins when it is iterated or awaited.

        * ``asked``: a text, messages, or a whole ``RunAgentInput`` (model or decoded JSON).
        * ``thread_id``: the conversation; a new one unless given (or in the input).
        * ``provide``: values of the run-scope capabilities that ``Host(provides=...)`` promised.
        * ``attributes``, ``metadata``: see :class:`RunContext`.

        Raises :class:`UsageError` (host not entered, no such agent), :class:`InputError` (malformed
        input), :class:`CapabilityError` (a promised capability is missing, or one is not promised).
        """
        self._check_agent(agent)
        if self._lifespans is None:
            raise UsageError(
                "this host has not been entered", hint="use `async with host:` around its runs"
            )
        return self._run(
            self._programs[agent],
            asked,
            thread_id=thread_id,
            provide=provide or {},
            attributes=attributes or {},
            metadata=metadata or {},
        )

    def _run(
        self,
        program: Program,
        asked: Asked,
        *,
        thread_id: str | None = None,
        provide: Mapping[Capability[Any], Any],
        attributes: Mapping[str, Any],
        metadata: Mapping[str, Any],
    ) -> Run:
        run_input, warnings = to_input(asked, thread_id)
        self._check_provided(provide)
        record = RunRecord(
            program,
            run_input,
            clock=self._clock,
            provided=provide,
            attributes=attributes,
            metadata=metadata,
            open_runs=self._open,
        )
        for warning in warnings:
            record.log("host").warning("{}", warning)
        return Run(record)

    def _check_provided(self, provide: Mapping[Capability[Any], Any]) -> None:
        promised = [c for c in self._given.provides if c.scope == "run"]
        missing = [c.name for c in promised if c not in provide]
        if missing:
            raise CapabilityError(
                f"this run lacks {', '.join(missing)}, which Host(provides=...) promised",
                hint="give it: host.run(..., provide={CAPABILITY: value})",
            )
        for capability, value in provide.items():
            if capability not in promised:
                raise CapabilityError(
                    f"this run provides {capability.name}, which was not promised at startup",
                    hint="promise it: Host(provides=[CAPABILITY])",
                )
            lacking = capability.missing_members(value)
            if lacking:
                raise CapabilityError(
                    f"this run provides {capability.name} with a {type(value).__name__} that "
                    f"lacks {', '.join(lacking)}"
                )

    def wrap(self, agent: object, *, like: str = "default") -> Agent:
        """Return ``agent`` with the layers of the agent ``like`` around it, as an agent again.

        Its ``run(run_input)`` takes the place of the wrapped agent's. Raises :class:`StartupError`
        when the layers do not fit it, as one whose essential point it lacks.
        """
        source = adapt_agent(agent, "host.wrap(...)", type(agent).__name__)
        if isinstance(source, Problem):
            raise StartupError([source])
        return _Wrapped(self, source, like)

    # Making programs -------------------------------------------------------------------------
    def _program(self, agent: str, plan: Plan, source: AgentSource | None = None) -> Program:
        if self._lifespans is None:
            raise UsageError("this host has not been entered", hint="use `async with host:`")
        layers: list[ActiveLayer] = []
        may_read: dict[str, frozenset[Capability[Any]]] = {}
        for planned in plan.layers:
            layer = self._prepared.layers[agent, planned.id]
            declared = layer.declaration
            may_read[planned.id] = frozenset(
                (*declared.requires, *declared.optional_requires, *declared.provides)
            )
            layers.append(
                ActiveLayer(
                    id=planned.id,
                    cls=layer.cls,
                    facts=layer.facts,
                    settings=layer.settings,
                    shared=self._shared.get(layer.key),
                    declaration=declared,
                    on_failure="skip" if planned.on_failure == "skip" else "fail",
                    strict_observers=layer.config.on_failure == "fail",
                    deadline=layer.config.deadline,
                )
            )
        made_of = source or self._prepared.parts["agents", agent].part.target
        may_read[agent] = frozenset((*made_of.requires, *made_of.optional_requires))
        return Program(
            agent_id=agent,
            layers=tuple(layers),
            setup_order=plan.setup_order,
            make_agent=self._maker(agent, source),
            values=self._lifespans.values,
            may_read=may_read,
            clock=self._clock,
            tasks=self._tasks,
            ending_deadline=self._prepared.config.host.ending_deadline,
            max_concurrent=self._prepared.config.host.max_concurrent,
            strict=self._strict,
        )

    def _maker(self, agent: str, source: AgentSource | None) -> Callable[[], Agent]:
        if source is None and agent in self._host_agents:
            made = self._host_agents[agent]
            return lambda: made
        lifespans = self._lifespans
        if lifespans is None:
            raise UsageError("this host has not been entered", hint="use `async with host:`")
        ctx = LifespanContext(lifespans, agent)
        if source is not None:
            settings = source.settings_class()
            if source.scope == "host":
                one = source.make(settings, ctx)
                return lambda: one
            return lambda: source.make(settings, ctx)
        prepared = self._prepared.parts["agents", agent]
        configured: AgentSource = prepared.part.target
        return lambda: configured.make(prepared.settings, ctx)

    def _step(self, step: LifespanStep) -> Step:
        if step.part.kind == "layer":
            return self._layer_step(step)
        section = {"provider": "providers", "model": "models", "agent": "agents"}[step.part.kind]
        prepared = self._prepared.parts[section, step.part.id]
        target = prepared.part.target
        if step.part.kind == "provider":

            def enter(ctx: LifespanContext) -> Any:
                return target.lifespan(prepared.settings, ctx)

            keep: Callable[[Any], None] = _forget
        elif step.part.kind == "agent":

            def enter(ctx: LifespanContext) -> Any:
                return _making(lambda: target.make(prepared.settings, ctx))

            def keep(agent: Any) -> None:
                self._host_agents[step.part.id] = agent
        else:

            def enter(ctx: LifespanContext) -> Any:  # noqa: ARG001 - models have no lifespan yet
                return _making(lambda: None)

            keep = _forget
        return Step(
            part=step.part.id,
            label=f"{step.part} ({prepared.part.use})",
            enter=enter,
            keep=keep,
            provides=tuple(c for c in target.provides if c.scope == "host"),
            may_read=frozenset((*target.requires, *target.optional_requires)),
        )

    def _layer_step(self, step: LifespanStep) -> Step:
        layer = self._layer_of(step)

        def keep(shared: Any) -> None:
            self._shared[layer.key] = shared

        declared = layer.declaration
        return Step(
            part=step.part.id,
            label=f"{step.part} ({layer.part.use})",
            enter=lambda ctx: layer.cls.lifespan(layer.settings, ctx),
            keep=keep,
            provides=tuple(c for c in declared.provides if c.scope == "host"),
            may_read=frozenset((*declared.requires, *declared.optional_requires)),
        )

    def _layer_of(self, step: LifespanStep) -> PreparedLayer:
        agents = step.agents or tuple(self._prepared.plans)
        found = (self._prepared.layers.get((agent, step.part.id)) for agent in agents)
        return next(layer for layer in found if layer is not None)

    def __repr__(self) -> str:
        state = "running" if self._lifespans is not None else "resolved"
        return f"<Host {state}: {', '.join(self._prepared.plans)}>"


class _Wrapped:
    """What :meth:`Host.wrap` returns."""

    def __init__(self, host: Host, source: AgentSource, like: str) -> None:
        self._host = host
        self._source = source
        self._like = like
        self.points = source.points
        planned = replan(host._prepared, _candidate(source, like))  # noqa: SLF001 - its host's half
        problems = [p for p in planned.problems if p.severity == "error"]
        if problems or like not in planned.plans:
            host._check_agent(like)  # noqa: SLF001
            raise StartupError(problems)
        self._plan = planned.plans[like]
        self._program: Program | None = None

    def run(
        self, run_input: RunAgentInput, ctx: AgentContext | None = None, /
    ) -> AsyncIterator[BaseEvent]:
        """Play one run of the wrapped agent through the layers."""
        del ctx
        host = self._host
        if self._program is None:
            self._program = host._program(self._like, self._plan, self._source)  # noqa: SLF001
        run = host._run(  # noqa: SLF001
            self._program, run_input, provide={}, attributes={}, metadata={}
        )
        return aiter(run)


def _candidate(source: AgentSource, agent: str) -> Any:
    from interpose.startup.candidates import AgentCandidate

    return AgentCandidate(
        id=agent,
        use="host.wrap(...)",
        scope=source.scope,
        points=tuple(point.value for point in source.points),
        provides=refs(source.provides, "in-house"),
        requires=refs(source.requires, "in-house"),
        optional_requires=refs(source.optional_requires, "in-house"),
    )


def _layers(
    layers: Sequence[Layer | type[Middleware[Any, Any]]],
) -> tuple[Layer, ...]:
    for layer in layers:
        if not isinstance(layer, Layer | type):
            raise UsageError(
                f"layers holds a {type(layer).__name__}",
                hint="give middleware classes, @middleware functions, or Layer(Class, settings)",
            )
    return tuple(Layer.of(layer) for layer in layers)


def _agents(agent: object, agents: Mapping[str, object] | None) -> dict[str, object]:
    found = dict(agents or {})
    if agent is not None:
        if "default" in found:
            raise UsageError("agent= and agents['default'] are both given", hint="keep one")
        found["default"] = agent
    return found


def built_in_parts() -> tuple[RegisteredPart, ...]:
    """Return the parts that come with Interpose itself."""
    source = adapt_agent(Scripted, "", "scripted")
    if isinstance(source, Problem):
        raise StartupError([source])
    return (RegisteredPart("agent", "scripted", "scripted", source, distribution="interpose"),)


@asynccontextmanager
async def _making(make: Callable[[], Any]) -> AsyncIterator[Any]:
    yield make()


def _forget(_value: Any) -> None:
    """Keep nothing of what a lifespan yields."""
