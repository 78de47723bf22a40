"""What the entry point names: the hooks of the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interpose import Middleware, hookimpl
from interpose_mcp.apps import McpApps
from interpose_mcp.tools import McpTools


@hookimpl
def interpose_middlewares() -> Mapping[str, type[Middleware[Any, Any]]]:
    """Offer ``use = "mcp.tools"`` and ``use = "mcp.apps"``."""
    return {"tools": McpTools, "apps": McpApps}
