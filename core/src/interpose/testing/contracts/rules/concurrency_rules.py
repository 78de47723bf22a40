"""What lifespan made serves many runs at once, and stands it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ag_ui.core import BaseEvent

from interpose.testing.contracts.bench import Bench
from interpose.testing.contracts.crowds import RUNS, Crowd, play_crowd, script
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.outcomes import Outcome, outcome
from interpose.testing.contracts.players import StreamPlayer, players
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules.isolation_rules import listed
from interpose.testing.contracts.scripts import message, short
from interpose.testing.contracts.state_image import StateImage
from interpose.testing.contracts.subject import Subject

_EXPECTED: Final = (
    "what lifespan made serves any number of runs at once: each goes as it does alone, is refused "
    "in order, or waits for its turn and gets it"
)

_REPLACED: Final = (
    "a run put something else in the place of self.shared: only that run's instance sees it, and "
    "what the run did is lost for all others"
)


async def shared_many_runs(subject: Subject) -> Finding | None:
    """Play many runs at once in one host; some fail, are cancelled or lose their consumer."""
    image = StateImage(subject)
    try:
        for player in players(subject):
            bench = Bench(subject, player)
            streams = [short(), message(), ()] if isinstance(player, StreamPlayer) else [()]
            found: Finding | None = None
            for events in streams:  # the first shows it; smaller ones may show it, too
                smaller, waits = await _of_crowds(bench, image, events)
                found = smaller or found
                if smaller is None or waits:
                    break
            if found is not None:
                return found
        return None
    finally:
        image.restore()


async def _of_crowds(
    bench: Bench, image: StateImage, events: Sequence[BaseEvent]
) -> tuple[Finding | None, bool]:
    """Return what is wrong with runs of these events, and whether they wait for ever."""
    image.restore()
    alone, replaces = await _alone(bench, events)
    if replaces:
        return Finding(
            _REPLACED, "shared stays what lifespan made; what changes is inside it"
        ), False
    image.restore()
    one_by_one = await play_crowd(bench, events, at_once=False)
    if one_by_one.stuck:
        said = f"one of them never ends, and waits in {one_by_one.stuck}"
        told = f"{RUNS} runs one by one, some of which are cancelled{bench.player.said}: {said}"
        return Finding(told, _EXPECTED, events), True
    image.restore()
    at_once = await play_crowd(bench, events, at_once=True)
    said = _said(alone, one_by_one, at_once)
    if not said:
        return None, False
    changed = image.changes()
    named = f"\n{listed(changed)} changed during the runs" if changed else ""
    told = f"{RUNS} runs at once{bench.player.said}: {said}{named}"
    return Finding(told, _EXPECTED, events), bool(at_once.stuck)


def _said(alone: Outcome, one_by_one: Crowd, at_once: Crowd) -> str:
    """Say what went wrong in a crowd that does not when its runs come one by one."""
    if at_once.stuck:
        return f"not all come to an end; one waits for ever in {at_once.stuck}"
    for before, now in zip(one_by_one.runs, at_once.runs, strict=False):
        if now.leak:
            return f"what was said in one of them reached another: {now.leak}"
        # If runs that come one by one differ, they do so on purpose, by what they share.
        on_purpose = bool(before.outcome.unmarked(before.marker).differs(alone))
        if now.is_disturbed or now.is_limited or on_purpose:
            continue
        differs = now.outcome.unmarked(now.marker).differs(alone)
        if differs:
            return f"one of them is not what it is alone: {differs}"
    new = [line for line in at_once.logged if line not in one_by_one.logged]
    if new:
        return f"the operator was told: {new[0]}"
    if one_by_one.last is not None and at_once.last is not None:
        before, now = one_by_one.last, at_once.last
        on_purpose = bool(before.outcome.unmarked(before.marker).differs(alone))
        differs = "" if on_purpose else now.outcome.unmarked(now.marker).differs(alone)
        if differs:
            return f"when all had ended, the next run was not what it is alone: {differs}"
    return ""


async def _alone(bench: Bench, events: Sequence[BaseEvent]) -> tuple[Outcome, bool]:
    """Play a run alone; also say whether it replaced ``shared``."""
    plan = script(RUNS, events)
    async with bench.opened() as opened:
        driven = opened.drive(plan)
        await driven.play()
        frame = driven.record.frames.get(bench.subject.layer_id)
        shared = opened.shared
        replaces = frame is not None and getattr(frame.instance, "shared", shared) is not shared
    return outcome(opened, driven, plan).unmarked(plan.marker), replaces


RULES: Final = (
    Rule(
        "shared-many-runs",
        "One host serves all users, and shared serves them at once. A lock that is not let go, or "
        "a collection that changes under a loop, stops everybody.",
        shared_many_runs,
    ),
)
