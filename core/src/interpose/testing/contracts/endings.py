"""The ways in which a run can end, one after the other, the smallest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ag_ui.core import BaseEvent

from interpose.testing.contracts.bench import Driven, settled
from interpose.testing.contracts.neighbours import AT, DOES, INNER, OUTER
from interpose.testing.contracts.scripts import Script, message
from interpose.testing.events import tool_call

Act = Literal["", "cancel", "leave", "drop"]

_IN_A_LOOP: Final = (0, 2, 5)
_MOMENTS: Final = 8
_CASES: Final[dict[Act, str]] = {
    "cancel": "run.cancel was called",
    "leave": "the consumer went away",
    "drop": "the consumer's task was cancelled",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """One way to end a run.

    ``said``: as "the agent raised after 3 events". ``act``: what the kit does when the consumer has
    ``at`` events. ``beside``: the kit's other layers take part, by the run's ``attributes``.
    ``keeps``: the run is not over for good, so that something of it may be kept.
    """

    said: str
    script: Script
    act: Act = ""
    at: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)
    beside: bool = False
    keeps: bool = False

    async def play(self, driven: Driven) -> bool:
        """End a run in this way; False when it does not end."""
        if not self.act:
            return await driven.play()
        if not await driven.play(most=self.at):
            return False
        if self.act == "leave":
            return await driven.leave()
        if self.act == "drop":
            driven.ask()
            driven.task.cancel()
            return await settled(lambda: driven.is_over)
        driven.run.cancel("the kit cancels it")
        return await driven.play()


def template() -> tuple[BaseEvent, ...]:
    """Return a short stream: a message, and a call with its result."""
    call = tool_call("lookup_order", '{"number": 1}', result="It is on its way.")
    return (*message(), *call)


def success(events: Sequence[BaseEvent]) -> Ending:
    """Return the good end."""
    return Ending("the run ended well", Script(tuple(events)))


def endings(events: Sequence[BaseEvent], seen: int, *, thin: bool = False) -> Iterator[Ending]:
    """Yield the other ends. ``seen``: how many events a consumer gets at a good end.

    ``thin``: a run is long, or a loop plays it: not every moment is tried.
    """
    whole = Script(tuple(events))
    size = len(events)
    step = max(1, seen // _MOMENTS) if thin else 1
    for after in range(0, size + 1, step) if events else _IN_A_LOOP:
        script = Script(whole.events, ending="raises", after=after)
        yield Ending(f"the agent raised{_behind(after)}", script)
    for after in dict.fromkeys((0, size // 2, size)):
        script = Script(whole.events, ending="run-error", after=after)
        yield Ending(f"the agent sent RUN_ERROR{_behind(after)}", script)
    for act, said in _CASES.items():
        moments = range(0, seen, step) if act != "drop" else dict.fromkeys((0, 1, seen // 2))
        for at in moments:
            told = f"{said}{_behind(at)}" if at else f"{said} before the first event"
            if not at and act == "cancel":
                continue  # nothing has begun, so nothing has to be let go
            yield Ending(told, whole, act=act, at=at)
    for kind, said in (
        ("interrupt", "the run ended with an interrupt"),
        ("truncated", "the agent's stream broke off"),
    ):
        script = Script(whole.events, ending=kind)  # type: ignore[arg-type]
        yield Ending(said, script, keeps=kind == "interrupt")


def endings_by_others(events: Sequence[BaseEvent], *, has_inner: bool) -> Iterator[Ending]:
    """Yield the ends that other layers bring about."""
    script = Script(tuple(events))
    for does, said in {**(INNER if has_inner else {}), **OUTER}.items():
        for at in (0,) if "setup" in does or does == "answers" else (0, 2):
            attributes = {DOES: does, AT: at}
            yield Ending(f"{said}{_behind(at)}", script, at=at, attributes=attributes, beside=True)


def _behind(events: int) -> str:
    if not events:
        return ""
    return f" after {events} event{'s' if events > 1 else ''}"
