"""A Python MCP server with MCP Apps, over streamable HTTP, SSE or standard input and output.

    python apps_server.py [--transport http|sse|stdio] [--json] [--stateless] [--log FILE]

Over HTTP it prints its ports and keeps its log as ``mcp_serving`` says. Over standard input and
output it writes the log to the file. The tools are those of ``mcp_tools``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_serving import Log, serve
from mcp_tools import make_server


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transport", choices=["http", "sse", "stdio"], default="http")
    parser.add_argument("--json", action="store_true", help="answer in JSON, never in a stream")
    parser.add_argument("--stateless", action="store_true", help="no sessions")
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    log = Log(options.log)
    server = make_server(log)
    if options.transport == "stdio":

        async def note(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
            log.add("message", rpc=ctx.method, params=dict(ctx.params or {}))
            return await call_next(ctx)

        server.middleware.append(note)
        server.run("stdio")
    elif options.transport == "sse":
        serve(server.sse_app(), log)
    else:
        serve(
            server.streamable_http_app(
                json_response=options.json, stateless_http=options.stateless
            ),
            log,
        )


if __name__ == "__main__":
    main()
