"""The runs whose hooks ``docs/loop-hooks.md`` shows, in its order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from collections.abc import Sequence as Many
from typing import Any, Final

from ag_ui.core import BaseEvent, Interrupt, RunAgentInput, TextMessageChunkEvent
from looping import CANCELLED, calls
from playing import finished, say, started
from pydantic import BaseModel
from sequences import Act, Consume, Scenario, Sequence, Take, at, recorder

from interpose import (
    CallModel,
    CallRun,
    CallStep,
    CallTool,
    Middleware,
    ModelConfig,
    ModelRequest,
    ResolvedTool,
    Run,
    RunContext,
    ToolCall,
    ToolResult,
)
from interpose.loop import ToolContext, tool


class City(BaseModel):
    """What the scenarios with structured output ask for."""

    name: str


@tool
async def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


@tool
async def read(q: str = "x") -> str:
    """Read something."""
    return f"read {q}"


@tool(approval=True)
async def send(q: str = "x") -> str:
    """Send something."""
    return f"sent {q}"


@tool
async def fails() -> str:
    """Fail."""
    raise OSError("no disk")


@tool
async def aborts(ctx: ToolContext) -> str:
    """End the run."""
    ctx.abort("enough")


@tool
async def asks(ctx: ToolContext) -> str:
    """Ask a person."""
    ctx.interrupt(QUESTION)


@tool
async def hangs(ctx: ToolContext) -> str:
    """Report, and never end."""
    await ctx.progress("begun")
    await asyncio.Event().wait()
    return "never"


@tool
async def waits() -> str:
    """Never end."""
    await asyncio.Event().wait()
    return "never"


QUESTION: Final = Interrupt(id="sure", reason="check", message="Sure?")
JSON: Final = '{"name": "Ulm"}'
TOOLS: Final = (look, read)
TOOL_TURN: Final = (calls("look", "read"), "Done")


def abort(ctx: RunContext) -> None:
    ctx.abort("enough")


def ask(ctx: RunContext) -> None:
    ctx.interrupt(QUESTION)


def fail(ctx: RunContext) -> None:
    raise ValueError("a bug")


def leaving(event: str, *, close: bool) -> Consume:
    """Return a consumer that goes when it gets an event; with ``close`` it closes the run."""

    async def leave(run: Run[Any], take: Take) -> None:
        async for each in run:
            take(each)
            if each.type.value == event:
                break
        if close:
            await run.aclose()

    return leave


def stopping(how: str, event: str) -> Consume:
    """Return a consumer whose run another task stops after an event, while it waits for more."""

    async def stop(run: Run[Any], take: Take) -> None:
        seen = asyncio.Event()

        async def consume() -> None:
            async for each in run:
                take(each)
                if each.type.value == event:
                    seen.set()

        consuming = asyncio.create_task(consume())
        await seen.wait()
        for _ in range(5):  # it has gone on waiting, and so has the tool
            await asyncio.sleep(0)
        if how == "cancel":
            run.cancel("enough")
        elif how == "aclose":
            await run.aclose()
        else:
            consuming.cancel()
        await asyncio.wait([consuming])

    return stop


# -- layers that answer in the place of what they wrap ------------------------------------------


class Resolves(Middleware):
    """Shows a tool to the model that the agent does not have, and runs its calls."""

    def on_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
        return ModelConfig(tools=(*(config.tools or ()), look.declaration()))

    def resolve_tool(self, ctx: RunContext, name: str) -> ResolvedTool | None:
        assert look.run is not None
        return ResolvedTool(look.declaration(), look.run)


class AnswersRun(Middleware):
    async def around_run(
        self, ctx: RunContext, run_input: RunAgentInput, call_next: CallRun
    ) -> AsyncIterator[BaseEvent]:
        for event in (started(ctx), *say("cached"), finished(ctx)):
            yield event


class AnswersStep(Middleware):
    async def around_step(self, ctx: RunContext, call_next: CallStep) -> AsyncIterator[BaseEvent]:
        for event in say("cached"):
            yield event


class AnswersModel(Middleware):
    async def around_model_call(
        self, ctx: RunContext, request: ModelRequest, call_next: CallModel
    ) -> AsyncIterator[BaseEvent]:
        yield TextMessageChunkEvent(message_id="cached", role="assistant", delta="cached")


class AnswersTool(Middleware):
    async def around_tool_call(
        self, ctx: RunContext, call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        return ToolResult("cached")


def between(middle: type[Middleware] | None = None) -> Any:
    """Return layers: one that records outside of ``middle``, one inside."""

    def layers(log: Sequence, act: Act) -> Many[type[Middleware]]:
        middles = () if middle is None else (middle,)
        return [recorder(log, "outer", act), *middles, recorder(log, "inner")]

    return layers


# -- the scenarios ------------------------------------------------------------------------------

ENDINGS: Final = (
    Scenario("plain answer", "The model answers; there are no tools."),
    Scenario(
        "two iterations, two tools",
        "The model calls two tools at once, then answers.",
        TOOL_TURN,
        TOOLS,
    ),
    Scenario(
        "two layers",
        "The same with two layers, `outer` and `inner`, for the order between them.",
        TOOL_TURN,
        TOOLS,
        layers=between(),
    ),
    Scenario(
        "output by a separate call, no tools",
        "`output=` with a model that takes no schema beside tools, and no tools: there is no "
        "iteration, only the structured call.",
        (JSON,),
        output=City,
    ),
    Scenario(
        "output by a separate call, tools",
        "The loop runs as ever; then a call of its own asks for the output.",
        (calls("look"), "Done", JSON),
        (look,),
        output=City,
    ),
    Scenario(
        "output on the native path",
        "The model takes the schema with the tools; its last answer is the output.",
        (calls("look"), JSON),
        (look,),
        output=City,
        native=True,
    ),
    Scenario(
        "output on the native path, no tools",
        "The first answer is the output.",
        (JSON,),
        output=City,
        native=True,
    ),
    Scenario(
        "output repaired",
        "The answer to the structured call does not fit the schema, so one more call is made.",
        ("no JSON", JSON),
        output=City,
    ),
    Scenario(
        "tool fails",
        "A tool raises: the model is told, and the run goes on.",
        (calls("fails"), "Sorry"),
        (fails,),
    ),
    Scenario(
        "unknown tool",
        "The model calls a tool that its request did not show: it is told, and nothing runs.",
        (calls("nobody"), "Sorry"),
        (look,),
    ),
    Scenario(
        "resolved tool",
        "A layer between `outer` and `inner` adds a tool to the request that the agent does not "
        "have; it is found by `resolve_tool`.",
        (calls("look"), "Done"),
        layers=between(Resolves),
    ),
)

ABORTS: Final = (
    *(
        Scenario(
            f"abort in {place}",
            f"`ctx.abort` in `{hook}`.",
            TOOL_TURN,
            TOOLS,
            at(phase, hook, abort),
        )
        for place, phase, hook in (
            ("init", "init", "on_start"),
            ("before_model", "before_model", "on_iteration"),
            ("model_stream", "model_stream", "around_model_call"),
            ("after_model", "after_model", "on_interrupt_boundary"),
            ("before_tools", "before_tools", "on_before_tool_call"),
            ("after_tools", "after_tools", "on_tool_phase_complete"),
        )
    ),
    Scenario(
        "abort by an event hook",
        "`ctx.abort` in `on_event`, at the first piece of text.",
        act=at("model_stream", "on_event", abort),
    ),
    Scenario(
        "abort in a tool", "A tool calls `ctx.abort`.", (calls("aborts", "look"),), (aborts, look)
    ),
    Scenario(
        "abort in structured_output",
        "`ctx.abort` in `on_structured_output_config`.",
        (JSON,),
        act=at("structured_output", "on_structured_output_config", abort),
        output=City,
    ),
)

ERRORS: Final = (
    *(
        Scenario(
            f"error in {place}",
            f"`{hook}` raises.",
            TOOL_TURN,
            TOOLS,
            at(phase, hook, fail),
            fails=True,
        )
        for place, phase, hook in (
            ("init", "init", "on_config"),
            ("before_model", "before_model", "on_config"),
            ("model_stream", "model_stream", "around_model_call"),
            ("after_model", "after_model", "on_interrupt_boundary"),
            ("before_tools", "before_tools", "on_before_tool_call"),
            ("a tool call", "before_tools", "around_tool_call"),
            ("after_tools", "after_tools", "on_interrupt_boundary"),
            ("on_should_continue", "after_tools", "on_should_continue"),
        )
    ),
    Scenario(
        "error in an event hook",
        "`on_event` raises at the first event of the model.",
        act=at("model_stream", "on_event", fail),
        fails=True,
    ),
    Scenario(
        "error in structured_output",
        "`on_structured_output_config` raises.",
        (JSON,),
        act=at("structured_output", "on_structured_output_config", fail),
        output=City,
        fails=True,
    ),
    Scenario(
        "error of the model",
        "The model fails after its first piece of text.",
        ({"text": "Well", "error": "unavailable", "error_after": 1},),
        fails=True,
    ),
    Scenario(
        "error in an isolated hook",
        "`on_iteration` raises: it is logged, and the run goes on.",
        act=at("before_model", "on_iteration", fail),
    ),
)

INTERRUPTS: Final = (
    *(
        Scenario(
            f"interrupt {place}",
            f"`ctx.interrupt` in `on_interrupt_boundary` at `{phase}`; then the run that goes on.",
            TOOL_TURN,
            TOOLS,
            at(phase, "on_interrupt_boundary", ask),
            answers=("yes",),
        )
        for place, phase in (
            ("before the model", "before_model"),
            ("after the model", "after_model"),
            ("before the tools", "before_tools"),
            ("after the tools", "after_tools"),
        )
    ),
    Scenario(
        "interrupt in the second iteration",
        "The same at `before_tools`, after one iteration with a tool.",
        (calls("look"), calls("look", "read"), "Done"),
        TOOLS,
        at("before_tools", "on_interrupt_boundary", ask, iteration=1),
        answers=("yes",),
    ),
    Scenario(
        "interrupt after the answer",
        "At `after_model`, when the model has given its answer already.",
        act=at("after_model", "on_interrupt_boundary", ask),
        answers=("yes",),
    ),
    Scenario(
        "approval given",
        "A tool needs a person's approval, another of the same batch does not.",
        (calls("send", "look"), "Done"),
        (send, look),
        answers=(True,),
    ),
    Scenario(
        "approval denied",
        "The person says no: the model is told.",
        (calls("send"), "Done"),
        (send,),
        answers=({"approved": False},),
    ),
    Scenario(
        "approval cancelled",
        "The person cancels the question.",
        (calls("send"), "Done"),
        (send,),
        answers=(CANCELLED,),
    ),
    Scenario(
        "interrupt in a tool",
        "A tool asks while another of its batch runs; the run that goes on calls it again, and it "
        "asks again.",
        (calls("asks", "look"),),
        (asks, look),
        answers=("yes",),
    ),
)

GONE: Final = (
    Scenario(
        "consumer breaks off in the model's stream",
        "The consumer leaves its `async for` at the first piece of text.",
        leaves=leaving("TEXT_MESSAGE_CONTENT", close=False),
    ),
    Scenario(
        "consumer closes the run in the model's stream",
        "The same, inside `async with host.run(...)`.",
        leaves=leaving("TEXT_MESSAGE_CONTENT", close=True),
    ),
    Scenario(
        "consumer breaks off while a tool runs",
        "The consumer leaves at what the tool reports.",
        (calls("hangs", "waits"),),
        (hangs, waits),
        leaves=leaving("CUSTOM", close=False),
    ),
    Scenario(
        "consumer closes the run while a tool runs",
        "The same, and it closes the run.",
        (calls("hangs", "waits"),),
        (hangs, waits),
        leaves=leaving("CUSTOM", close=True),
    ),
    Scenario(
        "run cancelled while a tool runs",
        "`run.cancel` from another task.",
        (calls("hangs", "waits"),),
        (hangs, waits),
        leaves=stopping("cancel", "CUSTOM"),
    ),
    Scenario(
        "run closed by another task while a tool runs",
        "`run.aclose` from another task.",
        (calls("hangs", "waits"),),
        (hangs, waits),
        leaves=stopping("aclose", "CUSTOM"),
    ),
    Scenario(
        "task cancelled while a tool runs",
        "The task that consumes the run is cancelled.",
        (calls("hangs", "waits"),),
        (hangs, waits),
        leaves=stopping("task", "CUSTOM"),
    ),
)

SHORT_CIRCUITS: Final = (
    Scenario(
        "around_run answers",
        "A layer between `outer` and `inner` answers in the run's place.",
        layers=between(AnswersRun),
    ),
    Scenario(
        "around_step answers",
        "It answers in the iteration's place, and that is the answer.",
        layers=between(AnswersStep),
    ),
    Scenario(
        "around_model_call answers",
        "It answers in the model's place.",
        layers=between(AnswersModel),
    ),
    Scenario(
        "around_tool_call answers",
        "It answers in the tool's place.",
        (calls("look"), "Done"),
        (look,),
        layers=between(AnswersTool),
    ),
)

GROUPS: Final = {
    "Runs that succeed": ENDINGS,
    "`ctx.abort`": ABORTS,
    "Failures": ERRORS,
    "Interrupts, and the runs that go on": INTERRUPTS,
    "A consumer that goes, and runs stopped from outside": GONE,
    "Layers that answer themselves": SHORT_CIRCUITS,
}
SCENARIOS: Final = tuple(scenario for group in GROUPS.values() for scenario in group)
