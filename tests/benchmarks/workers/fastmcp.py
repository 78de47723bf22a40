# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
"""FastMCP: server middleware around tool calls, in process.

``tool-run`` (``layers``, ``kind``, ``times``): one tool call.
``loop-run`` (the same): 5 tool calls; there is no model.
Kinds: ``tool`` (``on_call_tool``), ``empty`` (overrides nothing). ``FastMCP.call_tool`` is called,
without a client and a transport: what these cost is not the middlewares'.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware

from .serving import TOOL_CALLS, Clock, expect, serve, timed


class _Tool(Middleware):
    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        return await call_next(context)


class _Empty(Middleware):
    pass


_KINDS: Final = {"tool": _Tool, "empty": _Empty}


@cache
def _server(kind: str, layers: int) -> Any:
    server = FastMCP("peer", middleware=[_KINDS[kind]() for _ in range(layers)])

    @server.tool
    async def look(text: str) -> str:
        """Look at a text."""
        return text

    return server


async def _run(tool_calls: int, kind: str, layers: int, times: int, clock: Clock) -> float:
    server = _server(kind, layers)

    async def run() -> None:
        for _ in range(tool_calls):
            found = await server.call_tool("look", {"text": "x"})
            expect(found.content[0].text, "x")

    return await timed(run, times, clock)


async def tool_run(*, layers: int, kind: str, times: int, clock: Clock) -> float:
    """Call one tool."""
    return await _run(1, kind, layers, times, clock)


async def loop_run(*, layers: int, kind: str, times: int, clock: Clock) -> float:
    """Call as many tools as a loop does."""
    return await _run(TOOL_CALLS, kind, layers, times, clock)


if __name__ == "__main__":
    serve({"tool-run": tool_run, "loop-run": loop_run}, "fastmcp")
