"""Calling the lifecycle hooks of plugins.

Not through pluggy's own call: there the first exception keeps the others from being called, the
last plugin comes first, and nobody knows who answered.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

from interpose.errors import Problem
from interpose.startup.loading import cause

if TYPE_CHECKING:
    from interpose.host import Host
    from interpose.plan import Plan


def call_plan_resolved(plugins: pluggy.PluginManager, plan: Plan) -> tuple[Problem, ...]:
    """Show ``plan`` to every plugin, those with layers first, outermost first.

    A plugin vetoes by raising; every plugin is asked, and each veto is a problem.
    """
    positions: dict[str, int] = {}
    for layer in plan.layers:
        positions.setdefault(layer.middleware.partition(".")[0], layer.position)
    implementations = sorted(
        plugins.hook.interpose_plan_resolved.get_hookimpls(),
        key=lambda found: positions.get(found.plugin_name.partition("@")[0], len(plan.layers) + 1),
    )
    return _call(
        implementations,
        plan,
        "plan-vetoed",
        f'{{plugin}} refuses the plan of agent "{plan.agent.ref.id}": {{cause}}.',
        "Change the configuration as it says, or take the plugin out of it.",
    )


def call_started(plugins: pluggy.PluginManager, host: Host) -> tuple[Problem, ...]:
    """Tell every plugin that the host has started; an exception stops none of the others."""
    return _call(
        plugins.hook.interpose_host_started.get_hookimpls(),
        host,
        "failed-hook",
        "{plugin} failed in interpose_host_started: {cause}.",
    )


def call_stopped(plugins: pluggy.PluginManager, host: Host) -> tuple[Problem, ...]:
    """Tell every plugin, the last one first, that the host has stopped; likewise."""
    return _call(
        plugins.hook.interpose_host_stopped.get_hookimpls()[::-1],
        host,
        "failed-hook",
        "{plugin} failed in interpose_host_stopped: {cause}.",
    )


def _call(
    implementations: Iterable[pluggy.HookImpl],
    argument: Any,
    code: str,
    message: str,
    hint: str = "",
) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    for implementation in implementations:
        entry: Any = getattr(implementation.plugin, "entry", implementation.plugin_name)
        arguments: Sequence[Any] = (argument,) * len(implementation.argnames)
        try:
            answer = implementation.function(*arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
            said = cause(error)
        else:
            if not inspect.iscoroutine(answer):
                continue
            answer.close()
            said = "it returned a coroutine, but hooks of a plugin are called synchronously"
        text = message.format(plugin=entry, cause=said)
        problems.append(Problem(code, text, hint=hint or "Tell the authors of the plugin."))
    return tuple(problems)
