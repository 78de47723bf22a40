"""A layer that fails in a subagent fails the run, as it does outside."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import (
    Tool,
)
from looping import Spy, calls, loop

from interpose import (
    CallModel,
    CallStep,
    CallTool,
    Middleware,
    MiddlewareError,
    ModelConfig,
    ModelRequest,
    RunContext,
    ToolCall,
    ToolResult,
)
from interpose.loop import (
    LoopAgent,
    LoopTool,
    agent_tool,
    tool,
)


def helper(*turns: Any, name: str = "ask_helper", tools: Any = ()) -> tuple[LoopTool, Spy]:
    """Return an agent of our own as a tool, and its model."""
    model = Spy(*turns)
    return agent_tool(LoopAgent(model, tools), name, "Ask the helper."), model


def task(name: str = "ask_helper", what: str = "do it") -> tuple[str, dict[str, str]]:
    return name, {"task": what}


BREAKS = ["on_config", "on_before_tool_call", "an unknown decision", "resolve_tool"]
BREAKS += ["around_step", "around_model_call", "around_tool_call"]


class Breaks(Middleware):
    """Fails where the run's attributes say, in a subagent alone."""

    def fail(self, ctx: RunContext, hook: str) -> None:
        if ctx.subagent_run_id is not None and ctx.attributes["hook"] == hook:
            raise OSError("policy backend down")

    def on_config(self, ctx: RunContext, config: ModelConfig) -> None:
        self.fail(ctx, "on_config")

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Any:
        self.fail(ctx, "on_before_tool_call")
        inside = ctx.subagent_run_id is not None
        return "deny" if inside and ctx.attributes["hook"] == "an unknown decision" else None

    def resolve_tool(self, ctx: RunContext, name: str) -> None:
        self.fail(ctx, "resolve_tool")

    async def around_step(self, ctx: RunContext, call_next: CallStep) -> Any:
        self.fail(ctx, "around_step")
        async for event in call_next():
            yield event

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> Any:
        self.fail(ctx, "around_model_call")
        if ctx.attributes["hook"] == "resolve_tool":
            added = Tool(name="added", description="", parameters={"type": "object"})
            request = request.replace(tools=(*request.tools, added))
        async for event in call_next(request):
            yield event

    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        self.fail(ctx, "around_tool_call")
        return await call_next(call)


@pytest.mark.parametrize("hook", BREAKS)
def test_g37_a_layer_that_fails_in_a_subagent_fails_the_run_as_it_does_outside(hook: str) -> None:
    """A policy that is down is no failed tool: the run ends, and the outer model is not asked again."""
    ran: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        ran.append("act")
        return "acted"

    ask, _ = helper(calls("added" if hook == "resolve_tool" else "act"), "never", tools=[act])
    outer = Spy(calls(task()), "never")

    played = loop([Breaks], outer, [ask], run={"attributes": {"hook": hook}})

    assert not ran
    assert len(outer.requests) == 1
    assert played.types[-1] == "RUN_ERROR"
    wanted = MiddlewareError if hook == "an unknown decision" else OSError
    assert isinstance(played.result.error, wanted)
