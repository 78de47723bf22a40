"""Tools of MCP servers, and MCP Apps: the plugin ``mcp`` of Interpose.

Each name is loaded when it is first used: the SDK of MCP takes its time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from loguru import logger

if TYPE_CHECKING:
    from interpose_mcp.apps import MCP_APPS_ACTIVITY_TYPE as MCP_APPS_ACTIVITY_TYPE
    from interpose_mcp.apps import McpApps as McpApps
    from interpose_mcp.hashing import server_hash as server_hash
    from interpose_mcp.settings import McpAppsSettings as McpAppsSettings
    from interpose_mcp.settings import McpToolsSettings as McpToolsSettings
    from interpose_mcp.settings import ServerSettings as ServerSettings
    from interpose_mcp.tools import McpTools as McpTools

logger.disable(__name__)  # silent inside an application until that says otherwise

__all__ = [
    "MCP_APPS_ACTIVITY_TYPE",
    "McpApps",
    "McpAppsSettings",
    "McpTools",
    "McpToolsSettings",
    "ServerSettings",
    "server_hash",
]

_PLACES = {
    "MCP_APPS_ACTIVITY_TYPE": "apps",
    "McpApps": "apps",
    "McpAppsSettings": "settings",
    "McpTools": "tools",
    "McpToolsSettings": "settings",
    "ServerSettings": "settings",
    "server_hash": "hashing",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
