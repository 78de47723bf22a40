"""Checks of what a loop plays through the middleware: valid, the same, and no more each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from ag_ui.core import BaseEvent

from interpose.agui import Verifier
from interpose.errors import InvalidStream
from interpose.payloads import ModelRequest
from interpose.testing.contracts.blaming import own_failure
from interpose.testing.contracts.cutting import joined, split
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import difference, fold
from interpose.testing.contracts.loop_models import Turns
from interpose.testing.contracts.loop_playing import LoopHeard, calling, play_loop
from interpose.testing.contracts.loop_tools import Tools
from interpose.testing.contracts.material import sentences
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.subject import Subject

_ITERATIONS: Final = 4
_LONGEST: Final = 160


async def loop_stream(subject: Subject) -> Finding | None:
    """Play scripts with the model's texts in pieces of all sizes; all must come to the same."""
    for what, turns in _scripts(subject):
        whole = await play_loop(subject, turns, cut=joined)
        finding = _sound(subject, what, whole)
        if finding is not None:
            return finding
        for how, cut in (("word by word", None), ("in pairs of letters", _in_pairs)):
            other = await play_loop(subject, turns, cut=cut)
            finding = _sound(subject, what, other) or _same(what, how, whole, other)
            if finding is None:
                continue
            again = await play_loop(subject, turns, cut=joined)
            if _same(what, how, whole, again) is None:
                return finding
    return None


def _in_pairs(events: Sequence[BaseEvent]) -> Sequence[BaseEvent]:
    return split(events, 2)


def _sound(subject: Subject, what: str, heard: LoopHeard) -> Finding | None:
    error = heard.last.error
    if isinstance(error, InvalidStream):
        return Finding(
            f"{what}: what left is no valid stream: {error.message}",
            "a valid AG-UI stream leaves",
            _cut_off(heard.events),
        )
    said = own_failure(subject, heard.last)
    if said:
        return Finding(f"{what}: {said}", "what its hooks answer is what the loop takes")
    return None


def _same(what: str, how: str, whole: LoopHeard, other: LoopHeard) -> Finding | None:
    differs = difference(fold(whole.events), fold(other.events))
    where = "for the consumer"
    if not differs:
        differs = difference(_asked(whole.requests), _asked(other.requests))
        where = "in the next request of the model"
    if not differs:
        differs = difference(_done(whole), _done(other))
        where = "in what tools are given"
    if not differs:
        return None
    return Finding(
        f"{what}: with each text in one piece and {how}, it is not the same {where}: {differs}",
        "the same result however the model cuts its text",
    )


def _asked(requests: Sequence[ModelRequest]) -> dict[str, str]:
    return {
        f"message {number} of request {index}": f"{message.role}: {message.content}"
        for index, request in enumerate(requests, start=1)
        for number, message in enumerate(request.messages, start=1)
    }


def _done(heard: LoopHeard) -> dict[str, str]:
    return {each.key: f"{each.tool} {dict(each.args)}" for each in heard.executed}


def _cut_off(events: Sequence[BaseEvent]) -> Sequence[BaseEvent]:
    """Return the events until the first that breaks a rule."""
    verifier = Verifier()
    for number, event in enumerate(events, start=1):
        try:
            verifier.check(event)
        except InvalidStream:
            return events[:number]
    return events


def _scripts(subject: Subject) -> Iterator[tuple[str, Turns]]:
    # Shorter than what streams say: a loop says it three times.
    said = sentences(replace(subject, words=subject.words[:5]))[:_LONGEST]
    names = Tools(subject).own_names
    yield "an answer", [said]
    several = calling("look_up", "store", *names, text="Well.", query=said)
    yield "calls and an answer", [several, {"thinking": said, "text": said}]


async def steady_config(subject: Subject) -> Finding | None:
    """Let the loop go round, each time with the same; requests may grow by its history alone."""
    heard = await play_loop(subject, [calling("look_up")] * _ITERATIONS)
    requests = heard.requests[:_ITERATIONS]
    if len(requests) < _ITERATIONS:
        return None
    said = _repeated_prompt(requests) or _longer_prompt(requests) or _repeated_message(requests)
    if not said:
        return None
    return Finding(
        said,
        "what on_config adds holds for the call at hand: it looks for what is there already, or "
        "persists a change once",
    )


def _repeated_prompt(requests: Sequence[ModelRequest]) -> str:
    counts = [Counter(request.system_prompts) for request in requests]
    for prompt in counts[-1]:
        times = [count[prompt] for count in counts]
        if _grows(times):
            return f"the requests have the system prompt {prompt[:120]!r} {_told(times)} times"
    return ""


def _longer_prompt(requests: Sequence[ModelRequest]) -> str:
    joined_prompts = ["\n".join(request.system_prompts) for request in requests]
    added = [
        after[len(before) :] if after.startswith(before) else ""
        for before, after in pairwise(joined_prompts)
    ]
    if added[0] and len(set(added)) == 1:
        return f"each request adds to the system prompt, and keeps what was added: {added[0]!r}"
    return ""


def _repeated_message(requests: Sequence[ModelRequest]) -> str:
    counts = [
        Counter(
            f"{message.role}: {message.content}"
            for message in request.messages
            if message.role not in ("assistant", "tool", "reasoning")
        )
        for request in requests
    ]
    for message in counts[-1]:
        times = [count[message] for count in counts]
        if _grows(times):
            return f"the requests have the message {message[:120]!r} {_told(times)} times"
    return ""


def _grows(times: Sequence[int]) -> bool:
    return all(before < after for before, after in pairwise(times))


def _told(times: Sequence[int]) -> str:
    return ", ".join(str(count) for count in times)


def _no_loop(subject: Subject) -> str:
    if subject.uses_loop or subject.declaration.rewrites_history:
        return ""
    return "no hook of it is called by a loop alone"


def _no_config(subject: Subject) -> str:
    if {"on_config", "around_model_call", "on_structured_output_config"} & set(subject.facts.hooks):
        return ""
    return "it changes no request of a model"


RULES: Final = (
    Rule(
        "loop-stream",
        "In a loop, what a layer lets through is also what the model reads next and what tools "
        "are given; all of it comes in pieces of any size.",
        loop_stream,
        _no_loop,
    ),
    Rule(
        "steady-config",
        "on_config is asked for each model call. What it adds each time to what it added before "
        "costs tokens, and in the end the context.",
        steady_config,
        _no_config,
    ),
)
