"""Checks that a run which pauses goes on the same, also in another process."""

from __future__ import annotations

from collections import Counter
from typing import Final

from interpose.errors import Reject
from interpose.loop_errors import InvalidResume
from interpose.testing.contracts.blaming import own_failure
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import Said, difference, fold
from interpose.testing.contracts.loop_models import Turns
from interpose.testing.contracts.loop_playing import LoopHeard, calling, play_turn
from interpose.testing.contracts.loop_tools import Tools
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.state_image import StateImage
from interpose.testing.contracts.subject import Subject


async def resume(subject: Subject) -> Finding | None:
    """Let a run pause twice; go on in the same process, then the same in others."""
    turns = _turns(subject)
    image = StateImage(subject)
    try:
        same = await play_turn(subject, turns)
        finding = _sound(subject, same, "in the same process")
        if finding is not None or any(_is_refused(run.error) for run in same.runs):
            return finding
        image.restore()
        other = await play_turn(subject, turns, new_process=image.restore)
        finding = _sound(subject, other, "in another process")
        if finding is None and not _is_stale(subject, other):
            finding = _differ(same, other)
        if finding is None:
            return None
        image.restore()
        again = await play_turn(subject, turns)
        return finding if _differ(same, again) is None else None
    finally:
        image.restore()


def _turns(subject: Subject) -> Turns:
    names = Tools(subject).own_names
    return (
        calling("look_up", "approved", *names, text="Let me see.", amount=1),
        calling("ask_first", amount=2),
        calling("look_up", *names, amount=3),
        "That is all.",
    )


def _sound(subject: Subject, heard: LoopHeard, where: str) -> Finding | None:
    asked: Counter[str] = Counter()
    for number, run in enumerate(heard.runs):
        said = own_failure(subject, run)
        if said:
            when = f"the run that went on {where}" if number else "the run that paused"
            return Finding(f"{when} failed: {said}", "a run goes on as if it had not paused")
        asked.update(each.id.partition("~")[0] for each in run.result.interrupts)
        twice = [question for question, times in asked.items() if times > 1]
        if twice:
            return Finding(
                f"{twice[0]!r} was answered, and is asked again by the run that went on {where}",
                "what was asked is noted in ctx.metadata, which comes back with the answer; self "
                "is new in each run",
            )
    return None


def _differ(same: LoopHeard, other: LoopHeard) -> Finding | None:
    differs = difference(_said(same), _said(other))
    if not differs:
        return None
    return Finding(
        f"gone on with in the same process and in another one, it is not the same: {differs}",
        "what a later run needs is in ctx.metadata, or in a store that processes share",
    )


def _said(heard: LoopHeard) -> Said:
    said: Said = {}
    for number, run in enumerate(heard.runs, start=1):
        questions = [each.id.partition("~")[0] for each in run.result.interrupts]
        error = run.error
        code = getattr(error, "code", type(error).__name__) if error else ""
        said[f"the outcome of run {number}"] = f"{run.result.outcome} {code} {questions}".strip()
        said |= {f"{name} of run {number}": text for name, text in fold(run.events).items()}
    for number, request in enumerate(heard.requests, start=1):
        shown = [*request.system_prompts, *(f"{m.role}: {m.content}" for m in request.messages)]
        said[f"request {number}"] = "\n".join(shown)
    for each in heard.executed:
        if each.tool != "look_up":
            said[f"the call {each.key.partition(':')[2]}"] = f"{each.tool} {dict(each.args)}"
    return said


def _is_refused(error: BaseException | None) -> bool:
    return isinstance(error, Reject)


def _is_stale(subject: Subject, heard: LoopHeard) -> bool:
    """Whether the pause does not outlive its process, since what was masked is nowhere else."""
    return subject.declaration.rewrites_history and isinstance(heard.last.error, InvalidResume)


RULES: Final = (
    Rule(
        "resume",
        "People answer after hours, and any process of the service may get their answer. What is "
        "known only to the process that asked is then gone, or wrong.",
        resume,
    ),
)
