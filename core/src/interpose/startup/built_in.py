"""The parts that come with Interpose itself."""

from __future__ import annotations

from interpose.agents.remote import Remote
from interpose.agents.scripted import Scripted
from interpose.errors import Problem, StartupError
from interpose.loop.factory import Loop
from interpose.loop.scripted import Scripted as ScriptedModels
from interpose.startup.adapting import adapt_agent
from interpose.startup.contributions import RegisteredPart

_AGENTS = {"loop": Loop, "scripted": Scripted, "remote": Remote}


def built_in_parts() -> tuple[RegisteredPart, ...]:
    """Return what ``use`` can name without any plugin."""
    parts: list[RegisteredPart] = []
    for name, factory in _AGENTS.items():
        source = adapt_agent(factory, "", name)
        if isinstance(source, Problem):
            raise StartupError([source])
        parts.append(RegisteredPart("agent", name, name, source, distribution="interpose"))
    scripted = RegisteredPart(
        "model", "scripted", "scripted", ScriptedModels, distribution="interpose"
    )
    return (*parts, scripted)
