"""A run that is repeated starts clean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ag_ui.core import BaseEvent

from interpose.testing.contracts.bench import Bench
from interpose.testing.contracts.endings import template
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.neighbours import DOES, repeats
from interpose.testing.contracts.outcomes import Outcome, errors, outcome
from interpose.testing.contracts.players import StreamPlayer, players
from interpose.testing.contracts.playing import listening
from interpose.testing.contracts.recording import own_streams
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules.isolation_rules import listed
from interpose.testing.contracts.scripts import Script, message
from interpose.testing.contracts.state_image import StateImage
from interpose.testing.contracts.subject import Subject

_EXPECTED: Final = (
    "a second attempt goes as a first one does. Each attempt has an instance and a setup of its "
    "own; on_input and on_start are called once for the run, and what is kept elsewhere by the "
    "run's id is still there from the attempt before"
)


async def clean_attempt(subject: Subject) -> Finding | None:
    """Let a layer outside repeat the run, and compare the second attempt with a first one."""
    image = StateImage(subject)
    try:
        for player in players(subject):
            bench = Bench(subject, player, outside=[repeats()])
            streams: list[Sequence[BaseEvent]] = [()]
            if isinstance(player, StreamPlayer):
                streams += [message(), template(), *await own_streams(subject)]
            for events in streams:
                finding = await _of_stream(bench, image, events)
                if finding is not None:
                    return finding
        return None
    finally:
        image.restore()


async def _of_stream(
    bench: Bench, image: StateImage, events: Sequence[BaseEvent]
) -> Finding | None:
    script = Script(tuple(events))
    _, first = await _played(bench, image, script, "")
    if first.error is not None:
        return None  # it does not take the run at all
    for told, does, earlier in _earlier(events):
        attempts, second = await _played(bench, image, replace(script, first=earlier), does)
        if attempts < 2 and not second.is_refused:  # noqa: PLR2004 - it is about the second
            continue  # the failure never came to the layer that repeats
        changed = image.changes()
        said = second.differs(first)
        if said and second.logged:
            # What is wrong with the first attempt alone is no matter of the second.
            _, failed = await _played(bench, image, earlier, "")
            said = second.without(failed.logged).differs(first)
        if said:
            named = f"\n{listed(changed)} changed during the attempts" if changed else ""
            return Finding(
                f"a layer further out repeated the run{bench.player.said}: {told}. "
                f"The second attempt was not what a first one is: {said}{named}",
                _EXPECTED,
                events,
            )
    return None


def _earlier(events: Sequence[BaseEvent]) -> Iterator[tuple[str, str, Script]]:
    """Yield what the first attempt comes to: how it is told, and how it is done."""
    whole = tuple(events)
    size = len(whole)
    for after in dict.fromkeys((0, size // 2, size)):
        failing = Script(whole, ending="raises", after=after)
        yield f"the first attempt failed after {after} of the agent's events", "failed", failing
    yield "the first attempt ended well, and was thrown away", "always", Script(whole)
    refused = Script(whole, ending="run-error", after=size // 2)
    yield "the agent ended the first attempt with RUN_ERROR", "failed", refused


async def _played(
    bench: Bench, image: StateImage, script: Script, does: str
) -> tuple[int, Outcome]:
    """Return how many attempts there were, and what came of the last."""
    image.restore()
    with listening() as logged:
        async with bench.opened() as opened:
            driven = opened.drive(script, **{DOES: does})
            await driven.play()
            attempts = list(opened.heard(script))
    found = outcome(opened, driven, script)
    # What a layer did is told by its own name; the rest is that an attempt failed.
    own = f"ERROR {bench.subject.layer_id}: "
    lines = tuple(line for line in errors(logged) if line.startswith(own))
    last = tuple(attempts[-1]) if attempts else ()
    return len(attempts), replace(found, heard=last, logged=lines)


RULES: Final = (
    Rule(
        "clean-attempt",
        "A layer further out may retry a run that failed before it said anything. State that "
        "outlives the attempt makes the retry fail, or say things twice.",
        clean_attempt,
    ),
)
