"""Check that nothing is changed in place: not what came in, and not what has left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ag_ui.core import BaseEvent, RunAgentInput
from pydantic import BaseModel

from interpose.authoring import CallRun, Layer, Middleware
from interpose.context import RunContext
from interpose.testing.contracts.bystanders import bystanders, full_input
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.material import calls, others, sentences, snapshot, subagents
from interpose.testing.contracts.playing import play
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.subject import Subject
from interpose.testing.contracts.watching import watched

_EXPECTED: Final = "it returns a changed copy: model_copy(update={...})"


@dataclass(slots=True)
class _Kept:
    """Objects, how they were when they were looked at, and what they are to the middleware."""

    things: list[tuple[BaseModel, dict[str, Any], str]] = field(default_factory=list)

    def keep(self, thing: BaseModel, what: str) -> None:
        """Remember how it is."""
        self.things.append((thing, thing.model_dump(warnings=False), what))

    def changed(self) -> str:
        """Say what is not as it was, or return ``""``."""
        for thing, before, what in self.things:
            after = thing.model_dump(warnings=False)
            if after != before:
                names = [name for name, value in before.items() if after.get(name) != value]
                return f"it changed {', '.join(names)} of {what} in place"
        return ""


async def no_mutation(subject: Subject) -> Finding | None:
    """Play what has depth, and compare everything afterwards with what it was."""

    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        changed = await _changed(subject, events)
        return Finding(changed, _EXPECTED) if changed else None

    said = sentences(subject)
    for events in (
        (*calls(subject), *others(said), *snapshot(said)),
        (*bystanders(), *subagents(said)),
    ):
        finding = await smallest(events, look)
        if finding is not None:
            return finding
    return None


async def _changed(subject: Subject, events: Sequence[BaseEvent]) -> str:
    kept = _Kept()
    copies = [event.model_copy(deep=True) for event in events]
    for copy in copies:
        kept.keep(copy, f"the agent's {copy.type.value}")
    asked = full_input(subject)
    kept.keep(asked, "the input of the run")
    if "settings" in subject.memo:  # others may have changed those of the subject by now
        untouched: BaseModel = subject.memo["settings"]
        subject = replace(subject, settings=untouched.model_copy(deep=True))
    subject, instances = watched(subject)
    kept.keep(subject.settings, "its settings")
    await play(
        subject,
        copies,
        run_input=asked,
        outside=[Layer(_witness(kept), id="outer-witness")],
        strict=False,
    )
    for instance in instances[:1]:
        if instance.settings is not subject.settings and instance.settings != subject.settings:
            return "it changed its settings in place"
    return kept.changed()


def _witness(kept: _Kept) -> type[Middleware[Any, Any]]:
    """Return a layer that remembers the input on its way in, and what leaves on its way out."""

    class Witness(Middleware):
        def on_input(self, _: RunContext, run_input: RunAgentInput, /) -> None:
            kept.keep(run_input, "the input of the run")

        async def around_run(
            self, _: RunContext, run_input: RunAgentInput, call_next: CallRun, /
        ) -> AsyncIterator[BaseEvent]:
            async for event in call_next(run_input):
                kept.keep(event, f"a {event.type.value} that had left it")
                yield event

    return Witness


RULES: Final = (
    Rule(
        "no-mutation",
        "Events, inputs and settings are shared with every other layer, with other runs and with "
        "the agent's memory: what is changed in place changes under their hands.",
        no_mutation,
    ),
)
