"""Checks of what leaves: a valid stream, the same however it arrives, whatever it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ag_ui.core import BaseEvent, TextMessageContentEvent, TextMessageStartEvent

from interpose.agui import Verifier
from interpose.errors import InvalidStream
from interpose.testing.agents import Part
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import expanded
from interpose.testing.contracts.material import sentences
from interpose.testing.contracts.oddities import odd_cases
from interpose.testing.contracts.playing import Heard, play
from interpose.testing.contracts.recording import all_cases
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.splitting import text_split
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import failed, tool_call


async def valid_stream(subject: Subject) -> Finding | None:
    """Play every case; what leaves must keep the rules of AG-UI."""

    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        return _invalid(await play(subject, [events], strict=False))

    for case in await all_cases(subject):
        finding = await smallest(case.events, look)
        if finding is not None:
            return finding
    return None


async def odd_streams(subject: Subject) -> Finding | None:
    """Play what is rare; the middleware must not fail on it, and what leaves must be valid."""

    async def look_for_crash(events: Sequence[BaseEvent]) -> Finding | None:
        return _crashed(await play(subject, [events], strict=False))

    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        return _invalid(await play(subject, [events], strict=False))

    for case in odd_cases(subject):
        heard = await play(subject, [case.events], strict=False)
        if heard.crash:
            return await smallest(case.events, look_for_crash)
        if _invalid(heard) is not None:
            return await smallest(case.events, look)
    for parts in _failing(subject):
        heard = await play(subject, parts, strict=False)
        finding = _crashed(heard) or _invalid(heard)
        if finding is not None:
            return Finding(
                f"when the agent fails in the middle: {finding.happened}",
                finding.expected,
                [part for part in parts if isinstance(part, BaseEvent)],
            )
    return None


def _failing(subject: Subject) -> Sequence[Sequence[Part]]:
    said = sentences(subject)
    began: list[BaseEvent] = [
        TextMessageStartEvent(message_id="message", role="assistant"),
        TextMessageContentEvent(message_id="message", delta=said[: len(said) // 2]),
    ]
    start, *_ = tool_call("lookup_order")
    return ((*began, RuntimeError("the agent failed")), (*began, start, failed("It failed.", "x")))


def _crashed(heard: Heard) -> Finding | None:
    if not heard.crash:
        return None
    return Finding(f"it failed, and the run with it: {heard.crash}", "it takes every valid stream")


def _invalid(heard: Heard) -> Finding | None:
    failure = heard.error
    said = failure.message if isinstance(failure, InvalidStream) else _broken(heard.events)
    if not said:
        return None
    return Finding(f"what left is no valid stream: {said}", "a valid AG-UI stream leaves")


def _broken(events: Sequence[BaseEvent]) -> str:
    verifier = Verifier()
    try:
        for event in expanded(events):
            verifier.check(event)
        verifier.finish()
    except InvalidStream as error:
        return error.message
    return ""


def no_stream(subject: Subject) -> str:
    """Say why the checks of streams do not concern a middleware that sees none."""
    return "" if subject.touches_stream else "no event passes through it"


RULES: Final = (
    Rule(
        "valid-stream",
        "Consumers refuse a stream that breaks the rules; strict clients lose the whole run.",
        valid_stream,
        no_stream,
    ),
    Rule(
        "text-split",
        "A model cuts its text anywhere. What is found only when it lies in one piece leaks "
        "whenever it does not.",
        text_split,
        no_stream,
    ),
    Rule(
        "odd-streams",
        "Agents send empty pieces, arguments that are no JSON, and values of every kind. A "
        "middleware that fails on one ends a run that was good.",
        odd_streams,
        no_stream,
    ),
)
