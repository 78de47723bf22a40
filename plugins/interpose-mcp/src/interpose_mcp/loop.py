"""A tool of a server as a tool of the built-in loop; imported where there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ag_ui.core import Tool

from interpose import ResolvedTool
from interpose.loop import ToolContext


def resolved(
    tool: Tool, call: Callable[[ToolContext, dict[str, Any]], Awaitable[Any]]
) -> ResolvedTool:
    """Return the tool with what runs its calls.

    What a server says about the effects of its tools is not trusted: each may write.
    """

    async def run(_interpose_context: ToolContext, **arguments: Any) -> Any:
        return await call(_interpose_context, arguments)

    return ResolvedTool(tool, run)
