"""The house of loops: caches, budgets, approvals, prompts, and tools that write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from zoo import Bug, Twin

from interpose import (
    PRINCIPAL,
    Ask,
    CallModel,
    CallRun,
    CallTool,
    Deny,
    InterruptDefinition,
    IterationInfo,
    LifespanContext,
    Middleware,
    ModelConfig,
    ModelRequest,
    Point,
    RunContext,
    Settings,
    Skip,
    Stage,
    ToolCall,
    ToolCallInfo,
    ToolResult,
    Transient,
)


# loop-stream, steady-config ----------------------------------------------------------------
class NoSecretsToTools(Middleware):
    """Mask a word in what the model writes, before anybody reads it."""

    rewrites_history = True

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        async for event in call_next(request):
            delta = getattr(event, "delta", None)
            if isinstance(delta, str) and "parcel" in delta:
                yield event.model_copy(update={"delta": delta.replace("parcel", "******")})
            else:
                yield event

    def on_event(self, ctx: RunContext, event: BaseEvent) -> BaseEvent:
        return event


class HouseRules(Middleware):
    """Add the rules of the house to the system prompts."""

    def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
        rules = "Be polite, and never promise a refund."
        return ModelConfig(system_prompts=(*(config.system_prompts or ()), rules), persist=True)


# resume ------------------------------------------------------------------------------------
class StepTimes(Middleware):
    """Measure how long the tools of an iteration take."""

    def on_iteration(self, ctx: RunContext, info: IterationInfo) -> None:
        self.began = ctx.clock.monotonic()

    def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
        ctx.log.info("{} after {}", info.call.name, ctx.clock.monotonic() - self.began)


class TurnBudget(Middleware[Any, dict[str, set[str]]]):
    """Refuse tool calls beyond a number for each turn; a turn goes on when people have answered."""

    stage = Stage.CALL
    essential = (Point.TOOLS,)
    most = 3

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: Any, ctx: LifespanContext
    ) -> AsyncGenerator[dict[str, set[str]]]:
        yield {}

    def on_input(self, ctx: RunContext, run_input: RunAgentInput) -> None:
        if not run_input.resume:
            self.shared[ctx.thread_id] = set()

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Deny | None:
        counted = self.shared.setdefault(ctx.thread_id, set())
        if call.id not in counted and len(counted) >= self.most:
            return Deny("The budget is used up.")
        counted.add(call.id)
        return None


MOOD = InterruptDefinition("mood")


class AskForMood(Middleware):
    """Ask once in a turn how the user feels, before tools are called."""

    def setup(self, ctx: RunContext) -> None:
        self.asked = False

    def on_interrupt_boundary(self, ctx: RunContext) -> None:
        if ctx.phase == "before_tools" and not self.asked:
            self.asked = True
            ctx.interrupt(MOOD.interrupt("today", "How are you?"))


# writes-once, own-results ------------------------------------------------------------------
class ToolRetry(Middleware):
    """Call a tool again when it fails in a way that may pass."""

    stage = Stage.CALL
    may_repeat = True

    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        for attempt in range(2):
            try:
                return await call_next(call)
            except Transient:
                await ctx.sleep(2**attempt)
        return await call_next(call)


class BufferedRetry(Middleware):
    """Hold a run back until it has succeeded, and do it again if it fails."""

    stage = Stage.CALL
    may_repeat = True

    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        for attempt in (1, 2, 3):
            held: list[BaseEvent] = []
            try:
                async for event in call_next(run_input):
                    held.append(event)  # noqa: PERF401 - a failure comes in between
            except Transient:
                if attempt == 3:
                    raise
                await ctx.sleep(attempt)
                continue
            for event in held:
                yield event
            return


class ResultCache(Middleware[Any, dict[str, ToolResult]]):
    """Answer a call of a reading tool that was made before without the tool."""

    stage = Stage.CALL

    @classmethod
    @asynccontextmanager
    async def lifespan(
        cls, settings: Any, ctx: LifespanContext
    ) -> AsyncGenerator[dict[str, ToolResult]]:
        yield {}

    def key(self, ctx: RunContext, call: ToolCall) -> str:
        return json.dumps([call.name, dict(call.args)], sort_keys=True)

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Skip | None:
        known = self.shared.get(self.key(ctx, call))
        return None if known is None else Skip(known, cached=True)

    def on_after_tool_call(self, ctx: RunContext, info: ToolCallInfo) -> None:
        if info.ok and info.source == "executed" and info.call.effect == "read":
            self.shared[self.key(ctx, info.call)] = info.result


class AnswerCache(Middleware[Any, dict[str, str]]):
    """Answer what the user has asked before without the model."""

    stage = Stage.CALL
    requires = (PRINCIPAL,)

    @classmethod
    @asynccontextmanager
    async def lifespan(cls, settings: Any, ctx: LifespanContext) -> AsyncGenerator[dict[str, str]]:
        yield {}

    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        asked = [m.content for m in request.messages if m.role == "user"]
        tools = [m.content for m in request.messages if m.role == "tool"]
        key = f"{ctx[PRINCIPAL].subject}: {asked[-1:]} {tools}"
        known = self.shared.get(hashlib.sha256(key.encode()).hexdigest())
        message = ctx.message_id or ""
        if known is not None:
            yield TextMessageStartEvent(message_id=message, role="assistant")
            yield TextMessageContentEvent(message_id=message, delta=known)
            yield TextMessageEndEvent(message_id=message)
            return
        said, is_plain = "", True
        async for event in call_next(request):
            if isinstance(event, TextMessageContentEvent):
                said += event.delta
            is_plain = is_plain and not event.type.value.startswith("TOOL_CALL")
            yield event
        if said and is_plain:
            self.shared[hashlib.sha256(key.encode()).hexdigest()] = said


BUGS = (
    Bug(
        cls=NoSecretsToTools,
        check="loop-stream",
        mistake="it looks at each piece alone, so what is cut in two reaches the tool",
        reported="langchain#35011 (streaming goes around a guard)",
    ),
    Bug(
        cls=HouseRules,
        check="steady-config",
        mistake="it persists what it adds, and adds it again for each call",
        reported="TanStack AI, D8 (config transforms accumulate over iterations)",
    ),
    Bug(
        cls=StepTimes,
        check="resume",
        mistake="a run that goes on has no iteration before its tools, so the time is not there",
        reported="langchain#34974 (a resumed run lacks what the first one had)",
    ),
    Bug(
        cls=TurnBudget,
        check="resume",
        mistake="the count lives in the memory of one process, and restarts in another",
        reported="pydantic-ai-harness#534, ag2 PR #3136 (budgets that are counted in parts)",
    ),
    Bug(
        cls=AskForMood,
        check="resume",
        mistake="whether it has asked is kept in self, which the run that goes on has not",
        reported="langchain#33787 (what was decided is asked again)",
    ),
    Bug(
        cls=ToolRetry,
        check="writes-once",
        mistake="it repeats writes, too",
        reported="strands#4338 (a completed, charged tool run happens again)",
    ),
    Bug(
        cls=BufferedRetry,
        check="writes-once",
        mistake="holding events back does not hold tools back: a repeated run writes again",
        reported="langchain docs PR #1371 (a tool is executed again)",
    ),
    Bug(
        cls=ResultCache,
        check="own-results",
        mistake="the key does not say whose result it is",
        reported="TanStack AI, D10 (cache keys without scope)",
    ),
    Bug(
        cls=AnswerCache,
        check="own-results",
        mistake="the key has the last question, and not what it follows",
        reported="agentscope#2331 (answers of one query given to another)",
    ),
)


# Twins -------------------------------------------------------------------------------------
class CarefulToolRetry(Middleware):
    """Repeat a tool call that failed in a way that may pass, if repeating it does no harm."""

    stage = Stage.CALL
    may_repeat = True

    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        attempts = 1 if call.effect == "write" else 3
        for attempt in range(1, attempts):
            try:
                return await call_next(call)
            except Transient:
                await ctx.sleep(2**attempt)
        return await call_next(call)


class OwnResultCache(ResultCache):
    """The same, by whose call it is, too."""

    requires = (PRINCIPAL,)

    def key(self, ctx: RunContext, call: ToolCall) -> str:
        whose = ctx[PRINCIPAL]
        args = dict(call.args)
        return json.dumps([whose.tenant, whose.subject, call.name, args], sort_keys=True)


class ApprovalSettings(Settings):
    tools: tuple[str, ...] = ("send_mail",)
    """The tools whose calls people decide about."""


class Approvals(Middleware[ApprovalSettings]):
    """Let people decide about calls of some tools."""

    stage = Stage.CALL
    essential = (Point.TOOLS,)

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Ask | None:
        return Ask(f"May {call.name} run?") if call.name in self.settings.tools else None


class CarefulTurnBudget(Middleware):
    """Refuse tool calls beyond a number for each turn; the count goes with the run."""

    stage = Stage.CALL
    essential = (Point.TOOLS,)
    most = 3

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall) -> Deny | None:
        counted: list[str] = ctx.metadata.setdefault("turn-budget", [])
        if call.id in counted:
            return None
        if len(counted) >= self.most:
            return Deny("The budget is used up.")
        counted.append(call.id)
        return None


TWINS = (
    Twin(cls=CarefulToolRetry, does="repeats tool calls, by their effect"),
    Twin(cls=OwnResultCache, does="keeps results of reading tools, by whose they are"),
    Twin(cls=Approvals, does="asks people about tool calls"),
    Twin(cls=CarefulTurnBudget, does="counts tool calls of a turn over its pauses"),
)
