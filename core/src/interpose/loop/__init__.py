"""The built-in agent loop: a model and tools, with every point open to middlewares.

::

    from interpose.loop import LoopAgent, tool

    host = Host([Guard], agent=LoopAgent("scripted", [search], instructions="Be brief."))
"""

from __future__ import annotations

from interpose.loop.agent import LoopAgent
from interpose.loop.execution import ToolContext
from interpose.loop.limits import (
    Budget,
    LoopState,
    Strategy,
    combine,
    max_iterations,
    max_tool_calls,
    until_finish_reason,
)
from interpose.loop.script import Call, Turn
from interpose.loop.scripted import ScriptedModel
from interpose.loop.subagents import agent_tool
from interpose.loop.tools import LoopTool, client_tool, tool

__all__ = [
    "Budget",
    "Call",
    "LoopAgent",
    "LoopState",
    "LoopTool",
    "ScriptedModel",
    "Strategy",
    "ToolContext",
    "Turn",
    "agent_tool",
    "client_tool",
    "combine",
    "max_iterations",
    "max_tool_calls",
    "tool",
    "until_finish_reason",
]
