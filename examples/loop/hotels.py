"""An MCP server; yours may be a program, or at an address."""

from mcp.server import MCPServer

server = MCPServer("hotels")


@server.tool()
def rooms(city: str) -> str:
    """Return which rooms are free in a city."""
    return f"In {city} there are two rooms: one with a view, one without."
