"""Startup as a whole: from what the caller gave to plans, with every problem at once.

Each phase works on what the phases before it could make out, so that one broken plugin or value
hides nothing else. Nothing is started here: no lifespan, no agent, no task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from interpose.authoring import Declaration, Layer
from interpose.errors import Problem, StartupError, described
from interpose.loop.factory import LoopSettings
from interpose.plan import SettingOrigin
from interpose.startup.adapting import AgentSource
from interpose.startup.application import check_application
from interpose.startup.candidates import AgentCandidate, Candidate, Choice, State
from interpose.startup.composition import compose
from interpose.startup.configuration import Configuration, gather
from interpose.startup.contributions import RegisteredPart
from interpose.startup.declaration_rules import declaration_faults
from interpose.startup.diagnosis import nested_layer
from interpose.startup.discovery import Discovery
from interpose.startup.facts import (
    agent_candidate,
    layer_candidate,
    offers,
    origins,
    part_candidate,
    refs,
)
from interpose.startup.files import Source, read_files
from interpose.startup.hostconfig import (
    HostConfig,
    LayerConfig,
    Named,
    UseConfig,
    settings_parts,
)
from interpose.startup.hostreading import read_host
from interpose.startup.inspection import class_declaration, inspect_middleware, settings_class
from interpose.startup.lifecycle import call_plan_resolved
from interpose.startup.loading import cause
from interpose.startup.loop_checks import check_loop
from interpose.startup.overrides import from_mapping, from_options
from interpose.startup.part import Part
from interpose.startup.planning import Configured, Planned, plan_agents
from interpose.startup.prepared import (
    Given,
    Prepared,
    PreparedLayer,
    PreparedPart,
    referenced,
    secrets_of,
)
from interpose.startup.registration import Catalogue, build_catalogue, in_house
from interpose.startup.secrecy import redact
from interpose.startup.tree import KeyPath
from interpose.startup.uses import SAY_SO, ObjectUse, Wanted, parse_use
from interpose.startup.wanted import KINDS, wanted

IN_CODE = "Host(layers=...)"
UNBOUND = "host.wrap(...)"
"""The ``use`` of the agent of a host that has none of its own."""


def prepare(given: Given) -> Prepared:
    """Go through all phases of startup. Raises :class:`StartupError` with every problem."""
    sources, problems = read_files(given.files, folder=given.folder)
    if problems:
        # Without one of the files, nothing that the others say can be judged.
        raise StartupError(problems)
    return _Preparation(given, sources).run()


class _Preparation:
    """The phases in order. Each adds to ``problems`` and goes on with what is left."""

    def __init__(self, given: Given, sources: Sequence[Source]) -> None:
        self.given = given
        self.problems: list[Problem] = []
        self.in_code = self._layers_in_code()
        self.configuration = self._gather(sources)
        self.config = self._read_host()
        self.agent_configs = self._agent_configs()

    def run(self) -> Prepared:
        """Go on from what is said to what is loaded, what it is set to, and what comes of it."""
        self.problems += check_application(self.given.provide, self.given.provides)
        self.catalogue = self._catalogue()
        self.parts = self._resolve()
        self.tables = self._tables()
        self.composition = compose(self.tables, self.configuration)
        self.problems += self.composition.problems
        self.layers = self._declare()
        self._check_loops()
        configured = self._configured()
        planned = self._plan(configured)
        problems = tuple(dict.fromkeys(self._scrubbed(problem) for problem in self.problems))
        if any(problem.severity == "error" for problem in problems):
            raise StartupError(problems)
        return Prepared(
            config=self.config,
            configuration=self.configuration,
            tables=self.tables,
            composition=self.composition,
            catalogue=self.catalogue,
            configured=configured,
            layers=self.layers,
            parts={
                use.path: PreparedPart(use, self.parts[use.path], self._settings(use))
                for use in self._uses()
            },
            plans=planned.plans,
            lifespan_order=planned.lifespan_order,
            warnings=problems,
        )

    def _scrubbed(self, problem: Problem) -> Problem:
        """Take out what came from ``$env`` or ``$file``, also where a key of the host quotes it."""
        secrets = secrets_of(self.composition) | referenced(self.config.composition)
        secrets |= referenced(self.composition)
        if not secrets:
            return problem
        return replace(
            problem,
            message=redact(problem.message, secrets),
            where=tuple(redact(place, secrets) for place in problem.where),
            hint=redact(problem.hint, secrets),
        )

    # What is said ----------------------------------------------------------------------------
    def _layers_in_code(self) -> dict[str, Layer]:
        found: dict[str, Layer] = {}
        for layer in self.given.layers:
            if layer.id in found:
                self.problems.append(
                    Problem(
                        "duplicate-layer",
                        f'Two layers given in code have the id "{layer.id}".',
                        (IN_CODE,),
                        'Give one of them another: Layer(..., id="...").',
                    )
                )
            found[layer.id] = layer
        return found

    def _gather(self, sources: Sequence[Source]) -> Configuration:
        given = self.given
        options, bad_options = from_options(given.options, folder=given.folder)
        self.problems += bad_options
        code = {"middleware": {layer.id: _table(layer) for layer in self.in_code.values()}}
        overrides = [from_mapping(given.overrides, name="Host(overrides=...)", folder=given.folder)]
        configuration, problems = gather(
            [*sources, from_mapping(code, name=IN_CODE, folder=given.folder)]
            if self.in_code
            else sources,
            [*overrides, *options] if given.overrides else options,
            environ=given.environ,
        )
        self.problems += problems
        return replace(configuration, stand_in=given.stand_in)

    def _read_host(self) -> HostConfig:
        config, problems = read_host(self.configuration, agents=tuple(self.given.agents))
        self.problems += problems
        return config

    def _agent_configs(self) -> tuple[UseConfig, ...]:
        configured = [a for a in self.config.agents if a.id not in self.given.agents]
        in_code = [
            UseConfig("agents", agent, Named(f"Host(agents={agent})", ""), "Host(agent=...)")
            for agent in self.given.agents
        ]
        found = (*configured, *in_code)
        return found or (UseConfig("agents", "default", Named(UNBOUND, ""), ""),)

    def _uses(self) -> tuple[UseConfig, ...]:
        return (*self.agent_configs, *self.config.providers, *self.config.models)

    # What is loaded --------------------------------------------------------------------------
    def _wanted(self) -> list[Wanted]:
        return wanted(
            self.config,
            [use for use in self.agent_configs if use.use.name != UNBOUND],
            layers_in_code=self.in_code,
            agents_in_code=self.given.agents,
        )

    def _is_on(self, layer: LayerConfig) -> bool:
        return any(layer.is_on(agent.id) for agent in self.agent_configs)

    def _is_in_code(self, use: UseConfig) -> bool:
        return use.section == "agents" and use.id in self.given.agents

    def _catalogue(self) -> Catalogue:
        uses = self._wanted()
        own = {(part.kind, part.name) for part in self.given.built_in}
        installed = any(
            not isinstance(parse_use(want.use), ObjectUse) and (want.kind, want.use) not in own
            for want in uses
        )
        discovery = self.given.discover() if installed else Discovery(())
        catalogue = build_catalogue(discovery, uses, built_in=self.given.built_in)
        self.problems += catalogue.problems
        return catalogue

    def _resolve(self) -> dict[KeyPath, RegisteredPart]:
        """Find the class behind each table that is on."""
        found = {
            layer.path: self._middleware(layer)
            for layer in self.config.layers
            if self._is_on(layer)
        }
        found |= {use.path: self._used(use) for use in self._uses()}
        self.problems += (part for part in found.values() if isinstance(part, Problem))
        return {path: part for path, part in found.items() if not isinstance(part, Problem)}

    def _middleware(self, layer: LayerConfig) -> RegisteredPart | Problem:
        in_code = self.in_code.get(layer.id)
        if in_code is not None:
            return in_house(in_code.use, "middleware", _described(in_code.use), IN_CODE)
        found = self.catalogue.resolve(
            layer.use.name,
            "middleware",
            layer.use.place or layer.place,
            required=layer.required,
        )
        if not isinstance(found, Problem) or found.code != "unknown-use" or SAY_SO in found.hint:
            return found
        nested = self._nested(layer)
        if nested is not None:
            hint = nested_layer(layer.id, nested.name, self.configuration.named)
            where = tuple(dict.fromkeys((*found.where, nested.place)))
            return replace(found, where=where, hint=hint)
        return found

    def _nested(self, layer: LayerConfig) -> Any:
        """Return the table in a layer's table that is named as a middleware of its plugin.

        Of a plugin that is not installed nobody knows its middlewares: then the first.
        """
        plugin = layer.use.name.partition("@")[0].partition(".")[0]
        known = any(entry.id == plugin for entry in self.catalogue.active)
        for table in layer.tables:
            meant = self.catalogue.resolve(f"{plugin}.{table.name}", "middleware", table.place)
            if not (known and isinstance(meant, Problem)):
                return table
        return None

    def _used(self, use: UseConfig) -> RegisteredPart | Problem:
        if self._is_in_code(use):
            agent = self.given.agents[use.id]
            return in_house(agent, "agent", _described(agent), "Host(agent=...)")
        if use.use.name == UNBOUND:
            source = AgentSource(make=_unbound, scope="run")
            return RegisteredPart("agent", UNBOUND, UNBOUND, source)
        return self.catalogue.resolve(
            use.use.name,
            KINDS[use.section],
            use.use.place or use.place,
            is_stated=bool(use.use.place),
        )

    # What it is set to -----------------------------------------------------------------------
    def _tables(self) -> tuple[Part, ...]:
        models = {
            layer.id: settings_class(self.parts[layer.path].target)
            for layer in self.config.layers
            if layer.path in self.parts
        }
        agents = [agent.id for agent in self.agent_configs]
        tables = [self._with_given(part) for part in settings_parts(self.config, agents, models)]
        tables += [
            Part(use.path, _settings_model(self.parts[use.path]), title=self.parts[use.path].name)
            for use in self._uses()
            if use.path in self.parts and not self._is_in_code(use)
        ]
        return tuple(tables)

    def _with_given(self, part: Part) -> Part:
        layer = str(part.path[-1])
        in_code = self.in_code.get(layer)
        settings = None if in_code is None else in_code.settings
        title = self.parts["middleware", layer].name
        given = settings if isinstance(settings, BaseModel) else None
        if given is not None and not isinstance(given, part.model):
            self.problems.append(
                Problem(
                    "invalid-setting",
                    f"layer {layer} is given {type(given).__name__}; {title} takes "
                    f"{part.model.__name__}.",
                    (IN_CODE,),
                    f"Give it {part.model.__name__}(...), or a mapping.",
                )
            )
            given = None
        return replace(part, title=title, given=given)

    def _settings(self, use: UseConfig) -> BaseModel:
        found = self.composition.settings.get(use.path)
        return _settings_model(self.parts[use.path])() if found is None else found

    def _declare(self) -> dict[tuple[str, str], PreparedLayer]:
        layers: dict[tuple[str, str], PreparedLayer] = {}
        for agent in self.agent_configs:
            for config in self.config.layers:
                part = self.parts.get(config.path)
                key = config.settings_path(agent.id)
                settings = self.composition.settings.get(key)
                if part is None or settings is None or not config.is_on(agent.id):
                    continue
                declaration = self._declaration(config, part, settings)
                if declaration is not None:
                    facts = inspect_middleware(part.target)
                    layers[agent.id, config.id] = PreparedLayer(
                        config, part, facts, settings, declaration, key
                    )
        return layers

    def _check_loops(self) -> None:
        for use in self.agent_configs:
            settings = self.composition.settings.get(use.path)
            if isinstance(settings, LoopSettings):
                models = [model.id for model in self.config.models]
                places = {each.name: each.origin for each in self._origins(use.path)}
                self.problems += check_loop(settings, models, places)

    def _declaration(
        self, config: LayerConfig, part: RegisteredPart, settings: BaseModel
    ) -> Declaration | None:
        try:
            declared = part.target.declare(settings)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
            quoted = redact(cause(error), secrets_of(self.composition))
            said = f"declare of {part.name} failed: {quoted}"
        else:
            if isinstance(declared, Declaration):
                faults = tuple(declaration_faults(declared))
                if not faults:
                    return declared
                said = f"declare of {part.name} returned what cannot be: {'; '.join(faults)}"
            else:
                said = f"declare of {part.name} returned {described(declared)}"
        where = tuple(filter(None, (config.place, part.distribution)))
        hint = "It must return a Declaration for any valid settings; tell its authors."
        self.problems.append(Problem("failed-declare", f"{said}.", where, hint))
        return None

    # What comes of it ------------------------------------------------------------------------
    def _configured(self) -> Configured:
        base: list[Candidate] = []
        variants: dict[tuple[str, str], Candidate] = {}
        for index, config in enumerate(self.config.layers):
            found = {
                agent.id: self._candidate(config, index, agent.id) for agent in self.agent_configs
            }
            serving = [agent for agent in found if config.serves(agent)] or [*found]
            base.append(found[serving[0]])
            variants |= {(agent, config.id): item for agent, item in found.items()}
        uses = (*self.config.providers, *self.config.models)
        return Configured(
            agents=tuple(
                agent_candidate(use, index, self.parts[use.path], self._origins(use.path))
                for index, use in enumerate(self.agent_configs)
                if use.path in self.parts
            ),
            layers=tuple(base),
            variants=variants,
            parts=tuple(
                part_candidate(use, index, self.parts[use.path], self._origins(use.path))
                for index, use in enumerate(uses)
                if use.path in self.parts
            ),
            inactive=tuple(use.id for use in uses if use.path not in self.parts),
            application=refs((*self.given.provide, *self.given.provides), "the application"),
            assume_application=self.given.assume_application,
            choices=tuple(
                Choice(name, named.name, named.place)
                for name, named in self.config.capabilities.items()
            ),
            offers=offers(self.catalogue.discovery),
        )

    def _candidate(self, config: LayerConfig, index: int, agent: str) -> Candidate:
        layer = self.layers.get((agent, config.id))
        part = self.parts.get(config.path)
        declared = None if layer is None else (layer.facts, layer.declaration)
        if layer is None and part is not None and config.is_on(agent):
            # Its settings are not valid, but what the class says does not depend on them.
            declared = class_declaration(part.target)
        state: State = "on" if declared else "failed" if config.is_on(agent) else "off"
        key = config.settings_path(agent)
        return layer_candidate(
            config,
            index,
            state=state,
            part=part,
            declared=declared,
            settings=self._origins(key, config.path),
            key=key,
        )

    def _origins(self, path: KeyPath, owner: KeyPath | None = None) -> tuple[SettingOrigin, ...]:
        part = self.parts.get(owner or path)
        if part is None:
            return ()
        return origins(_settings_model(part), self.composition.trees.get(path))

    def _plan(self, configured: Configured) -> Planned:
        planned = plan_agents(configured)
        if any(p.code == "missing-capability" for p in planned.problems) and not configured.offers:
            # Only now is it worth knowing what else is installed.
            could = offers(self.given.discover())
            planned = plan_agents(replace(configured, offers=could))
        self.problems += planned.problems
        for plan in planned.plans.values():
            self.problems += call_plan_resolved(self.catalogue.plugins, plan)
        return planned


def replan(prepared: Prepared, agent: AgentCandidate) -> Planned:
    """Plan again with ``agent`` in the place of the one with its id, for ``host.wrap``."""
    others = [each for each in prepared.configured.agents if each.id != agent.id]
    return plan_agents(replace(prepared.configured, agents=(*others, agent)))


def _table(layer: Layer) -> dict[str, Any]:
    """Write a layer given in code as the table that it would be in a file."""
    options: dict[str, Any] = {"required": layer.required}
    for name in ("before", "after", "agents"):
        value = getattr(layer, name)
        if value:
            options[name] = list(value)
    for name in ("stage", "on_failure", "deadline"):
        value = getattr(layer, name)
        if value is not None:
            options[name] = str(value) if name == "stage" else value
    settings = layer.settings if isinstance(layer.settings, Mapping) else {}
    return {**settings, "use": _described(layer.use), "enabled": layer.enabled, "layer": options}


def _described(value: object) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{getattr(named, '__qualname__', '?')}"


def _settings_model(part: RegisteredPart) -> type[BaseModel]:
    if part.kind == "agent":
        source: AgentSource = part.target
        return source.settings_class
    return settings_class(part.target)


def _unbound(_settings: object, _ctx: object) -> Any:
    raise StartupError(
        [Problem("no-agent", "This host has no agent of its own.", hint="Use host.wrap(agent).")]
    )
