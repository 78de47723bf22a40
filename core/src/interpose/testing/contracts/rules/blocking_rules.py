"""No hook blocks the loop, in which all other runs wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ag_ui.core import BaseEvent

from interpose.testing.contracts.bench import Bench
from interpose.testing.contracts.blocking import noticing
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.players import StreamPlayer, players
from interpose.testing.contracts.recording import own_streams
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.scripts import Script, long, message
from interpose.testing.contracts.state_image import StateImage
from interpose.testing.contracts.subject import Subject

_EXPECTED: Final = (
    "hooks await what takes time: ctx.sleep, an asynchronous client, asyncio.to_thread for code "
    "that can only block"
)


async def no_blocking(subject: Subject) -> Finding | None:
    """Play runs to several ends, and notice blocking calls on the loop."""
    image = StateImage(subject)
    try:
        for player in players(subject):
            bench = Bench(subject, player)
            streams: list[Sequence[BaseEvent]] = [()]
            if isinstance(player, StreamPlayer):
                streams += [message(), long(subject), *await own_streams(subject)]
            for events in streams:
                for script in (Script(tuple(events)), Script(tuple(events), ending="raises")):
                    called = await _called(bench, image, script)
                    if called:
                        said = f"a call blocks the loop{player.said}: {called}"
                        return Finding(said, _EXPECTED, events)
        return None
    finally:
        image.restore()


async def _called(bench: Bench, image: StateImage, script: Script) -> str:
    """Return the first blocking call that a run makes, or ``""``."""
    image.restore()
    async with bench.opened() as opened:
        # What lifespan does happens before there are runs that could wait for it.
        with noticing(bench.subject.cls) as blocked:
            driven = opened.drive(script)
            await driven.play()
            if script.ending != "success":
                left = opened.drive(Script(script.events, "kwimple"))
                await left.play(most=2)
                await left.leave()
    return blocked.calls[0] if blocked.calls else ""


RULES: Final = (
    Rule(
        "no-blocking",
        "All runs of a process share one loop. While a hook waits without await, no user gets a "
        "word.",
        no_blocking,
    ),
)
