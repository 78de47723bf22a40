"""``mcp.apps``: tools of MCP servers whose results a frame of the front end can show."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import uuid4

from ag_ui.core import (
    ActivitySnapshotEvent,
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    Tool,
    ToolCallResultEvent,
)
from mcp.types import Tool as McpTool

from interpose import (
    DROP,
    CallRun,
    LifespanContext,
    MiddlewareError,
    Reject,
    Result,
    RunContext,
    ToolResult,
    on,
)
from interpose_mcp.calling import Outcome, compact
from interpose_mcp.hub import Hub, hub
from interpose_mcp.layer import McpLayer
from interpose_mcp.proxied import answer, request_in
from interpose_mcp.routes import Route, declared, is_name
from interpose_mcp.settings import McpAppsSettings
from interpose_mcp.stopping import Stopped, unless_cancelled

if TYPE_CHECKING:
    from interpose.loop import ToolContext

MCP_APPS_ACTIVITY_TYPE: Final = "mcp-apps"
"""The type of the activities that a front end shows in a frame."""


class McpApps(McpLayer[McpAppsSettings]):
    """Give an agent the tools of MCP servers under their plain names, and show what has a UI.

    After the result of a tool with a UI resource comes an activity with all that a frame needs.
    What a frame then asks of its server comes in the forwarded properties of a run, which is
    answered without the agent. So an agent has one layer of it, which knows all the servers.
    """

    conflicts: ClassVar[tuple[str, ...]] = ("mcp.apps", "mcp-apps")  # itself, by both its names

    @classmethod
    def lifespan(
        cls, settings: McpAppsSettings, ctx: LifespanContext, /
    ) -> AbstractAsyncContextManager[Hub]:
        """Keep listings, and the sessions that runs share."""
        return hub(settings, ctx, ui=True)

    def setup(self, ctx: RunContext, /) -> None:
        """Start with nothing to show."""
        super().setup(ctx)
        self.clients: frozenset[str] = frozenset()
        self.calls: dict[str, str] = {}
        self.to_show: dict[str, ActivitySnapshotEvent] = {}

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun, /
    ) -> AsyncIterator[BaseEvent]:
        """Answer what a frame asks, without the agent; else play the run."""
        asked = request_in(run_input.forwarded_props)
        if asked is None:
            self.clients = frozenset(tool.name for tool in run_input.tools or ())
            async for event in super().around_run(ctx, run_input, call_next):
                yield event
            return
        thread, run = run_input.thread_id, run_input.run_id
        yield RunStartedEvent(thread_id=thread, run_id=run)
        try:
            result = await unless_cancelled(ctx, answer(asked, self.shared, self.sessions, ctx.log))
        except Stopped:
            return
        finished = RunFinishedEvent(thread_id=thread, run_id=run, result=result)
        for event in await ctx.rewrite(finished):
            yield event

    def named(
        self, found: Mapping[str, tuple[McpTool, ...]], taken: Collection[str]
    ) -> dict[str, Route]:
        """Return the tools by their own names.

        :class:`MiddlewareError` when one is a tool of two servers, or of the agent, too;
        :class:`Reject` when it is one of the client, who chose the name.
        """
        routes: dict[str, Route] = {}
        for server, tools in found.items():
            for tool in tools:
                if not is_name(tool.name):
                    self._leave_out(server, tool.name)
                    continue
                other = routes.get(tool.name)
                if other is not None:
                    raise MiddlewareError(
                        f"the MCP servers {other.server!r} and {server!r} both have a tool "
                        f"{tool.name!r}, and mcp.apps keeps plain names",
                        hint=f"add {tool.name!r} to `deny` of one of them",
                    )
                routes[tool.name] = Route(tool.name, server, tool)
        for name, route in routes.items():
            if name in self.clients:
                raise Reject(
                    "mcp-tool-clash",
                    f"The tool {name!r} of the client has the name of a tool of an MCP server.",
                    status=400,
                )
            if name in taken:
                raise MiddlewareError(
                    f"the MCP server {route.server!r} and the agent both have a tool {name!r}, "
                    "and mcp.apps keeps plain names",
                    hint=f"add {name!r} to `deny` of the server {route.server!r}",
                )
        return routes

    def _leave_out(self, server: str, name: str) -> None:
        self.shared.warn_once(
            f"the tool {name!r} of the MCP server {server!r} is left out: "
            "no model may call a tool by that name"
        )

    def shown(self, route: Route) -> Tool:
        """Return a tool as the model is shown it; it names the UI resource."""
        return declared(route, tell_ui=True)

    def failed(self, message: str) -> Outcome:
        """Return what a model is told of a call that came to nothing."""
        return Outcome(ToolResult(compact({"error": message}), message))

    def following(
        self, route: Route, arguments: Mapping[str, Any], outcome: Outcome
    ) -> tuple[BaseEvent, ...]:
        """Return the activity of a tool with a UI resource, if the server gave a result."""
        uri = route.resource_uri
        if uri is None or outcome.raw is None:
            return ()
        content = {
            "result": outcome.raw,
            "resourceUri": uri,
            "serverHash": self.shared.targets[route.server].digest,
            "serverId": route.server,
            "toolInput": dict(arguments),
        }
        return (
            ActivitySnapshotEvent(
                message_id=str(uuid4()),
                activity_type=MCP_APPS_ACTIVITY_TYPE,
                content=content,
                replace=True,
            ),
        )

    def settled(self, ctx: ToolContext, events: tuple[BaseEvent, ...]) -> None:
        """Send an activity of a call of the loop, so that layers further in see it, too."""
        for event in events:
            if isinstance(event, ActivitySnapshotEvent):
                self.calls[event.message_id] = ctx.call_id
                ctx.emit(event)

    @on(ActivitySnapshotEvent)
    def activity_sent(self, ctx: RunContext, event: ActivitySnapshotEvent) -> Result:  # noqa: ARG002
        """Keep an activity of our own until the result of its call comes by."""
        call = self.calls.pop(event.message_id, None)
        if call is None:
            return event
        self.to_show[call] = event
        return DROP

    @on(ToolCallResultEvent)
    def call_answered(self, ctx: RunContext, event: ToolCallResultEvent) -> Result:  # noqa: ARG002
        """Let the activity follow the result."""
        activity = self.to_show.pop(event.tool_call_id, None)
        return event if activity is None else [event, activity]
