"""The tools of the Python MCP server of the tests, for use in a process of its own or in this one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.apps import Apps, ResourceCsp
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resources import TextResource
from mcp_serving import Log
from mcp_types import CallToolResult, TextContent

CLOCK = "ui://clock/app.html"
LEGACY = "ui://clock/legacy.html"
PAGE = "<!doctype html><title>Clock</title><p id=now>12:00</p>"
NOTES = "notes://today"
TIME = "12:00"
PRIVATE = "private: s3cret"
"""What no client is to see: the text of an unexpected exception."""


def session_of(ctx: Context) -> str:
    """Return the id of the session that a call belongs to, or nothing where there is none."""
    request: Any = ctx.request_context.request
    if request is None or ctx.headers is None:
        return ""
    return str(ctx.headers.get("mcp-session-id") or request.query_params.get("session_id", ""))


async def announce_changes(
    ctx: ServerRequestContext[Any, Any], call_next: CallNext
) -> HandlerResult:
    """Say in the handshake that the list of tools may change, which the server does not of itself."""
    result = await call_next(ctx)
    if ctx.method == "initialize" and isinstance(result, dict):
        result["capabilities"]["tools"]["listChanged"] = True
    return result


def clock_apps() -> Apps:
    """Return the tools that have a page, and the page."""
    apps = Apps()

    @apps.tool(resource_uri=CLOCK, visibility=["model", "app"])
    def clock(zone: str = "UTC") -> str:
        """Tell the time."""
        return f"{TIME} {zone}"

    @apps.tool(resource_uri=CLOCK, visibility=["app"])
    def refresh() -> str:
        """Tell the page the time again."""
        return TIME

    @apps.tool(resource_uri=CLOCK, visibility=["model"])
    def plan(title: str) -> str:
        """Plan something, on a page."""
        return f"planned {title}"

    @apps.tool(resource_uri=CLOCK, visibility=[])
    def hide() -> str:
        """Be seen by nobody."""
        return "hidden"

    csp = ResourceCsp(connect_domains=["https://time.example"])
    apps.add_html_resource(CLOCK, PAGE, name="clock", csp=csp, prefers_border=True)
    apps.add_html_resource(LEGACY, PAGE, name="legacy")
    return apps


def make_server(log: Log) -> MCPServer:
    """Return the server. What its tools did is in the log."""
    server = MCPServer(
        "apps",
        version="1.0",
        extensions=[clock_apps()],
        log_level="ERROR",
        middleware=[announce_changes],
    )
    server.add_resource(
        TextResource(uri=NOTES, name="notes", mime_type="text/plain", text="Nothing today.")
    )
    add_plain(server)
    add_failing(server)
    add_lasting(server, log)
    add_knowing(server)
    return server


def add_plain(server: MCPServer) -> None:
    """Add tools that just answer."""

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def say(parts: list[str]) -> CallToolResult:
        """Say several things."""
        return CallToolResult(content=[TextContent(type="text", text=each) for each in parts])

    @server.tool(meta={"ui/resourceUri": LEGACY})
    def legacy() -> CallToolResult:
        """Name a page in the way of before."""
        return CallToolResult(content=[TextContent(type="text", text="legacy")])


def add_failing(server: MCPServer) -> None:
    """Add tools that fail, each in another way."""

    @server.tool()
    def broken() -> str:
        """Fail unexpectedly."""
        raise ValueError(PRIVATE)

    @server.tool()
    def unwell(message: str = "not today") -> CallToolResult:
        """Fail in the result."""
        return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)

    @server.tool()
    def refuse() -> str:
        """Fail in the protocol."""
        raise MCPError(-32001, PRIVATE)


def add_lasting(server: MCPServer, log: Log) -> None:
    """Add tools that take their time."""

    @server.tool()
    async def slow(seconds: float, key: str = "") -> str:
        """Sleep."""
        log.add("tool", tool="slow", key=key, what="started")
        try:
            await anyio.sleep(seconds)
        except anyio.get_cancelled_exc_class():
            log.add("tool", tool="slow", key=key, what="cancelled")
            raise
        log.add("tool", tool="slow", key=key, what="ended")
        return f"slept {key}"

    @server.tool()
    async def progressing(steps: int, ctx: Context) -> str:
        """Report progress."""
        for step in range(1, steps + 1):
            await ctx.report_progress(step, steps, f"step {step}")
        return f"{steps} steps"


def add_knowing(server: MCPServer) -> None:
    """Add tools that know of the connection, or change it."""
    counts: Counter[str] = Counter()

    @server.tool()
    def whoami(ctx: Context) -> str:
        """Tell the caller's x-test-user, or else the scheme of its authorization."""
        headers = ctx.headers or {}
        scheme, _, _ = headers.get("authorization", "").partition(" ")
        return headers.get("x-test-user", scheme)

    @server.tool()
    def count(ctx: Context) -> str:
        """Count the calls of this session."""
        counts[session_of(ctx)] += 1
        return str(counts[session_of(ctx)])

    @server.tool()
    def where(ctx: Context) -> str:
        """Tell the id of this session."""
        return session_of(ctx)

    @server.tool()
    async def grow(ctx: Context, name: str = "grown") -> str:
        """Add a tool, and say that the list has changed."""

        def grown() -> str:
            """Have come later."""
            return "new"

        server.add_tool(grown, name=name)
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return name
