"""``mcp.tools``: tools of MCP servers, each under a name with its server's id in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager

from ag_ui.core import BaseEvent, Tool
from mcp.types import Tool as McpTool

from interpose import LifespanContext, ToolResult
from interpose_mcp.calling import Outcome
from interpose_mcp.hub import Hub, hub
from interpose_mcp.layer import McpLayer
from interpose_mcp.routes import Route, declared, named
from interpose_mcp.settings import McpToolsSettings


class McpTools(McpLayer[McpToolsSettings]):
    """Give an agent the tools of MCP servers, as ``mcp__<server>__<tool>``."""

    @classmethod
    def lifespan(
        cls, settings: McpToolsSettings, ctx: LifespanContext, /
    ) -> AbstractAsyncContextManager[Hub]:
        """Keep listings, and the sessions that runs share."""
        return hub(settings, ctx)

    def named(
        self, found: Mapping[str, tuple[McpTool, ...]], taken: Collection[str]
    ) -> dict[str, Route]:
        """Give each tool a name of its own."""
        return named(found, taken)

    def shown(self, route: Route) -> Tool:
        """Return a tool as the model is shown it."""
        return declared(route)

    def failed(self, message: str) -> Outcome:
        """Return what a model is told of a call that came to nothing."""
        return Outcome(ToolResult(message, message))

    def following(self, *_: object) -> tuple[BaseEvent, ...]:
        """Return nothing: the result is all."""
        return ()
