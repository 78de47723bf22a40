"""Checks that what ends a run on purpose ends it: no layer on the way swallows it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ag_ui.core import (
    BaseEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedInterruptOutcome,
)

from interpose.errors import Reject
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.loop_models import Turns
from interpose.testing.contracts.loop_playing import Stage, calling, play_loop
from interpose.testing.contracts.playing import Heard, listening, play
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.subject import Subject
from interpose.testing.contracts.troubles import (
    ACTS,
    QUESTION,
    Act,
    Notes,
    trouble,
)
from interpose.testing.events import finished, text


def _nothing(_: object) -> None:
    """Do nothing: the tool itself does it."""


_STREAM: Final = tuple(text("Well, ", "hello."))
_TURNS: Final = (calling("look_up", text="Let me see."), "There it is.")
_OUTCOMES: Final = (
    (
        RunFinishedInterruptOutcome(interrupts=[QUESTION]),
        Act("ends a run that waits for people", _nothing, "interrupt"),
    ),
    (
        RunFinishedCancelledOutcome(),
        Act("ends a run that was cancelled", _nothing, "cancelled"),
    ),
)
_TOOLS: Final = (
    ("ask_first", Act("asks people with ctx.ask", _nothing, "interrupt")),
    ("give_up", Act("calls ctx.abort", _nothing, "cancelled")),
)
_TURNS_OF_LAYERS: Final = 200
"""Turns of the event loop after which a run that was cancelled has to be over."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run came to. ``repeated``: what ended it was done more than once."""

    outcome: str
    code: str
    questions: int
    repeated: bool = False

    @classmethod
    def of(cls, heard: Heard, notes: Notes | None = None) -> Ending:
        """Return what a run came to for its consumer."""
        repeated = notes is not None and notes.acted > 1
        last = heard.events[-1] if heard.events else None
        if isinstance(last, RunErrorEvent):
            return cls("error", last.code or "", 0, repeated)
        outcome = getattr(last, "outcome", None)
        kind = getattr(outcome, "type", "success")
        return cls(kind, "", len(getattr(outcome, "interrupts", ())), repeated)

    def __str__(self) -> str:
        code = f" ({self.code})" if self.code else ""
        asked = f" with {self.questions} question(s)" if self.questions else ""
        return f"{self.outcome}{code}{asked}"


async def control_flow(subject: Subject) -> Finding | None:
    """Let layers further in, and tools, end the run; it must end so for the consumer, too."""
    hooks = subject.facts.hooks
    finding: Finding | None = None
    if subject.touches_stream:
        finding = await _in_a_stream(subject)
    if "around_step" in hooks or "around_model_call" in hooks:
        finding = finding or await _in_a_loop(subject, "around_model_call")
    if "around_tool_call" in hooks:
        finding = finding or await _in_a_loop(subject, "around_tool_call")
        finding = finding or await _in_a_tool(subject)
        finding = finding or await _cancelled(subject)
    return finding


async def _in_a_stream(subject: Subject) -> Finding | None:
    for outcome, act in _OUTCOMES:
        stream = [*_STREAM, finished(outcome=outcome)]
        heard = await play(subject, stream)
        if not heard.inputs or isinstance(heard.error, Reject):
            continue  # the middleware answered in its place, or refused
        finding = _judged("the agent", act, heard, None, stream)
        if finding is not None:
            return finding
    # What rewrites history cannot wrap a run, and only such a layer can stand further in than one.
    hooks = ("on_event",) if subject.declaration.rewrites_history else ("on_event", "around_run")
    for act in ACTS:
        for hook in hooks:
            notes = Notes()
            heard = await play(subject, _STREAM, inside=[trouble(subject, hook, act, notes)])
            finding = _judged(f"{hook} of a layer further in", act, heard, notes, _STREAM)
            if finding is not None:
                return finding
    return None


async def _in_a_loop(subject: Subject, hook: str) -> Finding | None:
    for act in ACTS:
        notes = Notes()
        heard = await play_loop(subject, _TURNS, inside=[trouble(subject, hook, act, notes)])
        finding = _judged(f"{hook} of a layer further in", act, heard.last, notes)
        if finding is not None:
            return finding
    return None


async def _in_a_tool(subject: Subject) -> Finding | None:
    for tool, act in _TOOLS:
        turns: Turns = (calling("look_up", tool), "Done.")
        heard = await play_loop(subject, turns)
        asked = any(each.tool == tool for each in heard.begun)
        finding = _judged(f"the tool {tool!r}", act, heard.last, None) if asked else None
        if finding is not None:
            return finding
    return None


def _judged(
    where: str, act: Act, heard: Heard, notes: Notes | None, stream: Sequence[BaseEvent] = ()
) -> Finding | None:
    if notes is not None and not notes.acted:
        return None  # the middleware gave another answer first
    ending = Ending.of(heard, notes)
    expected = f"the run ends as {act.outcome}{f' ({act.code})' if act.code else ''}"
    if ending.outcome != act.outcome or (act.code and ending.code != act.code):
        return Finding(f"{where} {act.name}, and the run ends as {ending}", expected, stream)
    if act.outcome == "interrupt" and not ending.questions:
        return Finding(f"{where} {act.name}, and the question is lost", expected, stream)
    if ending.repeated and notes is not None:
        return Finding(
            f"{where} {act.name}, and the inner part was called again: {notes.acted} times in all",
            "what ends a run on purpose is never repeated",
            stream,
        )
    return None


async def _cancelled(subject: Subject) -> Finding | None:
    """Cancel a run while a tool waits."""
    stage = Stage(subject, (calling("wait"), "Done."))
    with listening():
        async with stage:
            run = stage.host.run(stage.asked(), **stage.options("ada"))
            playing = asyncio.ensure_future(_drained(run))
            for _ in range(_TURNS_OF_LAYERS):
                await asyncio.sleep(0)
                if stage.tools.executed or playing.done():
                    break
            if not stage.tools.executed or playing.done():
                await playing
                return None
            run.cancel("enough")
            for _ in range(_TURNS_OF_LAYERS):
                await asyncio.sleep(0)
                if playing.done():
                    break
            if not playing.done():
                playing.cancel()
                await asyncio.wait({playing}, timeout=1.0)
                return Finding(
                    "the run was cancelled while a tool waited, and it went on",
                    "CancelledError passes, and the run ends",
                )
            await playing
            result = await run
    if result.outcome == "cancelled" and len(stage.tools.executed) == 1:
        return None
    return Finding(
        f"the run was cancelled while a tool waited; it ended as {result.outcome}, and the tool "
        f"was begun {len(stage.tools.executed)} time(s)",
        "CancelledError passes, and the run ends as cancelled",
    )


async def _drained(run: object) -> list[BaseEvent]:
    return [event async for event in run]  # type: ignore[attr-defined]


def _spared(subject: Subject) -> str:
    if subject.touches_stream or "around_tool_call" in subject.facts.hooks:
        return ""
    return "nothing that ends a run passes through it"


RULES: Final = (
    Rule(
        "control-flow",
        "A refusal, a pause for people, an abort: the run has been decided about. A layer that "
        "catches it turns a no into a yes, and runs again what was stopped.",
        control_flow,
        _spared,
    ),
)
