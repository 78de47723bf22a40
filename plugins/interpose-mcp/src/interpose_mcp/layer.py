"""What both middlewares do: discover tools, show them to any agent, and answer its calls."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ag_ui.core import BaseEvent, RunAgentInput, Tool
from mcp.types import Tool as McpTool

from interpose import (
    CallRun,
    Middleware,
    ModelConfig,
    Point,
    Reject,
    ResolvedTool,
    RunContext,
    Stage,
)
from interpose_mcp.answering import Answer, Send, answered, progress_event
from interpose_mcp.calling import Outcome, RunSessions, outcome_of, parsed
from interpose_mcp.failures import McpFailure
from interpose_mcp.hub import Hub
from interpose_mcp.meta import is_for_model
from interpose_mcp.open_calls import WrittenCall
from interpose_mcp.routes import Route
from interpose_mcp.session import OnProgress
from interpose_mcp.settings import McpSettings
from interpose_mcp.stopping import Stopped, unless_cancelled

if TYPE_CHECKING:
    from interpose.loop import ToolContext

S = TypeVar("S", bound=McpSettings)


class McpLayer(Middleware[S, Hub]):
    """Offers tools of MCP servers to an agent.

    The built-in loop is shown them with each model call, and executes them as its own: decisions,
    approvals and layers around tool calls hold for them. Any other agent gets them in its input;
    what it calls is executed when its pass has ended, and the run goes on with the results.
    """

    stage: ClassVar[Stage | None] = Stage.CALL
    may_continue: ClassVar[bool] = True

    def setup(self, ctx: RunContext, /) -> None:
        """Start with nothing discovered and no session open."""
        self.routes: dict[str, Route] | None = None
        self.sessions = RunSessions(self.shared, ctx.defer)
        self.resolved: dict[str, ResolvedTool] = {}

    # What the two differ in ------------------------------------------------------------------
    @abstractmethod
    def named(
        self, found: Mapping[str, tuple[McpTool, ...]], taken: Collection[str]
    ) -> dict[str, Route]:
        """Return the tools by the names under which a model calls them."""

    @abstractmethod
    def shown(self, route: Route) -> Tool:
        """Return a tool as the model is shown it."""

    @abstractmethod
    def failed(self, message: str) -> Outcome:
        """Return what a model is told of a call that came to nothing."""

    @abstractmethod
    def following(
        self, route: Route, arguments: Mapping[str, Any], outcome: Outcome
    ) -> tuple[BaseEvent, ...]:
        """Return the events that follow the result of a call."""

    # Any agent -------------------------------------------------------------------------------
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun, /
    ) -> AsyncIterator[BaseEvent]:
        """Give the agent the tools, and go on with it until it calls none of them."""
        if _runs_tools(ctx):
            async for event in call_next(run_input):
                yield event
            return
        try:
            routes = await unless_cancelled(ctx, self._discovered(ctx, run_input.tools or ()))
        except Stopped:
            return
        tools = [self.shown(route) for route in routes.values()]
        execute = partial(self._answer, routes)
        async for event in answered(ctx, run_input, tools, execute, call_next):
            yield event

    async def _answer(self, routes: Mapping[str, Route], call: WrittenCall, send: Send) -> Answer:
        route = routes[call.name]
        try:
            arguments = parsed(call.text)
        except ValueError as error:
            return Answer(self.failed(str(error)).result)

        async def reported(progress: float, total: float | None, message: str | None) -> None:
            send(progress_event(call.id, _told(progress, total, message), call.subagent_run_id))

        outcome = await self._called(route, arguments, reported)
        return Answer(outcome.result, self.following(route, arguments, outcome))

    async def _called(
        self, route: Route, arguments: Mapping[str, Any], progress: OnProgress
    ) -> Outcome:
        try:
            result = await self.sessions.call(route.server, route.tool.name, arguments, progress)
        except McpFailure as failure:
            return self.failed(failure.message)
        return outcome_of(result, self.shared.targets[route.server].secrets)

    # The built-in loop -----------------------------------------------------------------------
    async def on_config(self, ctx: RunContext, config: ModelConfig, /) -> ModelConfig | None:
        """Show the tools to the model, but where only a structured output is wanted."""
        if not _runs_tools(ctx) or ctx.phase == "structured_output":
            return None
        static = config.tools or ()
        routes = await self._discovered(ctx, static)
        there = {tool.name for tool in static}
        added = [self.shown(each) for name, each in routes.items() if name not in there]
        return ModelConfig(tools=(*static, *added)) if added else None

    async def resolve_tool(self, ctx: RunContext, name: str, /) -> ResolvedTool | None:
        """Return the tool that a name stands for."""
        route = (await self._discovered(ctx, ctx.input.tools or ())).get(name)
        if route is None:
            return None
        if name not in self.resolved:
            from interpose_mcp.loop import resolved  # the loop's own parts, where there is a loop

            self.resolved[name] = resolved(self.shown(route), partial(self._run, route))
        return self.resolved[name]

    async def _run(self, route: Route, ctx: ToolContext, arguments: dict[str, Any]) -> Any:
        async def reported(progress: float, total: float | None, message: str | None) -> None:
            await ctx.progress(_told(progress, total, message))

        outcome = await self._called(route, arguments, reported)
        self.settled(ctx, self.following(route, arguments, outcome))
        return outcome.result

    def settled(self, ctx: ToolContext, events: tuple[BaseEvent, ...]) -> None:
        """Take the events that are to follow the result of a call of the loop."""

    # Discovery -------------------------------------------------------------------------------
    async def _discovered(self, ctx: RunContext, shown: Collection[Tool]) -> dict[str, Route]:
        """Return the tools by name. They stay the same until the run has ended."""
        if self.routes is None:
            found = await self._listed(ctx)
            self.routes = self.named(found, {tool.name for tool in shown})
        return self.routes

    async def _listed(self, ctx: RunContext) -> dict[str, tuple[McpTool, ...]]:
        hub, settings = self.shared, self.settings
        answers = await asyncio.gather(
            *(hub.tools(server) for server in settings.servers), return_exceptions=True
        )
        found: dict[str, tuple[McpTool, ...]] = {}
        for (server, each), answer in zip(settings.servers.items(), answers, strict=True):
            if isinstance(answer, McpFailure):
                digest = hub.targets[server].digest
                ctx.log.bind(server_id=server, server_hash=digest).error(
                    "MCP tool discovery failed (server {}, hash {}): {}",
                    server,
                    digest,
                    answer.message,
                )
                if settings.discovery_failure_mode == "throw":
                    raise Reject("mcp-discovery-failed", "MCP tool discovery failed", status=503)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[server] = tuple(
                    tool for tool in answer if each.allows(tool.name) and is_for_model(tool)
                )
        return found


def _runs_tools(ctx: RunContext) -> bool:
    """Tell whether the agent lets layers bring tools that it runs."""
    return Point.TOOLS in ctx.points and Point.MODEL in ctx.points


def _told(progress: float, total: float | None, message: str | None) -> dict[str, Any]:
    told = {"progress": progress, "total": total, "message": message}
    return {key: value for key, value in told.items() if value is not None}
