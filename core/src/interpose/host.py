"""The host: the one imperative shell around resolution and runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ag_ui.core import Interrupt, RunAgentInput
from typing_extensions import TypeVar

from interpose.authoring import Agent, Layer, Middleware, Point
from interpose.capability import Capability
from interpose.errors import CapabilityError, Problem, StartupError, UsageError
from interpose.live import Live, wrapped_candidate
from interpose.logs import bound, quiet
from interpose.plan import Plan
from interpose.runtime.clock import SystemClock
from interpose.runtime.inputs import Answers, Asked, answering, settling, to_input
from interpose.runtime.output import wanted
from interpose.runtime.program import Program
from interpose.runtime.record import RunRecord
from interpose.runtime.run import Run
from interpose.runtime.sync import SyncHost
from interpose.runtime.tracing import Trace
from interpose.runtime.wrapped import WrappedAgent
from interpose.services import Clock, Wanted
from interpose.startup.adapting import adapt_agent
from interpose.startup.built_in import built_in_parts
from interpose.startup.files import find_files
from interpose.startup.hostmodel import ServerTable
from interpose.startup.lifecycle import call_started, call_stopped
from interpose.startup.prepared import Given, Prepared
from interpose.startup.preparing import prepare, replan

Out = TypeVar("Out", default=None)


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
        given = Given(
            folder=Path.cwd(),
            layers=given_layers(layers),
            agents=given_agents(agent, agents),
            provide=dict(provide or {}),
            provides=tuple(provides),
            overrides=dict(overrides or {}),
            built_in=built_in_parts(),
        )
        self._adopt(given, prepare(given), strict=strict, clock=clock)

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
        given = Given(
            folder=folder,
            files=given_files(path, overlays, variables, folder),
            environ=variables,
            layers=given_layers(layers),
            agents=given_agents(agent, agents),
            provide=dict(provide or {}),
            provides=tuple(provides),
            overrides=dict(overrides or {}),
            built_in=built_in_parts(),
        )
        return cls._of(given, prepare(given), strict=strict, clock=clock)

    @classmethod
    def _of(
        cls,
        given: Given,
        prepared: Prepared,
        *,
        strict: bool | None = None,
        clock: Clock | None = None,
    ) -> Self:
        host = cls.__new__(cls)
        host._adopt(given, prepared, strict=strict, clock=clock)  # noqa: SLF001 - a constructor
        return host

    def _adopt(
        self, given: Given, prepared: Prepared, *, strict: bool | None, clock: Clock | None
    ) -> None:
        _capabilities("provide", given.provide)
        _capabilities("provides", given.provides)
        self._given = given
        self._prepared = prepared
        self._strict = prepared.config.host.strict if strict is None else strict
        self._clock: Clock = clock or SystemClock()
        self._live: Live | None = None
        self._entering = False
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
        plans = self._prepared.plans
        if agent not in plans:
            raise UsageError(
                f"this host has no agent {agent!r}",
                hint=f"its agents are {', '.join(sorted(plans)) or 'none'}",
            )
        return plans[agent]

    @property
    def entered(self) -> bool:
        """Whether runs can begin: between ``async with host:`` and the end of the block."""
        return self._live is not None

    # Life ------------------------------------------------------------------------------------
    async def __aenter__(self) -> Self:
        if self._live is not None or self._entering:
            raise UsageError("this host has been entered already", hint="make another Host")
        self._entering = True
        try:
            live = Live(self._prepared, self._given, clock=self._clock, strict=self._strict)
            await live.start()
            self._live = live
        finally:
            self._entering = False
        for failure in call_started(self._prepared.catalogue.plugins, self):
            bound().error("{}", failure.message)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        live, self._live = self._live, None
        if live is None:
            return
        await live.stop()
        for failure in call_stopped(self._prepared.catalogue.plugins, self):
            bound().error("{}", failure.message)

    def _entered(self) -> Live:
        if self._live is None:
            raise UsageError(
                "this host has not been entered", hint="use `async with host:` around its runs"
            )
        return self._live

    def sync(self) -> SyncHost:
        """Return this host for use from threads: ``with host.sync() as h: h.run("hello")``."""
        return SyncHost(self)

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
        trace: Trace | None = None,
        pending: Sequence[Interrupt] | None = None,
        resume: Answers | None = None,
        output: type[Out] | None = None,
    ) -> Run[Out]:
        """Return a run of ``agent``; it begins when it is iterated or awaited.

        * ``asked``: a text, messages, or a whole ``RunAgentInput`` (model or decoded JSON).
        * ``thread_id``: the conversation; a new one unless given (or in the input).
        * ``provide``: values of the run-scope capabilities that ``Host(provides=...)`` promised.
        * ``attributes``, ``metadata``: see :class:`RunContext`.
        * ``trace``: records what each layer does.
        * ``pending``: the interrupts that the thread's last run ended with. Then ``resume`` of the
          input must settle each of them (one that has expired can only be cancelled); entries for
          others are ignored with a warning.
        * ``resume``: answers to the interrupts of the thread's last run, by their ids. ``asked`` is
          then the conversation so far (the result's ``messages``), ``thread_id`` its thread.
        * ``output``: the type of the structured output wanted: a pydantic model, a dataclass or a
          TypedDict. The result's ``output`` is one of them. Only for agents that offer MODEL.

        Raises :class:`UsageError` (host not entered, no such agent, no output to be had),
        :class:`InputError` (malformed input, unsettled interrupts), :class:`CapabilityError` (a
        promised capability is missing, or one is not promised).
        """
        self.plan(agent)
        return self._run(
            self._entered().programs[agent],
            asked,
            thread_id=thread_id,
            provide=provide or {},
            attributes=attributes or {},
            metadata=metadata or {},
            trace=trace,
            pending=pending,
            resume=resume,
            output=output,
        )

    def wrap(
        self,
        agent: object,
        *,
        like: str = "default",
        provide: Mapping[Capability[Any], Any] | None = None,
    ) -> Agent:
        """Return ``agent`` with the layers of the agent ``like`` around it, as an agent again.

        Its ``run(run_input)`` takes the place of the wrapped agent's; ``provide`` gives each of
        its runs what ``Host(provides=...)`` promised. Raises :class:`StartupError`
        when the layers do not fit it, as one whose essential point it lacks.
        """
        self.plan(like)
        source = adapt_agent(agent, "host.wrap(...)", type(agent).__name__)
        if isinstance(source, Problem):
            raise StartupError([source])
        planned = replan(self._prepared, wrapped_candidate(source, like))
        problems = [problem for problem in planned.problems if problem.severity == "error"]
        if problems:
            raise StartupError(problems)
        plan = planned.plans[like]

        made: list[tuple[Live, Program]] = []

        def open_run(run_input: RunAgentInput) -> Run:
            live = self._entered()
            if not made or made[0][0] is not live:
                made[:] = [(live, live.wrapped(plan, source))]
            return self._run(
                made[0][1], run_input, provide=provide or {}, attributes={}, metadata={}
            )

        return WrappedAgent(source.points, open_run)

    def _run(
        self,
        program: Program,
        asked: Asked,
        *,
        thread_id: str | None = None,
        provide: Mapping[Capability[Any], Any],
        attributes: Mapping[str, Any],
        metadata: Mapping[str, Any],
        trace: Trace | None = None,
        pending: Sequence[Interrupt] | None = None,
        resume: Answers | None = None,
        output: type[Out] | None = None,
    ) -> Run[Out]:
        run_input, warnings = to_input(asked, thread_id)
        if resume is not None:
            run_input = answering(run_input, resume)
        if pending is not None:
            run_input, unknown = settling(run_input, pending, self._clock.time())
            warnings = (*warnings, *unknown)
        self._check_provided(provide)
        record = RunRecord(
            program,
            run_input,
            clock=self._clock,
            provided=provide,
            attributes=attributes,
            metadata=metadata,
            open_runs=self._entered().open_runs,
            trace=trace,
            wanted=None if output is None else self._wanted(program, output),
        )
        for warning in warnings:
            record.log("host").warning("{}", warning)
        return Run(record)

    def _wanted(self, program: Program, output: Any) -> Wanted:
        if Point.MODEL not in program.points:
            raise UsageError(
                f"agent {program.agent_id!r} gives no structured output: it does not offer MODEL",
                hint='the built-in loop does: [agent] use = "loop"',
            )
        return wanted(output)

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

    def __repr__(self) -> str:
        state = "entered" if self._live is not None else "resolved"
        return f"<Host {state}: {', '.join(self._prepared.plans)}>"


def server_table(host: Host) -> ServerTable:
    """Return what the configuration says about serving the host."""
    return host._prepared.config.server  # noqa: SLF001 - the same module


def host_of(given: Given, prepared: Prepared) -> Host:
    """Make a host of a startup that has been gone through; the command line's door."""
    return Host._of(given, prepared)  # noqa: SLF001 - the same module


def given_files(
    path: str | os.PathLike[str] | None,
    overlays: Sequence[str | os.PathLike[str]],
    environ: Mapping[str, str],
    folder: Path,
) -> tuple[str, ...]:
    """Return the files to read. Raises :class:`StartupError` when there are none."""
    files = find_files(
        [*([] if path is None else [path]), *overlays], environ=environ, folder=folder
    )
    if files:
        return files
    raise StartupError(
        [
            Problem(
                "no-config",
                "There is no interpose.toml here, and no pyproject.toml with [tool.interpose].",
                (str(folder),),
                "Name a file, set INTERPOSE_CONFIG, or make an interpose.toml.",
            )
        ]
    )


def given_layers(layers: Sequence[Layer | type[Middleware[Any, Any]]]) -> tuple[Layer, ...]:
    """Return what was given as ``layers``. Raises :class:`UsageError` for what is none."""
    for layer in layers:
        if not isinstance(layer, Layer | type):
            raise UsageError(
                f"layers holds a {type(layer).__name__}",
                hint="give middleware classes, @middleware functions, or Layer(Class, settings)",
            )
    return tuple(Layer.of(layer) for layer in layers)


def _capabilities(argument: str, given: Iterable[object]) -> None:
    for item in given:
        if not isinstance(item, Capability):
            raise UsageError(
                f"Host({argument}=...) holds a {type(item).__name__}",
                hint="name capabilities by their objects, as PRINCIPAL",
            )


def given_agents(agent: object, agents: Mapping[str, object] | None) -> dict[str, object]:
    """Return the agents by id. Raises :class:`UsageError` when ``default`` is given twice."""
    found = dict(agents or {})
    if agent is not None:
        if "default" in found:
            raise UsageError("agent= and agents['default'] are both given", hint="keep one")
        found["default"] = agent
    return found
