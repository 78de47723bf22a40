"""``interpose run``: one run, streamed as it comes."""

from __future__ import annotations

import argparse
import asyncio
import sys
import traceback
from pathlib import Path
from typing import TypeAlias

from ag_ui.core import RunErrorEvent, RunFinishedEvent

from interpose.agents.scripted import ScriptedAgent, read_recording
from interpose.cli.asking import read_input
from interpose.cli.configured import choose_agent, require_agent, startup
from interpose.cli.exits import INTERRUPTED, OK, PROBLEMS
from interpose.cli.failing import failure
from interpose.cli.interrupting import Interrupted, cancelled_by_interrupt
from interpose.cli.showing import JsonLines, Text, trace_text
from interpose.cli.terminal import complain
from interpose.errors import Problem, ReplayError, UsageError, render
from interpose.host import Host, host_of
from interpose.logs import bound, to_stderr
from interpose.loop.running import LIMIT
from interpose.loop.sealing import SEPARATOR
from interpose.runtime.inputs import Asked
from interpose.runtime.run import RunResult
from interpose.runtime.tracing import Trace
from interpose.startup.prepared import Prepared

Show: TypeAlias = "JsonLines | Text"


def main(arguments: argparse.Namespace) -> int:
    """Run an agent once; the answer goes to standard output, everything else to standard error."""
    asked: Asked = arguments.text
    if arguments.input is not None:
        if arguments.thread is not None:
            raise UsageError(
                "--thread stands beside --input, which has a threadId of its own.",
                hint="Leave --thread out, or change the threadId.",
            )
        asked = read_input(arguments.input)
    agents: dict[str, object] = {}
    warnings: tuple[str, ...] = ()
    if arguments.replay is not None:
        agents[arguments.agent or "default"], warnings = _recorded(arguments.replay)
    with startup(arguments, agents=agents, assume_application=False) as (given, prepared):
        agent = choose_agent(prepared, arguments.agent or next(iter(agents), None))
        require_agent(prepared, agent, given)
        _warn(prepared)
        host = host_of(given, prepared)
        # After the host, which silences its plugins for embedders.
        to_stderr("INFO", traces=arguments.debug)
        for warning in warnings:
            bound().warning("{}", warning)
        show: Show = JsonLines() if arguments.json else Text()
        trace = Trace() if arguments.trace else None
        playing = _play(host, asked, agent, arguments.thread, show, trace)
        result, interrupted, limit = asyncio.run(playing)
        if trace is not None:
            print(trace_text(trace), file=sys.stderr)
        if limit is not None:
            print(f"The run ended at a limit: {limit}", file=sys.stderr)
        return _ending(result, interrupted, show.error, prepared, debug=arguments.debug)


def _recorded(name: str) -> tuple[ScriptedAgent, tuple[str, ...]]:
    path = Path(name)
    if not path.exists() or path.is_dir():
        raise ReplayError(
            f"The recording {name} " + ("is a folder." if path.is_dir() else "does not exist."),
            where=str(path.absolute()),
            hint="Name a file with AG-UI events, relative to the working directory.",
        )
    events, warnings = read_recording(path, name)
    return ScriptedAgent(events), tuple(warnings)


def _warn(prepared: Prepared) -> None:
    warnings = [problem for problem in prepared.warnings if problem.severity == "warning"]
    if warnings:
        complain(render(warnings))


async def _play(  # noqa: PLR0917 - what the command line said
    host: Host, asked: Asked, agent: str, thread: str | None, show: Show, trace: Trace | None
) -> tuple[RunResult, Interrupted, str | None]:
    """Return what the run came to, whether it was interrupted, and the limit that ended it."""
    limit: str | None = None
    async with host:
        run = host.run(asked, agent=agent, thread_id=thread, trace=trace)
        async with run:
            with cancelled_by_interrupt(run) as interrupted:
                async for event in run:
                    show(event)
                    if isinstance(event, RunFinishedEvent):
                        limit = (event.metadata or {}).get(LIMIT)
        result = await run
        show.end(result)
    return result, interrupted, limit


def _ending(
    result: RunResult,
    interrupted: Interrupted,
    event: RunErrorEvent | None,
    prepared: Prepared,
    *,
    debug: bool,
) -> int:
    """Say how the run ended, unless it simply succeeded; returns the exit code."""
    if interrupted and result.outcome != "success":
        complain("interrupted: the run was cancelled")
        return INTERRUPTED
    if result.outcome == "cancelled":
        complain(render([Problem("cancelled", "The run was cancelled before its end.")]))
        return PROBLEMS
    if result.outcome == "error":
        known = event.code if event is not None else None
        code = known or str(getattr(result.error, "code", "run-failed"))
        message = event.message if event else "The run failed."
        if debug and result.error is not None:
            told = "".join(traceback.format_exception(result.error))
            print(prepared.scrub(told), file=sys.stderr, end="")
        complain(render([failure(code, message, result.error, prepared.scrub)]))
        return PROBLEMS
    for interrupt in result.interrupts:
        said = f": {interrupt.message}" if interrupt.message else ""
        own = interrupt.id.partition(SEPARATOR)[0]  # what follows is the token for whoever goes on
        print(f"The run waits for an answer to {own}{said}", file=sys.stderr)
    return OK
