"""The event types this version of AG-UI knows, read from the installed protocol models.

Nothing is listed by hand, so a newer ``ag-ui-protocol`` brings its new events along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from ag_ui.core import BaseEvent, Event


def _classes() -> dict[str, type[BaseEvent]]:
    union, *_ = get_args(Event)
    return {cls.model_fields["type"].default.value: cls for cls in get_args(union)}


EVENT_CLASSES: Final[Mapping[str, type[BaseEvent]]] = _classes()
"""Wire name of an event's type (``"RUN_STARTED"``) to its model."""

KNOWN_EVENTS: Final[frozenset[type[BaseEvent]]] = frozenset(EVENT_CLASSES.values())
"""The models themselves. ``event.__class__ in KNOWN_EVENTS`` is the cheapest check there is."""
