"""What exists only while a host is entered: lifespans, shared values, programs, open runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from inspect import isawaitable
from pathlib import Path
from secrets import token_bytes
from typing import Any

from interpose.authoring import Agent, Point
from interpose.capability import Capability
from interpose.context import LifespanContext
from interpose.errors import InvalidModel, UsageError, described
from interpose.logs import bound, cause
from interpose.loop.scripted import ScriptedModel
from interpose.model import Model
from interpose.plan import LifespanStep, Plan
from interpose.runtime.closing import close
from interpose.runtime.layer import ActiveLayer
from interpose.runtime.lifespans import Lifespans, Step
from interpose.runtime.open_runs import OpenRuns
from interpose.runtime.program import Program, history_cut
from interpose.runtime.segment import compile_segments
from interpose.runtime.tasks import HostTasks
from interpose.services import Clock
from interpose.startup.adapting import AgentSource
from interpose.startup.candidates import AgentCandidate
from interpose.startup.facts import refs
from interpose.startup.prepared import Given, Prepared, PreparedLayer, PreparedPart
from interpose.startup.tree import KeyPath

_SECTIONS = {"provider": "providers", "model": "models", "agent": "agents"}


class Live:
    """A host between ``__aenter__`` and ``__aexit__``. ``programs``: by agent id."""

    def __init__(self, prepared: Prepared, given: Given, *, clock: Clock, strict: bool) -> None:
        self.programs: dict[str, Program] = {}
        self.open_runs = OpenRuns(prepared.config.host.max_concurrent)
        self._prepared = prepared
        self._clock = clock
        self._strict = strict
        self._tasks = HostTasks()
        self._shared: dict[KeyPath, Any] = {}
        self._agents: dict[str, Agent] = {}
        self._models: dict[str, Model] = {}
        key = prepared.config.host.signing_key
        self._signing_key = token_bytes(32) if key is None else key.get_secret_value().encode()
        self._wrapped: list[Agent] = []
        """What was made for ``host.wrap``, and no lifespan closes."""
        table = prepared.config.host
        self._ending_deadline = table.ending_deadline
        self._lifespans = Lifespans(
            clock=clock,
            folder=_folder(given),
            provided=given.provide,
            startup_deadline=table.startup_deadline,
            ending_deadline=table.ending_deadline,
            scrub=prepared.scrub,
        )

    async def start(self) -> None:
        """Start all lifespans. Raises :class:`StartupError`; then nothing is left running."""
        await self._lifespans.start([self._step(step) for step in self._prepared.lifespan_order])
        for agent, plan in self._prepared.plans.items():
            source = self._part("agents", agent).part.target
            self.programs[agent] = self._program(agent, plan, source, self._maker(agent))

    async def stop(self) -> None:
        """Cancel the runs that are open, wait for the host's tasks, and leave the lifespans."""
        self.open_runs.stop()
        try:
            await self._close_runs()
            await self._tasks.drain(self._ending_deadline)
        finally:
            try:
                await self._close_wrapped()
            finally:
                await self._lifespans.stop()

    async def _close_wrapped(self) -> None:
        for agent in self._wrapped:
            try:
                async with asyncio.timeout(self._ending_deadline):
                    await _close(agent)
            except Exception as error:  # noqa: BLE001 - an agent may raise anything
                said = self._prepared.scrub(cause(error))
                bound().error("an agent given to host.wrap did not stop well ({})", said)

    async def _close_runs(self) -> None:
        for record in self.open_runs:
            record.cancel("the host stops")
            stream = None if record.stream is None else record.stream()
            if stream is not None and record.is_left_alone and not stream.ag_running:
                await close(record, stream, f"run {record.run_id!r}")
        await self._until_closed()
        for record in self.open_runs:
            record.force()
        await self._until_closed()

    async def _until_closed(self) -> None:
        """Wait until all runs are closed, or the ending deadline is over."""
        closing = [asyncio.ensure_future(record.wait_closed()) for record in self.open_runs]
        if not closing:
            return
        try:
            await asyncio.wait(closing, timeout=self._ending_deadline)
        finally:
            for each in closing:
                each.cancel()

    def wrapped(self, plan: Plan, source: AgentSource) -> Program:
        """Return a program for an agent that was given to ``host.wrap``."""
        agent = plan.agent.ref.id
        make = _making_of(source, source.settings_class(), self._context(agent))
        if source.scope == "host" and not source.given:
            self._wrapped.append(make())
        return self._program(agent, plan, source, make)

    # Programs --------------------------------------------------------------------------------
    def _program(
        self, agent: str, plan: Plan, source: AgentSource, make: Callable[[], Agent]
    ) -> Program:
        layers = [self._prepared.layers[agent, planned.id] for planned in plan.layers]
        may_read = {layer.config.id: _declared(layer) for layer in layers}
        may_read[agent] = frozenset((*source.requires, *source.optional_requires))
        for section, model in self._prepared.parts:
            if section == "models":
                target = self._part("models", str(model)).part.target
                read = frozenset((*target.requires, *target.optional_requires))
                may_read[str(model)] = may_read.get(str(model), frozenset()) | read
        host = self._prepared.config.host
        active = tuple(
            self._active(layer, planned.on_failure)
            for layer, planned in zip(layers, plan.layers, strict=True)
        )
        cut = history_cut(active, offered=Point.HISTORY in source.points)
        return Program(
            agent_id=agent,
            layers=active,
            points=source.points,
            history_cut=cut,
            segments=compile_segments(active[:cut], f"agent {agent}"),
            setup_order=plan.setup_order,
            make_agent=make,
            values=self._lifespans.values,
            may_read=may_read,
            clock=self._clock,
            tasks=self._tasks,
            ending_deadline=host.ending_deadline,
            scrub=self._prepared.scrub,
            strict=self._strict,
            make_models=self._make_models(),
            signing_key=self._signing_key,
            has_lasting_key=self._prepared.config.host.signing_key is not None,
        )

    def _make_models(self) -> dict[str, Callable[[], Model]]:
        # The scripted model needs no table; one of the file goes before it.
        found: dict[str, Callable[[], Model]] = {"scripted": ScriptedModel}
        for section, model in self._prepared.parts:
            if section == "models":
                found[str(model)] = self._model_maker(str(model))
        return found

    def _model_maker(self, model: str) -> Callable[[], Model]:
        made = self._models.get(model)
        if made is not None:
            return lambda: made
        prepared = self._part("models", model)
        return partial(_make_model, model, prepared, self._context(model))

    def _active(self, layer: PreparedLayer, on_failure: str) -> ActiveLayer:
        return ActiveLayer(
            id=layer.config.id,
            cls=layer.cls,
            facts=layer.facts,
            settings=layer.settings,
            shared=self._shared.get(layer.key),
            declaration=layer.declaration,
            on_failure="skip" if on_failure == "skip" else "fail",
            strict_observers=layer.config.on_failure == "fail",
            deadline=layer.config.deadline,
        )

    def _maker(self, agent: str) -> Callable[[], Agent]:
        made = self._agents.get(agent)
        if made is not None:
            return lambda: made
        prepared = self._part("agents", agent)
        return _making_of(prepared.part.target, prepared.settings, self._context(agent))

    def _context(self, agent: str) -> LifespanContext:
        return LifespanContext(self._lifespans, agent)

    def _part(self, section: str, part: str) -> PreparedPart:
        return self._prepared.parts[section, part]

    # Lifespans -------------------------------------------------------------------------------
    def _step(self, step: LifespanStep) -> Step:
        if step.part.kind == "layer":
            return self._layer_step(step)
        prepared = self._part(_SECTIONS[step.part.kind], step.part.id)
        target = prepared.part.target

        def enter(ctx: LifespanContext) -> AbstractAsyncContextManager[Any]:
            if step.part.kind == "provider":
                return target.lifespan(prepared.settings, ctx)  # type: ignore[no-any-return]
            if step.part.kind == "agent":
                return _made(lambda: target.make(prepared.settings, ctx), keep=target.given)
            return _made(lambda: _make_model(step.part.id, prepared, ctx), keep=False)

        def keep(value: Any) -> None:
            if step.part.kind == "agent":
                self._agents[step.part.id] = value
            elif step.part.kind == "model":
                self._models[step.part.id] = value

        return Step(
            part=step.part.id,
            label=f"{step.part} ({prepared.part.use})",
            enter=enter,
            keep=keep,
            provides=tuple(c for c in target.provides if c.scope == "host"),
            may_read=frozenset((*target.requires, *target.optional_requires)),
        )

    def _layer_step(self, step: LifespanStep) -> Step:
        agents = step.agents or tuple(self._prepared.plans)
        found = (self._prepared.layers.get((agent, step.part.id)) for agent in agents)
        layer = next(each for each in found if each is not None)

        def keep(shared: Any) -> None:
            self._shared[layer.key] = shared

        return Step(
            part=step.part.id,
            label=f"{step.part} ({layer.part.use})",
            enter=lambda ctx: layer.cls.lifespan(layer.settings, ctx),
            keep=keep,
            provides=tuple(c for c in layer.declaration.provides if c.scope == "host"),
            may_read=_declared(layer),
        )


def _make_model(model: str, prepared: PreparedPart, ctx: LifespanContext) -> Model:
    place = prepared.config.use.place or prepared.config.place
    where = (place,) if place else ()
    try:
        made = prepared.part.target()(prepared.settings, ctx)
    except UsageError as error:
        raise InvalidModel(error.message, where=(*where, *error.where), hint=error.hint) from error
    if not callable(getattr(made, "stream", None)):
        raise InvalidModel(
            f"[models.{model}] gave {described(made)}, which is no model",
            where=where,
            hint="a model has `stream(self, request, ctx)` that yields AG-UI events",
        )
    return made  # type: ignore[no-any-return]


def wrapped_candidate(source: AgentSource, agent: str) -> AgentCandidate:
    """Return an agent given to ``host.wrap`` as resolution sees it."""
    return AgentCandidate(
        id=agent,
        use="host.wrap(...)",
        scope=source.scope,
        points=tuple(point.value for point in source.points),
        provides=refs(source.provides, "in-house"),
        requires=refs(source.requires, "in-house"),
        optional_requires=refs(source.optional_requires, "in-house"),
    )


def _declared(layer: PreparedLayer) -> frozenset[Capability[Any]]:
    declared = layer.declaration
    return frozenset((*declared.requires, *declared.optional_requires, *declared.provides))


def _making_of(source: AgentSource, settings: Any, ctx: LifespanContext) -> Callable[[], Agent]:
    if source.scope == "run":
        return lambda: source.make(settings, ctx)
    made = source.make(settings, ctx)
    return lambda: made


def _folder(given: Given) -> Path:
    return (given.folder / given.files[0]).parent if given.files else given.folder


@asynccontextmanager
async def _made(make: Callable[[], Any], *, keep: bool) -> AsyncIterator[Any]:
    """Yield what is made, and close it if it can be; not what is to be kept as it is."""
    made = make()
    try:
        yield made
    finally:
        if not keep:
            await _close(made)


async def _close(agent: Any) -> None:
    """Call the ``aclose`` of an agent or a model that has one; it may be ``async def`` or not."""
    aclose = getattr(agent, "aclose", None)
    if callable(aclose):
        closing = aclose()
        if isawaitable(closing):
            await closing
