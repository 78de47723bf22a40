"""Tools of MCP servers, and MCP Apps: the plugin ``mcp`` of Interpose."""

from interpose_mcp.apps import MCP_APPS_ACTIVITY_TYPE, McpApps
from interpose_mcp.hashing import server_hash
from interpose_mcp.settings import McpAppsSettings, McpToolsSettings, ServerSettings
from interpose_mcp.tools import McpTools

__all__ = [
    "MCP_APPS_ACTIVITY_TYPE",
    "McpApps",
    "McpAppsSettings",
    "McpTools",
    "McpToolsSettings",
    "ServerSettings",
    "server_hash",
]
