"""The parts that come with Interpose itself."""

from __future__ import annotations

from interpose.agents.scripted import Scripted
from interpose.errors import Problem, StartupError
from interpose.startup.adapting import adapt_agent
from interpose.startup.contributions import RegisteredPart


def built_in_parts() -> tuple[RegisteredPart, ...]:
    """Return what ``use`` can name without any plugin."""
    source = adapt_agent(Scripted, "", "scripted")
    if isinstance(source, Problem):
        raise StartupError([source])
    return (RegisteredPart("agent", "scripted", "scripted", source, distribution="interpose"),)
