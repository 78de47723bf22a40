"""What a run came to, to be compared with the same run elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from interpose.agui import to_json
from interpose.errors import Reject
from interpose.runtime.run import RunResult
from interpose.testing.contracts.bench import Bench, Driven, Opened
from interpose.testing.contracts.folding import Said, fold
from interpose.testing.contracts.playing import listening
from interpose.testing.contracts.scripts import ADA, Script

_MADE_UP: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{16,64}\b"
    r"|\b0x[0-9a-f]+"
)
_AROUND: Final = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    ``told``: what the consumer got; ``heard``: what the agent got, call by call; as text.
    ``logged``: the errors that the operator was told of while it ran.
    """

    said: Said
    result: RunResult[Any] | None
    told: str
    heard: tuple[str, ...]
    logged: tuple[str, ...] = ()

    @property
    def error(self) -> BaseException | None:
        """What ended the run."""
        return None if self.result is None else self.result.error

    @property
    def is_refused(self) -> bool:
        """Whether a layer refused the run."""
        return isinstance(self.error, Reject)

    def differs(self, alone: Outcome) -> str:
        """Say how it differs from the run alone, or return ``""``."""
        found = compared(alone.said, self.said)
        if found:
            error = self.error
            return f"{found}\n({type(error).__name__}: {error})" if error is not None else found
        # Fewer calls are an answer that was kept on purpose.
        same = len(self.heard) >= len(alone.heard)
        found = compared(_calls(alone.heard), _calls(self.heard)) if same else ""
        if found:
            return found
        new = [line for line in self.logged if line not in alone.logged]
        return f"the operator was told: {new[0]}" if new else ""

    def unmarked(self, marker: str) -> Outcome:
        """Return it with the kit's first marker in the place of its own, to compare runs."""

        def plain(text: str) -> str:
            return text.replace(marker, ADA)

        return replace(
            self,
            said={plain(name): plain(text) for name, text in self.said.items()},
            heard=tuple(map(plain, self.heard)),
            logged=tuple(map(plain, self.logged)),
        )

    def without(self, logged: Sequence[str]) -> Outcome:
        """Return it without these errors."""
        return replace(self, logged=tuple(line for line in self.logged if line not in logged))

    def leak_of(self, marker: str) -> str:
        """Say where the marker of another run is in it, or return ``""``."""
        for where, text in (("its consumer", self.told), ("its agent", "\n".join(self.heard))):
            at = text.lower().find(marker)
            if at >= 0:
                shown = text[max(0, at - _AROUND) : at + len(marker) + _AROUND]
                return f"{where} got ...{' '.join(shown.split())}..."
        return ""


def compared(alone: Said, now: Said) -> str:
    """Say the first difference, or return ``""``."""
    for name in {**alone, **now}:
        before, after = alone.get(name), now.get(name)
        if before == after:
            continue
        if after is None:
            return f"there was no {name}; alone it is {_cut(before or '', 0)}"
        if before is None:
            return f"there was {name}: {_cut(after, 0)}; alone there is none"
        at = next(
            (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
            min(len(before), len(after)),
        )
        return f"{name} was {_cut(after, at)}\nand is {_cut(before, at)} alone"
    return ""


def _cut(text: str, at: int) -> str:
    start = max(0, at - _AROUND)
    shown = text[start : start + 2 * _AROUND]
    left = "..." if start + 2 * _AROUND < len(text) else ""
    return f"{'...' if start else ''}{json.dumps(shown, ensure_ascii=False)}{left}"


def outcome(opened: Opened, driven: Driven, script: Script, logged: Sequence[str] = ()) -> Outcome:
    """Return what a run came to."""
    return Outcome(
        said=fold(driven.events),
        result=driven.result,
        told="\n".join(to_json(event) for event in driven.events),
        heard=tuple(call for attempt in opened.heard(script) for call in attempt),
        logged=errors(logged),
    )


async def alone(bench: Bench, script: Script, **attributes: Any) -> Outcome:
    """Play a run alone, in a host of its own."""
    with listening() as logged:
        async with bench.opened() as opened:
            driven = opened.drive(script, **attributes)
            await driven.play()
    return outcome(opened, driven, script, logged)


def errors(logged: Sequence[str]) -> tuple[str, ...]:
    """Return the lines at ERROR, without what is made up in each run."""
    return tuple(_MADE_UP.sub("<id>", line) for line in logged if line.startswith("ERROR"))


def _calls(heard: Sequence[str]) -> Said:
    return {
        f"what reached the agent in call {number}": _MADE_UP.sub("<id>", text)
        for number, text in enumerate(heard, start=1)
    }
