"""Checks that a failure stays a failure, and that its text stays with the operator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ag_ui.core import BaseEvent, RunAgentInput

from interpose.agui import to_json
from interpose.context import AgentContext
from interpose.errors import Transient
from interpose.testing.agents import Part
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.loop_models import Turns
from interpose.testing.contracts.loop_playing import LoopHeard, calling, play_loop
from interpose.testing.contracts.loop_tools import MOST, SECRET
from interpose.testing.contracts.playing import CaseAgent, Heard, case_agent, play_agent
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.subject import Subject
from interpose.testing.contracts.troubles import Notes, witness
from interpose.testing.events import failed, finished, started, text


@dataclass(frozen=True, slots=True)
class Failure:
    """How an agent fails. ``truncated``: it stops without an ending."""

    what: str
    parts: tuple[Part, ...]
    truncated: bool = False

    @property
    def stream(self) -> Sequence[BaseEvent]:
        """Its events."""
        return [part for part in self.parts if isinstance(part, BaseEvent)]


_TEXT: Final = tuple(text("Well, ", "hello."))
_FAILURES: Final = (
    Failure("the agent raised at once", (RuntimeError(f"db1 is gone, {SECRET}"),)),
    Failure("the agent raised midway", (*_TEXT, RuntimeError(f"db1 is gone, {SECRET}"))),
    Failure("the agent raised what may pass, each time", (Transient(f"db1 is busy, {SECRET}"),)),
    Failure("the agent sent RUN_ERROR", (*_TEXT, failed("It broke.", "broken"))),
    Failure("the agent sent RUN_ERROR without a code", (failed("It broke."),)),
    Failure("the agent's stream stopped without an ending", _TEXT, truncated=True),
)


class FailingAgent(CaseAgent):
    """Plays a failure. ``begun``: how many of its runs have begun."""

    begun = 0
    truncated = False

    async def run(self, run_input: RunAgentInput, ctx: AgentContext, /) -> AsyncIterator[BaseEvent]:
        """Play the failure."""
        self.begun += 1
        if self.begun > MOST:
            yield started(run_input)
            yield finished(run_input)
            return
        async for event in super().run(run_input, ctx):
            if self.truncated and event.type.value == "RUN_FINISHED":
                return
            yield event


async def exceptions(subject: Subject) -> Finding | None:
    """Let the agent, the model and tools fail; the failure has to arrive as one."""
    finding: Finding | None = None
    if subject.touches_stream:
        finding = await _of_agents(subject)
    hooks = subject.facts.hooks
    if {"around_model_call", "around_step"} & set(hooks):
        finding = finding or await _of_models(subject)
    if {"around_tool_call", "on_before_tool_call"} & set(hooks):
        finding = finding or await _of_tools(subject)
    return finding


async def _of_agents(subject: Subject) -> Finding | None:
    for failure in _FAILURES:
        made = case_agent(subject, failure.parts)
        agent = FailingAgent(failure.parts, made.points)
        agent.truncated = failure.truncated
        heard = await play_agent(subject, agent)
        if not 0 < agent.begun <= MOST:
            continue  # the middleware gave an answer of its own, or never gives up
        finding = _told(failure.what, heard, heard.events, failure.stream)
        if finding is not None:
            return finding
    return None


async def _of_models(subject: Subject) -> Finding | None:
    turns: Sequence[tuple[str, Turns]] = (
        ("the model refused", [{"error": "refused"}]),
        ("the model was unavailable, each time", [{"error": "unavailable"}]),
        ("the model broke off", [{"text": "Well, well.", "error": "invalid", "error_after": 1}]),
    )
    for what, script in turns:
        heard = await play_loop(subject, script)
        if not 0 < len(heard.requests) <= MOST:
            continue
        finding = _told(what, heard.last, heard.events)
        if finding is not None:
            return finding
    return None


async def _of_tools(subject: Subject) -> Finding | None:
    for tool, what in (("refuse", "a ToolError"), ("crash", "an exception")):
        notes = Notes()
        turns: Turns = (calling(tool), "Done.")
        heard = await play_loop(subject, turns, outside=[witness(notes)])
        finding = _judged(f"the tool {tool!r} raised {what}", tool, notes, heard)
        if finding is not None:
            return finding
    return None


def _judged(what: str, tool: str, notes: Notes, heard: LoopHeard) -> Finding | None:
    for info in notes.calls:
        if info.call.name == tool and info.source == "executed" and info.ok:
            return Finding(
                f"{what}, and the call counts as a success: {info.result.content[:160]!r}",
                "the error passes, or the result says that it is one: ToolResult(text, error=...)",
            )
    return _leaked(what, heard.events)


def _told(
    what: str, heard: Heard, events: Iterable[BaseEvent], stream: Sequence[BaseEvent] = ()
) -> Finding | None:
    if heard.result.outcome != "error":
        said = f" and the text {heard.result.text[:160]!r}" if heard.result.text else ""
        return Finding(
            f"{what}, and the run ended as {heard.result.outcome}{said}",
            "the failure passes, as an exception or as RUN_ERROR; who turns failures into "
            "something else on purpose excuses the check",
            stream,
        )
    return _leaked(what, events, stream)


def _leaked(
    what: str, events: Iterable[BaseEvent], stream: Sequence[BaseEvent] = ()
) -> Finding | None:
    for event in events:
        shown = to_json(event)
        if SECRET in shown:
            return Finding(
                f"{what}, and the consumer was shown the text of the exception: {shown[:300]}",
                "the text of an exception stays in the operator's log; the consumer gets a text "
                "that is written for it",
                stream,
            )
    return None


def _spared(subject: Subject) -> str:
    hooks = {"around_tool_call", "on_before_tool_call"}
    if subject.touches_stream or hooks & set(subject.facts.hooks):
        return ""
    return "no failure passes through it"


RULES: Final = (
    Rule(
        "exceptions",
        "A failure that looks like a success is believed, stored and never repaired; and the text "
        "of an exception tells strangers about the inside.",
        exceptions,
        _spared,
    ),
)
