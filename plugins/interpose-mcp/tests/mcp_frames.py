"""MCP servers in this process that are written for a test, and runs of ``mcp.apps`` with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from ag_ui.core import ActivitySnapshotEvent, BaseEvent, RunAgentInput, RunFinishedEvent
from loguru import logger
from looping import seen
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from mcp_shop import Calling, bounded
from playing import Played

from interpose import Host, Layer
from interpose_mcp import McpApps

UI = "ui://shop/cart.html"
PRIVATE = "private: s3cret"
ANYTHING = {"type": "object", "properties": {}}
at = SimpleNamespace()
"""Where servers are found by their names: ``mcp_frames:at.shop``."""

Call = Callable[[str, Mapping[str, Any]], Awaitable[CallToolResult] | CallToolResult]


def tool(name: str, *, meta: Any = None, **more: Any) -> dict[str, Any]:
    """Return a tool as a server lists it."""
    listed = {"name": name, "inputSchema": ANYTHING, **more}
    return listed if meta is None else {**listed, "_meta": meta}


def shown(name: str, *visibility: str, uri: str = UI, **more: Any) -> dict[str, Any]:
    """Return a tool with a UI resource."""
    return tool(name, meta={"ui": {"resourceUri": uri, "visibility": list(visibility)}}, **more)


def says(text: str, **more: Any) -> CallToolResult:
    """Return a result with a text."""
    return CallToolResult.model_validate({"content": [{"type": "text", "text": text}], **more})


def raw(text: str, *, error: bool = False) -> dict[str, Any]:
    """Return such a result as a client is sent it."""
    return {"content": [{"type": "text", "text": text}], "isError": error}


def echo(name: str, arguments: Mapping[str, Any]) -> CallToolResult:
    """Say what was called. The arguments may say that it fails, and how."""
    if "refuse" in arguments:
        raise MCPError(-32050, PRIVATE)
    if "break" in arguments:
        raise ValueError(PRIVATE)
    if "unwell" in arguments:
        return says(str(arguments["unwell"]), isError=True)
    return says(f"{name} {dict(arguments)}")


class Shop:
    """A server that lists what it is given. ``asked``: the methods that it was asked for."""

    def __init__(
        self, *tools: dict[str, Any], call: Call = echo, pages: Sequence[Any] | None = None
    ) -> None:
        self.asked: list[str] = []
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.pages: list[Any] = [{"tools": list(tools)}] if pages is None else list(pages)
        self._call = call

    def server(self) -> Server[Any]:
        """Return the server."""
        made: Server[Any] = Server(
            "shop",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_read_resource=self._read_resource,
        )
        made.middleware.append(self._note)
        return made

    async def _note(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        self.asked.append(ctx.method)
        return await call_next(ctx)

    async def _list_tools(self, _: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        cursor = None if params is None else params.cursor
        return ListToolsResult.model_validate(self.pages[int(cursor or 0)])

    async def _call_tool(self, _: Any, params: CallToolRequestParams) -> CallToolResult:
        self.called.append((params.name, dict(params.arguments or {})))
        result = self._call(params.name, params.arguments or {})
        return result if isinstance(result, CallToolResult) else await result

    async def _read_resource(self, _: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
        if params.uri != UI:
            raise MCPError(-32002, PRIVATE)
        csp = {"connectDomains": ["https://shop.example"]}
        page = {"uri": UI, "mimeType": "text/html;profile=mcp-app", "text": "<p>cart</p>"}
        return ReadResourceResult.model_validate(
            {"contents": [{**page, "_meta": {"ui": {"csp": csp}}}]}
        )


def here(*tools: dict[str, Any], **shops: Shop) -> dict[str, Any]:
    """Return the settings of servers: of one that lists these tools, or of several by name."""
    for name, shop in (shops or {"shop": Shop(*tools)}).items():
        setattr(at, name, shop.server())
    return {name: {"python": f"mcp_frames:at.{name}"} for name in shops or ("shop",)}


def apps(servers: Mapping[str, Any], **settings: Any) -> Layer:
    """Return the layer."""
    return Layer(McpApps, {"servers": dict(servers), **settings})


def play(
    layers: Sequence[Any] | Layer, agent: Any, asked: Any = "hi", *, runs: int = 1, **options: Any
) -> Played:
    """Play runs in one host, and return the last. The stream must be as AG-UI says."""
    played: list[Played] = []

    async def work() -> None:
        given = [layers] if isinstance(layers, Layer) else [*layers]
        async with Host(given, agent=agent, **{"strict": True, **options}) as host:
            played.extend([await seen(host.run(asked)) for _ in range(runs)])

    bounded(work)
    return played[-1]


def asking(**fields: Any) -> RunAgentInput:
    """Return the input of a run."""
    return RunAgentInput.model_validate(
        {"threadId": "thread-1", "runId": "run-1", "messages": [], **fields}
    )


def proxied(**request: Any) -> RunAgentInput:
    """Return the input of a run by which a frame asks something."""
    return asking(forwardedProps={"__proxiedMCPRequest": request})


def answered(servers: Mapping[str, Any], *layers: Any, **request: Any) -> Any:
    """Return what a frame is answered, after a look at the whole run."""
    agent = Calling()
    played = play([*layers, apps(servers)], agent, proxied(**request))
    assert agent.inputs == []
    assert played.types == ["RUN_STARTED", "RUN_FINISHED"], played.result.error
    for event in played.events:
        ids = (getattr(event, "thread_id", ""), getattr(event, "run_id", ""))
        assert ids == ("thread-1", "run-1")
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent)
    return last.result


def activities(events: Sequence[BaseEvent]) -> list[ActivitySnapshotEvent]:
    """Return the activities."""
    return [event for event in events if isinstance(event, ActivitySnapshotEvent)]


@contextmanager
def listening() -> Iterator[list[str]]:
    """Collect what the operator is told: a line each, with its level and what is bound to it."""
    lines: list[str] = []

    def add(message: Any) -> None:
        record = message.record
        bound = {key: record["extra"].get(key) for key in ("server_id", "server_hash")}
        lines.append(f"{record['level'].name} {record['message']} {bound}")

    for package in ("interpose", "interpose_mcp"):
        logger.enable(package)
    sink = logger.add(add, level=0)
    try:
        yield lines
    finally:
        logger.remove(sink)
        for package in ("interpose", "interpose_mcp"):
            logger.disable(package)
