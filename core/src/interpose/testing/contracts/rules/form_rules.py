"""Check of the two forms of a stream: chunks, and START, CONTENT and END."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from ag_ui.core import BaseEvent

from interpose.agui import CHUNKS
from interpose.context import RunContext
from interpose.testing.contracts.cutting import in_chunks
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import Said, difference, fold
from interpose.testing.contracts.material import Case, calls, halves, sentences, subagents
from interpose.testing.contracts.playing import play
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.rules.stream_rules import no_stream
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.subject import Subject
from interpose.testing.events import reasoning, text
from interpose.text import TextTransform


async def chunk_form(subject: Subject) -> Finding | None:
    """Play streams in both forms, and look for what waits for chunks that never come."""
    raw = subject.declaration.form == "raw"
    if not raw:
        dead = next(_never_called(subject), None) or await _blind(subject)
        if dead is not None:
            return dead
    for repeat_ids in (True, False) if raw else (True,):

        async def look(
            events: Sequence[BaseEvent], *, repeat_ids: bool = repeat_ids
        ) -> Finding | None:
            return await _compare(subject, events, repeat_ids=repeat_ids)

        for case in _cases(subject):
            finding = await smallest(case.events, look)
            if finding is not None:
                return finding
    return None


def _cases(subject: Subject) -> Sequence[Case]:
    said = sentences(subject)
    return (
        Case("texts", (*text(*halves(said)), *text(message_id="empty"))),
        Case("reasoning", tuple(reasoning(*halves(said)))),
        Case("tool calls", calls(subject)),
        Case("two subagents", subagents(said)),
    )


async def _compare(
    subject: Subject, events: Sequence[BaseEvent], *, repeat_ids: bool
) -> Finding | None:
    chunks = in_chunks(events, repeat_ids=repeat_ids)
    if fold(chunks) != fold(events):
        return None  # it cannot be said in chunks: two texts of one agent overlap
    long = await play(subject, [events], strict=False)
    short = await play(subject, [chunks], strict=False)
    differs = difference(fold(long.events), fold(short.events))
    if not differs:
        return None
    return Finding(
        f"with START, CONTENT and END, and in the chunk form, it is not the same: {differs}",
        "the same result in both forms",
        chunks,
    )


def _never_called(subject: Subject) -> Iterator[Finding]:
    events: dict[str, list[type[BaseEvent]]] = {}
    for method in subject.facts.on:
        events.setdefault(method.name, []).append(method.event)
    for name, classes in events.items():
        if CHUNKS.issuperset(classes):
            shown = ", ".join(cls.__name__ for cls in classes)
            yield Finding(
                f"{name} is marked @on({shown}), and is never called: the host expands chunks "
                f"before they reach a layer",
                'it takes the START, CONTENT and END events, or declares form = "raw"',
            )


async def _blind(subject: Subject) -> Finding | None:
    """Find what acts on chunks inside ``on_event`` or ``around_run``, and on nothing else."""
    if issubclass(subject.cls, TextTransform) or "declare" in vars(subject.cls):
        return None
    if not {"on_event", "around_run"} & set(subject.facts.hooks):
        return None
    events = _cases(subject)[0].events
    unchanged = fold(events)
    seen = await play(subject, [events], strict=False)
    if seen.ended_early or _texts(fold(seen.events)) != _texts(unchanged):
        return None
    # A raw layer rewrites history, which no around_run may, or only observes.
    rewrites = "around_run" not in subject.facts.hooks
    raw: dict[str, Any] = {
        "form": "raw",
        "observes_only": not rewrites,
        "rewrites_history": rewrites,
    }
    declaration = replace(subject.declaration, **raw)
    if rewrites:
        raw["on_event"] = _saying_what_becomes(subject.cls.on_event)
    cls = type(subject.cls.__name__, (subject.cls,), raw)
    chunks = in_chunks(events, repeat_ids=True)
    other = await play(replace(subject, cls=cls, declaration=declaration), [chunks], strict=False)
    if other.ended_early or _texts(fold(other.events)) == _texts(unchanged):
        return None
    return Finding(
        "it changes chunks and leaves whole events alone, and chunks never reach it: the host "
        "expands them before they reach a layer",
        'it takes the START, CONTENT and END events, or declares form = "raw"',
        events,
    )


def _saying_what_becomes(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that gives the event back where the original gives None."""

    async def on_event(self: Any, ctx: RunContext, event: BaseEvent) -> Any:
        answer = hook(self, ctx, event)
        answer = await answer if inspect.isawaitable(answer) else answer
        return event if answer is None else answer

    return on_event


def _texts(said: Said) -> Said:
    return {name: value for name, value in said.items() if name.startswith("text")}


RULES: Final = (
    Rule(
        "chunk-form",
        "One agent sends START, CONTENT and END, another one chunks. A middleware that handles "
        "one form only does nothing for the agents that send the other.",
        chunk_form,
        no_stream,
    ),
)
