"""``interpose demo --loop``: a model, its tools, a few layers, and a person who is asked."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Protocol

from ag_ui.core import Message, RunAgentInput, UserMessage

from interpose.cli.demo_asking import ask
from interpose.cli.demo_config import FILE_NAME, DemoConfig, loop_config
from interpose.cli.demo_shop import QUESTION, refund
from interpose.cli.demo_story import Story
from interpose.cli.exits import OK, PROBLEMS
from interpose.cli.terminal import colored, complain
from interpose.errors import Problem, render
from interpose.host import host_of
from interpose.logs import to_sink
from interpose.plan import Plan
from interpose.runtime.run import RunResult
from interpose.startup.built_in import built_in_parts
from interpose.startup.discovery import discover
from interpose.startup.prepared import Given
from interpose.startup.preparing import prepare

if TYPE_CHECKING:
    from loguru import Message as LogMessage

    from interpose.runtime.sync import SyncHost

_ERROR: Final = 40
"""The level of a failure in the log."""
_PACE: Final = 0.03
"""Seconds before each piece of what the model says, when somebody watches."""


class View(Protocol):
    """How the demo is shown."""

    def before(self, config: DemoConfig, plan: Plan) -> None:
        """Show what is about to run."""

    def heading(self, text: str) -> None:
        """Begin a part."""

    def tell(self, who: str, what: str) -> None:
        """Show one line of the story; without ``who``, a line that begins a part of it."""

    def saw(self, text: str) -> None:
        """Show what the consumer saw."""


def main() -> int:
    """Show a configuration, its plan, a run that pauses for a person, and the run that goes on."""
    watched = sys.stdout.isatty()
    view = _view(watched=watched)
    config = loop_config(discover())
    with TemporaryDirectory(prefix="interpose-demo-") as folder:
        path = Path(folder)
        (path / FILE_NAME).write_text(config.toml, encoding="utf-8")
        given = Given(folder=path, files=(FILE_NAME,), built_in=built_in_parts())
        plan = prepare(given).plans["default"]
        view.before(config, plan)
        story = Story(view.tell)
        pace = _PACE if watched else 0.0
        given = replace(given, layers=story.layers, options=(f"models.clerk.delay={pace}",))
        host = host_of(given, prepare(given))
        failures: list[str] = []

        def note(message: LogMessage) -> None:
            layer = str(message.record["extra"].get("layer", ""))
            if message.record["level"].no >= _ERROR:
                failures.append(message.rstrip("\n"))
            elif layer in plan.order:
                view.tell(layer, message.record["message"].rstrip("\n"))

        # After the host, which silences its plugins for embedders.
        to_sink(note, "INFO")
        # The run is in a thread of its own, so that a question can wait, and be interrupted, here.
        with host.sync() as entered:
            result, code = _play(entered, view)
    view.tell("", f"It took {story.cost}.\n")
    view.saw(result.text)
    if result.outcome != "success":
        lines = "\n".join(["The demo's run failed.", *failures])
        complain(render([Problem("bug", lines, hint="Report what it shows.")]))
        return PROBLEMS
    return code


def _play(host: SyncHost, view: View) -> tuple[RunResult, int]:
    """Play the run, ask whatever it waits for, and go on until it has ended."""
    view.heading("The run")
    view.tell("the user says", QUESTION)
    messages: list[Message] = [UserMessage(id="question-1", content=QUESTION)]
    run_input = RunAgentInput(thread_id="demo", run_id="demo-1", messages=messages)
    result, code, number = host.run(run_input).result(), OK, 1
    while result.outcome == "interrupt":
        answers = []
        for interrupt in result.interrupts:
            view.tell("", f"The run waits for a person: {interrupt.message}")
            answered = ask(interrupt, refund.validate)
            answers.append(answered.entry)
            code = max(code, answered.code)
        number += 1
        run_input = RunAgentInput(
            thread_id="demo",
            run_id=f"demo-{number}",
            messages=list(result.messages),
            resume=answers,
        )
        view.tell("", "It goes on")
        result = host.run(run_input).result()
    return result, code


def _view(*, watched: bool) -> View:
    if watched:
        from interpose.cli.demo_rich import RichView

        return RichView(0.0, color=colored(sys.stdout))
    from interpose.cli.demo_plain import PlainView

    return PlainView()
