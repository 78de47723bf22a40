"""What an event hook may return, and ``@on``, which says which events a method takes."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar, overload

from ag_ui.core import BaseEvent

from interpose.errors import UsageError

if TYPE_CHECKING:
    from interpose.context import RunContext


class Drop(enum.Enum):
    """The type of :data:`DROP`."""

    DROP = "drop"


DROP: Final = Drop.DROP
"""Return it from an event hook to take the event out of the stream."""

Result: TypeAlias = BaseEvent | Sequence[BaseEvent] | Literal[Drop.DROP]
"""An event, a sequence of events, or :data:`DROP`."""

Returned: TypeAlias = Result | None
"""What an event hook returns; None passes the event on (from a rewriter it is an error)."""

MARK: Final = "__interpose_on__"
"""The attribute in which :func:`on` keeps the event classes of a method."""

M = TypeVar("M")
R = TypeVar("R", bound="Awaitable[Returned] | Returned")
E = TypeVar("E", bound=BaseEvent)
E1 = TypeVar("E1", bound=BaseEvent)
E2 = TypeVar("E2", bound=BaseEvent)
E3 = TypeVar("E3", bound=BaseEvent)
E4 = TypeVar("E4", bound=BaseEvent)
E5 = TypeVar("E5", bound=BaseEvent)
E6 = TypeVar("E6", bound=BaseEvent)


class OnEvent(Protocol[E]):
    """The decorator that ``on(...)`` gives: it takes a hook for these events and returns it."""

    def __call__(self, hook: Callable[[M, RunContext, E], R], /) -> Callable[[M, RunContext, E], R]:
        """Mark ``hook``."""


@overload
def on(e1: type[E1], /) -> OnEvent[E1]: ...
@overload
def on(e1: type[E1], e2: type[E2], /) -> OnEvent[E1 | E2]: ...
@overload
def on(e1: type[E1], e2: type[E2], e3: type[E3], /) -> OnEvent[E1 | E2 | E3]: ...
@overload
def on(e1: type[E1], e2: type[E2], e3: type[E3], e4: type[E4], /) -> OnEvent[E1 | E2 | E3 | E4]: ...
@overload
def on(
    e1: type[E1], e2: type[E2], e3: type[E3], e4: type[E4], e5: type[E5], /
) -> OnEvent[E1 | E2 | E3 | E4 | E5]: ...
@overload
def on(
    e1: type[E1], e2: type[E2], e3: type[E3], e4: type[E4], e5: type[E5], e6: type[E6], /
) -> OnEvent[E1 | E2 | E3 | E4 | E5 | E6]: ...
@overload
def on(
    e1: type[E1],
    e2: type[E2],
    e3: type[E3],
    e4: type[E4],
    e5: type[E5],
    e6: type[E6],
    /,
    *more: type[BaseEvent],
) -> OnEvent[Any]: ...
def on(*events: type[BaseEvent]) -> OnEvent[Any]:
    """Make a method the hook for events of these classes, subclasses included.

    The method is ``(self, ctx, event) -> Result | None``, sync or async. Of one class's methods
    the most derived event class wins; two methods for the same class are refused at startup.

    Raises :class:`UsageError` when called without event classes, as a bare ``@on``.
    """
    given: tuple[object, ...] = events
    if not given or not all(isinstance(e, type) and issubclass(e, BaseEvent) for e in given):
        raise UsageError(
            "@on takes the event classes that the method handles",
            hint="write @on(TextMessageContentEvent)",
        )

    def mark(hook: Any, /) -> Any:
        setattr(hook, MARK, events)
        return hook

    return mark
