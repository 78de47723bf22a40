"""Checks of what leaves: a valid stream, the same however it arrives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ag_ui.core import BaseEvent

from interpose.agui import Verifier
from interpose.errors import InvalidStream
from interpose.testing.contracts.finding import Finding
from interpose.testing.contracts.folding import difference, fold
from interpose.testing.contracts.material import cases
from interpose.testing.contracts.playing import play
from interpose.testing.contracts.rule import Rule
from interpose.testing.contracts.shrinking import smallest
from interpose.testing.contracts.subject import Subject


async def valid_stream(subject: Subject) -> Finding | None:
    """Play every case; what leaves must keep the rules of AG-UI."""

    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        heard = await play(subject, [events], strict=False)
        failure = heard.error
        said = failure.message if isinstance(failure, InvalidStream) else _broken(heard.events)
        if not said:
            return None
        return Finding(f"what left is no valid stream: {said}", "a valid AG-UI stream leaves")

    for case in cases(subject):
        finding = await smallest(case.events, look)
        if finding is not None:
            return finding
    return None


async def text_split(subject: Subject) -> Finding | None:
    """Play each case as it is, with every text in one piece, and with one character a piece."""

    async def look(events: Sequence[BaseEvent]) -> Finding | None:
        whole = await play(subject, [joined(events)])
        for how, cut in (("in these pieces", list(events)), ("letter by letter", split(events))):
            other = await play(subject, [cut])
            differs = difference(fold(whole.events), fold(other.events))
            if differs:
                return Finding(
                    f"with each text in one piece and {how}, it is not the same: {differs}",
                    "the same result however the text is cut",
                    cut,
                )
        return None

    for case in cases(subject):
        finding = await smallest(case.events, look)
        if finding is not None:
            return finding
    return None


def joined(events: Sequence[BaseEvent]) -> list[BaseEvent]:
    """Return the stream with every text in one piece, where its last piece was."""
    result: list[BaseEvent] = []
    pieces: dict[tuple[type[BaseEvent], str], int] = {}
    for event in events:
        key = _text_of(event)
        if key is None:
            result.append(event)
            continue
        before = pieces.pop(key, None)
        if before is not None:
            earlier = result[before]
            text = f"{earlier.delta}{event.delta}"  # type: ignore[attr-defined]
            del result[before]
            pieces = {each: at - (at > before) for each, at in pieces.items()}
            event = event.model_copy(update={"delta": text})  # noqa: PLW2901 - the longer one
        pieces[key] = len(result)
        result.append(event)
    return result


def split(events: Sequence[BaseEvent], size: int = 1) -> list[BaseEvent]:
    """Return the stream with texts in pieces of ``size`` characters."""
    result: list[BaseEvent] = []
    for event in events:
        if _text_of(event) is None:
            result.append(event)
            continue
        delta: str = event.delta  # type: ignore[attr-defined]
        pieces = (delta[at : at + size] for at in range(0, len(delta), size))
        result += (event.model_copy(update={"delta": piece}) for piece in pieces)
    return result


def _text_of(event: BaseEvent) -> tuple[type[BaseEvent], str] | None:
    if not isinstance(getattr(event, "delta", None), str):
        return None
    ident = getattr(event, "message_id", None) or getattr(event, "tool_call_id", None)
    return (type(event), str(ident))


def _broken(events: Sequence[BaseEvent]) -> str:
    verifier = Verifier()
    try:
        for event in events:
            verifier.check(event)
        verifier.finish()
    except InvalidStream as error:
        return error.message
    return ""


def _no_stream(subject: Subject) -> str:
    return "" if subject.touches_stream else "no event passes through it"


RULES: Final = (
    Rule(
        "valid-stream",
        "Consumers refuse a stream that breaks the rules; strict clients lose the whole run.",
        valid_stream,
        _no_stream,
    ),
    Rule(
        "text-split",
        "A model cuts its text anywhere. What is found only when it lies in one piece leaks "
        "whenever it does not.",
        text_split,
        _no_stream,
    ),
)
