"""MCP servers in this process, and agents that call their tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import contextmanager
from typing import Any

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from playing import finished, say, started

log: list[str] = []
"""What the tools did."""
gates: dict[str, asyncio.Event] = {}
"""What the tool ``wait`` waits for, by name."""


@contextmanager
def fresh() -> Any:
    """Forget what earlier tests left."""
    log.clear()
    gates.clear()
    yield


def gate(name: str) -> asyncio.Event:
    """Return what the tool ``wait`` waits for."""
    return gates.setdefault(name, asyncio.Event())


server = MCPServer("shop")
other = MCPServer("other")
empty = MCPServer("empty")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    log.append(f"add {a} {b}")
    return a + b


@server.tool()
async def wait(name: str) -> str:
    """Wait until somebody opens the gate."""
    log.append(f"wait {name}")
    try:
        await gate(name).wait()
    except asyncio.CancelledError:
        log.append(f"cancelled {name}")
        raise
    log.append(f"done {name}")
    return name


@server.tool()
async def steps(number: int, ctx: Context[Any, Any]) -> str:
    """Report each step."""
    for step in range(number):
        await ctx.report_progress(step + 1, number, f"step {step + 1}")
    return "all steps"


@server.tool()
def broken() -> str:
    """Fail."""
    raise ValueError("private text")


@server.tool(meta={"ui": {"visibility": ["app"]}})
def for_frames() -> str:
    """Not for models."""
    log.append("for frames")
    return "hidden"


@other.tool()
def echo(text: str) -> str:
    """Say it again, and whom to ask."""
    return f"ask bob@example.com, {text}"


Pass = Sequence[tuple[str, str, str]]
"""The calls of one pass: id, tool, arguments."""


class Calling:
    """An agent that makes the calls of one pass after another, and then says ``done``.

    A tool is named by the end of its name. ``inputs`` are those of its passes.
    """

    def __init__(
        self, *passes: Pass, finish: Callable[[RunAgentInput], RunFinishedEvent] = finished
    ) -> None:
        self.passes = passes
        self.inputs: list[RunAgentInput] = []
        self.finish = finish

    async def run(self, run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
        self.inputs.append(run_input)
        number = len(self.inputs) - 1
        yield started(run_input)
        if number >= len(self.passes):
            for event in say("done", message=f"said {number}"):
                yield event
            yield finished(run_input)
            return
        for event in call_events(self.passes[number], self.offered()):
            yield event
        yield self.finish(run_input)

    def offered(self) -> list[str]:
        """Return the names of the tools that it was given last."""
        return [tool.name for tool in self.inputs[-1].tools or ()]


def call_events(calls: Pass, offered: Sequence[str] = ()) -> list[BaseEvent]:
    """Return the events of calls; a tool that is offered is named by the end of its name."""
    events: list[BaseEvent] = []
    for id_, tool, args in calls:
        name = next((name for name in offered if name.endswith(f"__{tool}")), tool)
        events += [
            ToolCallStartEvent(tool_call_id=id_, tool_call_name=name),
            ToolCallArgsEvent(tool_call_id=id_, delta=args),
            ToolCallEndEvent(tool_call_id=id_),
        ]
    return events


def results(events: Sequence[BaseEvent]) -> list[tuple[str, str]]:
    """Return the calls that were answered, in order, with what they were told."""
    return [
        (event.tool_call_id, str(event.content))
        for event in events
        if isinstance(event, ToolCallResultEvent)
    ]


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - anything may make it so
            await asyncio.sleep(0.001)


def bounded(work: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine; nothing may be left behind."""

    async def main() -> None:
        async with asyncio.timeout(60):
            with fresh():
                await work()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        assert rest == set(), rest

    asyncio.run(main())
