"""Hosts for tests: of layers given in code, and of an application's own file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from interpose.authoring import Layer, Middleware
from interpose.capability import Capability
from interpose.errors import UsageError
from interpose.host import Host, given_agents, given_files, given_layers
from interpose.runtime.inputs import Asked
from interpose.runtime.run import Run
from interpose.services import Clock
from interpose.startup.built_in import built_in_parts
from interpose.startup.discovery import Discovery
from interpose.startup.prepared import Given
from interpose.startup.preparing import prepare
from interpose.startup.tree import Reference

Layers = Sequence[Layer | type[Middleware[Any, Any]]]
Provided = Mapping[Capability[Any], Any]


class KitHost(Host):
    """A host for tests: each run is given the run-scope capabilities that the test provides."""

    run_values: Provided = MappingProxyType({})

    def run(self, asked: Asked, **options: Any) -> Run[Any]:
        """As ``Host.run``; ``provide`` adds to what the host was made with, or replaces it."""
        options["provide"] = {**self.run_values, **(options.get("provide") or {})}
        return super().run(asked, **options)


def make_host(
    layers: Layers = (),
    *,
    agent: object = None,
    agents: Mapping[str, object] | None = None,
    provide: Provided | None = None,
    overrides: Mapping[str, Any] | None = None,
    strict: bool = True,
    clock: Clock | None = None,
) -> KitHost:
    """Return a host of these layers that nothing outside the test reaches.

    No installed plugin is looked for, no file and no variable is read: what is not given here
    does not exist. ``provide``: values of capabilities; those of run scope are given to every run.
    ``strict``: the stream is verified after each layer, and a warning is an error.

    Raises :class:`StartupError`, as ``Host`` does.
    """
    given = Given(
        folder=Path.cwd(),
        layers=given_layers(layers),
        agents=given_agents(agent, agents),
        overrides=dict(overrides or {}),
        discover=lambda: Discovery(()),
        built_in=built_in_parts(),
    )
    return _host(given, provide or {}, strict=strict, clock=clock)


def app_host(
    path: str | os.PathLike[str] = "interpose.toml",
    *,
    overlays: Sequence[str | os.PathLike[str]] = (),
    agent: object = None,
    agents: Mapping[str, object] | None = None,
    layers: Layers = (),
    provide: Provided | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the word of the command line
    secrets: Literal["real", "fake"] = "real",
    environ: Mapping[str, str] | None = None,
    strict: bool | None = None,
    clock: Clock | None = None,
) -> KitHost:
    """Return the host of an application's own files, to test its chain as it is.

    * ``agent``, ``agents``: play in the place of the files' agents of the same id.
    * ``set``: overrides by their dotted keys, ``{"middleware.redact.action": "mask"}``.
    * ``secrets="fake"``: every ``$env`` and ``$file`` of the files gets a made-up value, so that a
      machine without the secrets can run the test.
    * ``environ``: the variables; none of the process's own, unless you give them.

    Raises :class:`StartupError` with every problem, as the real start would.
    """
    if secrets not in ("real", "fake"):
        raise UsageError(f'secrets is {secrets!r}; it is "real" or "fake"')
    folder = Path.cwd()
    variables = dict(environ or {})
    given = Given(
        folder=folder,
        files=given_files(path, overlays, variables, folder),
        environ=variables,
        layers=given_layers(layers),
        agents=given_agents(agent, agents),
        overrides=_nested(set or {}),
        built_in=built_in_parts(),
    )
    if secrets == "fake":
        given = replace(given, stand_in=_made_up)
    return _host(given, provide or {}, strict=strict, clock=clock)


def another(host: KitHost, *, strict: bool, clock: Clock) -> KitHost:
    """Return another host, which starts from what ``host`` has worked out already."""
    made = KitHost._of(host._given, host._prepared, strict=strict, clock=clock)  # noqa: SLF001 - a subclass
    made.run_values = host.run_values
    return made


def _host(given: Given, provide: Provided, *, strict: bool | None, clock: Clock | None) -> KitHost:
    of_host = {c: value for c, value in provide.items() if c.scope == "host"}
    of_runs = {c: value for c, value in provide.items() if c.scope == "run"}
    given = replace(given, provide=of_host, provides=tuple(of_runs))
    host = KitHost._of(given, prepare(given), strict=strict, clock=clock)  # noqa: SLF001 - a subclass
    host.run_values = of_runs
    return host


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{"a.b": 1}`` as ``{"a": {"b": 1}}``."""
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        *above, last = key.split(".")
        table = tree
        for name in above:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise UsageError(f"set gives {key!r}, and a value for a part of it, too")
        if last in table:
            raise UsageError(f"set gives {key!r} twice", hint="keep one")
        table[last] = value
    return tree


def _made_up(reference: Reference) -> str:
    return f"fake-{reference.target}"
