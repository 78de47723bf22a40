"""The hooks of a plugin: called by the host at startup and for its lifecycle, never per event.

Implement them in a module or an object that an entry point of group ``interpose`` names, each
marked with :data:`hookimpl`. All of them are plain functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pluggy

if TYPE_CHECKING:
    from interpose.authoring import AgentFactory, Middleware, Provider
    from interpose.host import Host
    from interpose.model import ModelFactory
    from interpose.plan import Plan

PROJECT: Final = "interpose"

hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)
"""The decorator for the functions below in a plugin."""


@hookspec
def interpose_middlewares() -> Mapping[str, type[Middleware[Any, Any]]]:  # type: ignore[empty-body]
    """Return the plugin's middlewares by key.

    The key that equals the plugin's id is ``use = "<plugin>"``, any other ``"<plugin>.<key>"``.
    """


@hookspec
def interpose_providers() -> Mapping[str, type[Provider[Any]]]:  # type: ignore[empty-body]
    """Return the plugin's providers of capabilities, likewise."""


@hookspec
def interpose_agents() -> Mapping[str, type[AgentFactory[Any]]]:  # type: ignore[empty-body]
    """Return the plugin's agents, likewise."""


@hookspec
def interpose_models() -> Mapping[str, type[ModelFactory[Any]]]:  # type: ignore[empty-body]
    """Return the plugin's models, likewise."""


@hookspec
def interpose_plan_resolved(plan: Plan) -> None:
    """Look at an agent's plan, or veto it by raising; once per agent, before anything starts."""


@hookspec
def interpose_host_started(host: Host) -> None:
    """Act when all lifespans have started."""


@hookspec
def interpose_host_stopped(host: Host) -> None:
    """Act when all lifespans have ended."""
