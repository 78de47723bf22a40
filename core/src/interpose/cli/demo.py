"""``interpose demo``: a chain at work, offline, in any folder."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from ag_ui.core import Message, RunAgentInput, UserMessage

from interpose.cli.demo_config import FILE_NAME, DemoConfig, demo_config
from interpose.cli.effects import Observed
from interpose.cli.exits import OK, PROBLEMS
from interpose.cli.probes import Probes
from interpose.cli.terminal import colored, complain
from interpose.errors import Problem, render
from interpose.host import Host, host_of
from interpose.logs import to_sink
from interpose.plan import Plan
from interpose.runtime.run import RunResult
from interpose.startup.built_in import built_in_parts
from interpose.startup.discovery import discover
from interpose.startup.prepared import Given
from interpose.startup.preparing import prepare

if TYPE_CHECKING:
    from loguru import Message as LogMessage

_QUESTION = "Where is my order A-1815?"
_PACE = 0.06
"""Seconds between two events when somebody watches."""


class View(Protocol):
    """How the demo is shown, part by part. ``pace``: seconds to wait before each event."""

    pace: float

    def before(self, config: DemoConfig, plan: Plan) -> None:
        """Show what is about to run."""

    @contextmanager
    def watching(self, probes: Probes) -> Iterator[None]:
        """Follow the run inside the block."""

    def after(self, observed: Observed, text: str) -> None:
        """Show what each layer did, and what the consumer saw."""


def main(arguments: argparse.Namespace) -> int:
    """Show a configuration, its plan, a run through it, and what each layer did to the run."""
    # The demo is the same everywhere: no file, no variable, no override.
    if arguments.loop:
        from interpose.cli import demo_loop

        return demo_loop.main()
    config = demo_config(discover())
    view = _view()
    with TemporaryDirectory(prefix="interpose-demo-") as folder:
        path = Path(folder)
        (path / FILE_NAME).write_text(config.toml, encoding="utf-8")
        given = Given(folder=path, files=(FILE_NAME,), built_in=built_in_parts())
        plan = prepare(given).plans["default"]
        view.before(config, plan)
        probes = Probes(plan)
        watched = replace(given, layers=probes.layers, options=(f"agent.delay={view.pace}",))
        host = host_of(watched, prepare(watched))
        logged: list[tuple[str, str]] = []

        def note(message: LogMessage) -> None:
            logged.append((str(message.record["extra"].get("layer", "")), message.rstrip("\n")))

        # After the host, which silences its plugins for embedders.
        to_sink(note, "INFO")
        with view.watching(probes):
            result = asyncio.run(_play(host))
    observed = Observed.of(plan, probes.boundaries(), logged)
    view.after(observed, result.text)
    if result.outcome != "success":
        lines = "\n".join(["The demo's run failed.", *(line for _, line in logged)])
        complain(render([Problem("bug", lines, hint="Report what it shows.")]))
        return PROBLEMS
    return OK


async def _play(host: Host) -> RunResult:
    messages: list[Message] = [UserMessage(id="question-1", content=_QUESTION)]
    async with host:
        return await host.run(RunAgentInput(thread_id="demo", run_id="demo-1", messages=messages))


def _view() -> View:
    if sys.stdout.isatty():
        from interpose.cli.demo_rich import RichView

        return RichView(_PACE, color=colored(sys.stdout))
    from interpose.cli.demo_plain import PlainView

    return PlainView()
