"""What each layer did to one run: counted where the stream passes from layer to layer.

A traced run plays the plain, nested form with a counter between two layers; a run without a trace
has none of it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from ag_ui.core import BaseEvent

Events = AsyncGenerator[BaseEvent, None]


@dataclass(slots=True)
class LayerTrace:
    """What one layer did to a run, over all its attempts.

    ``received`` and ``sent`` count events, ``dropped`` those for which nothing had left when the
    next one came. ``held``: most characters of text that had come and not left when more came.
    ``seconds``: time in the layer itself, waiting included, without the layers further in.
    """

    layer: str
    received: int = 0
    sent: int = 0
    dropped: int = 0
    held: int = 0
    seconds: float = 0.0
    _holding: int = field(default=0, repr=False)
    _silent: bool = field(default=False, repr=False)

    def take(self, event: BaseEvent) -> None:
        """Count an event that reaches the layer."""
        self.dropped += self._silent
        self.received += 1
        self._silent = True
        self.held = max(self.held, self._holding)
        self._holding += len(getattr(event, "delta", None) or "")

    def give(self, event: BaseEvent) -> None:
        """Count an event that leaves the layer."""
        self.sent += 1
        self._silent = False
        self._holding = max(0, self._holding - len(getattr(event, "delta", None) or ""))

    def end(self) -> None:
        """Close the count of one attempt."""
        self.dropped += self._silent
        self.held = max(self.held, self._holding)
        self._silent = False
        self._holding = 0


@dataclass(frozen=True, slots=True)
class TracedEvent:
    """An event at one place: what ``layer`` got (``in``) or gave (``out``)."""

    layer: str
    direction: Literal["in", "out"]
    event: BaseEvent


class Trace:
    """Records one run: ``host.run(..., trace=Trace())``. Good for one run.

    ``layers``: by id, outermost first. With ``content`` the events themselves are kept in
    ``events``; without it nothing of what the run says is.
    """

    def __init__(self, *, content: bool = False) -> None:
        self.content = content
        self.events: list[TracedEvent] = []
        self._layers: dict[str, LayerTrace] = {}

    @property
    def layers(self) -> Mapping[str, LayerTrace]:
        """What each layer did."""
        return MappingProxyType(self._layers)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the counts as JSON values, outermost first; never any content."""
        names = ("layer", "received", "sent", "dropped", "held", "seconds")
        return [{name: getattr(row, name) for name in names} for row in self._layers.values()]

    def start(self, layers: tuple[str, ...]) -> None:
        """Make the rows. Private: the pipeline calls it."""
        self._layers = {layer: LayerTrace(layer) for layer in layers}

    async def between(self, inner: str | None, outer: str | None, source: Events) -> Events:
        """Count what passes from ``inner`` to ``outer``; None: the agent, the consumer."""
        giver = None if inner is None else self._layers[inner]
        taker = None if outer is None else self._layers[outer]
        try:
            while True:
                since = time.perf_counter()
                event = await anext(source, None)
                spent = time.perf_counter() - since
                if giver is not None:
                    giver.seconds += spent
                if taker is not None:
                    taker.seconds -= spent
                if event is None:
                    return
                self._note(giver, taker, event)
                yield event
        finally:
            if giver is not None:
                giver.end()
            await source.aclose()

    def _note(self, giver: LayerTrace | None, taker: LayerTrace | None, event: BaseEvent) -> None:
        if giver is not None:
            giver.give(event)
            if self.content:
                self.events.append(TracedEvent(giver.layer, "out", event))
        if taker is not None:
            taker.take(event)
            if self.content:
                self.events.append(TracedEvent(taker.layer, "in", event))
