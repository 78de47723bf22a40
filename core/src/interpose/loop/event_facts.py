"""Quick looks at events: at each of them, several times on its way through the loop.

``isinstance`` with a model of pydantic, and ``getattr`` of what an event does not have, take longer
than most of what the loop does with an event otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeGuard, TypeVar

from ag_ui.core import BaseEvent

E = TypeVar("E", bound=BaseEvent)


def instance_check(cls: type[E]) -> Callable[[object], TypeGuard[E]]:
    """Return what tells instances of a class of events, by their class alone."""
    check: Callable[[object], TypeGuard[E]] = type.__instancecheck__.__get__(cls)
    return check


is_event: Final = instance_check(BaseEvent)


def value_of(event: BaseEvent, name: str) -> Any:
    """Return what an event has by this name, also as an extra; None when it has nothing."""
    value = event.__dict__.get(name)
    if value is None and event.__pydantic_extra__:
        return event.__pydantic_extra__.get(name)
    return value
