"""Runs that go on at the same time: each goes as if it were alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ag_ui.core import BaseEvent

from interpose.testing.contracts.bench import Bench, Driven, settled
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.outcomes import Outcome, alone, outcome
from interpose.testing.contracts.players import StreamPlayer, players
from interpose.testing.contracts.playing import listening
from interpose.testing.contracts.recording import own_streams
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.scripts import ADA, BOB, Script, long, renamed, short
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.state_image import StateImage
from interpose.testing.contracts.subject import Subject

Order = Callable[[Driven, Driven], Awaitable[None]]

_EXPECTED: Final = (
    "a run goes as it does alone: what belongs to it is kept on self, which is made for each run, "
    "and what runs share on purpose is made in lifespan"
)


async def no_shared_state(subject: Subject) -> Finding | None:
    """Play two runs that lie inside each other, in two hosts and then in one."""
    image = StateImage(subject)
    try:
        for player in players(subject):
            pair = _Pair(image, Bench(subject, player))
            streams: list[Sequence[BaseEvent]] = [()]
            if isinstance(player, StreamPlayer):
                streams = [short(), long(subject), *await own_streams(subject)]
            for events in streams:
                if await pair.look(events) is not None:
                    return await smallest(events, pair.look) if events else await pair.look(())
        return None
    finally:
        image.restore()


class _Pair:
    """Plays two runs against each other."""

    def __init__(self, image: StateImage, bench: Bench) -> None:
        self._image = image
        self._bench = bench
        self._plays = list(_PLAYS)

    async def look(self, events: Sequence[BaseEvent]) -> Finding | None:
        """Return what is wrong with two runs of these events."""
        scripts = [Script(renamed(events, marker), marker) for marker in (ADA, BOB)]
        expected = [await self._alone(script) for script in scripts]
        for play in self._plays:
            finding = await self._found(scripts, expected, *play)
            if finding is not None:
                self._plays = [play]  # what is left to do is to find a smaller stream
                return finding
        return None

    async def _alone(self, script: Script) -> Outcome:
        self._image.restore()
        return await alone(self._bench, script)

    async def _found(
        self,
        scripts: Sequence[Script],
        expected: Sequence[Outcome],
        hosts: int,
        told: str,
        order: Order,
    ) -> Finding | None:
        self._image.restore()
        found, changed = await self._together(scripts, order, hosts)
        named = f"\n{listed(changed)} changed during the runs" if changed else ""
        houses = "in one host" if hosts == 1 else "each in a host of its own"
        where = f"two runs{self._bench.player.said}, {houses}, {told}"
        for index, now in enumerate(found):
            number = ("first", "second")[index]
            leak = now.leak_of(scripts[1 - index].marker)
            if leak:
                said = f"what was said in the other run reached the {number}: {leak}"
                return Finding(f"{where}: {said}{named}", _EXPECTED)
            if hosts == 1 or (now.is_refused and not changed):
                continue  # in one host, what lifespan made may limit runs on purpose
            differs = now.differs(expected[index])
            if differs and not (await self._alone(scripts[index])).differs(expected[index]):
                said = f"the {number} was not what it is alone: {differs}"
                return Finding(f"{where}: {said}{named}", _EXPECTED)
        return None

    async def _together(
        self, scripts: Sequence[Script], order: Order, hosts: int
    ) -> tuple[list[Outcome], list[str]]:
        first, second = scripts
        with listening() as logged:
            async with self._bench.opened() as one, self._bench.opened() as two:
                other = one if hosts == 1 else two
                runs = (one.drive(first), other.drive(second))
                await order(*runs)
        lines = () if hosts == 1 else tuple(logged)
        found = [
            # What the operator was told of the other run is none of this one's.
            outcome(opened, run, script, [line for line in lines if others.marker not in line])
            for opened, run, script, others in zip(
                (one, other), runs, scripts, reversed(scripts), strict=True
            )
        ]
        return found, self._image.changes()


# How two runs lie in time -------------------------------------------------------------------
async def _in_turns(first: Driven, second: Driven) -> None:
    both = (first, second)
    while not (first.is_over and second.is_over):
        ready = [each for each in both if not each.is_over and not each.waits]
        for driven in ready:
            await driven.step()
        if ready:
            continue
        waiting = [each for each in both if not each.is_over]
        if not await settled(lambda: not all(each.waits for each in waiting)):  # noqa: B023
            return


async def _inside(first: Driven, second: Driven) -> None:
    await first.play(most=5)
    while not second.is_over and await second.step():
        pass
    await first.play()
    await second.play()


async def _after(first: Driven, second: Driven) -> None:
    await first.play()
    await second.play()


_PLAYS: Final[tuple[tuple[int, str, Order], ...]] = (
    (2, "one after the other", _after),
    (2, "the second while the first was half-way", _inside),
    (2, "an event of each in turn", _in_turns),
    (1, "one after the other", _after),
    (1, "an event of each in turn", _in_turns),
)
"""In how many hosts, how this is told, and how it is done."""


def listed(names: Sequence[str]) -> str:
    """Return the first few names as one text."""
    return " and ".join(names[:3])


RULES: Final = (
    Rule(
        "no-shared-state",
        "A server runs many users at once. State on the class, the module or a shared object "
        "mixes them up: one user reads what another one said.",
        no_shared_state,
    ),
)
