"""How much a middleware keeps: what is reachable from it, counted in bytes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any, Final

from interpose.authoring import Middleware

_NOT_ITS_OWN: Final = (
    type,
    ModuleType,
    CodeType,
    FrameType,
    TracebackType,
    BuiltinFunctionType,
    AsyncGeneratorType,
    CoroutineType,
    GeneratorType,
)
_PLACES: Final = ("interpose", "asyncio", "loguru", "logging", "threading", "weakref")
"""Modules whose objects a middleware only holds on to: the host's, the loop's, the log's."""
_TEXTS: Final = "interpose.text."
_MOST: Final = 500_000


def kept_by(instance: Middleware[Any, Any], *, generators: bool) -> int:
    """Return the bytes that are reachable from an instance of a middleware.

    Its attributes, what its lifespan yielded, the mutable attributes of its classes, what its
    methods closed over; and, if ``generators``, the variables of those that are under way.
    """
    variables = _variables(instance) if generators else ()
    return size_of([*_roots(instance), *variables])


def _roots(instance: Middleware[Any, Any]) -> Iterator[Any]:
    own = {name: value for name, value in vars(instance).items() if name != "settings"}
    yield from own.values()
    for cls in type(instance).__mro__:
        if _is_hosts(cls.__module__) or cls is object:
            continue
        for name, value in vars(cls).items():
            function = getattr(value, "__func__", value)
            if not name.startswith("__") and (
                isinstance(function, FunctionType) or not callable(function)
            ):
                yield function


def _variables(instance: object) -> Iterator[Any]:
    """Yield the variables of the generators and coroutines that it is the ``self`` of."""
    frames: list[FrameType | None] = []
    for referrer in gc.get_referrers(instance):
        if isinstance(referrer, AsyncGeneratorType):
            frames.append(referrer.ag_frame)
        elif isinstance(referrer, CoroutineType):
            frames.append(referrer.cr_frame)
    # Those that wait for the agent are not suspended: the agent is called by them.
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the only way to look at a stack
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    for each in filter(None, frames):
        if _is_hosts(each.f_globals.get("__name__", "")):
            continue
        variables = list(each.f_locals.values())
        if any(value is instance for value in variables):
            yield from (value for value in variables if value is not instance)


def _is_hosts(module: str) -> bool:
    return module.partition(".")[0] in _PLACES and not module.startswith(_TEXTS)


def size_of(roots: Iterable[Any]) -> int:
    """Return the bytes of what is reachable, each object once, and not what is the host's."""
    seen: set[int] = set()
    waiting = list(roots)
    total = 0
    while waiting and len(seen) < _MOST:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, _NOT_ITS_OWN):
            continue
        if _is_hosts(type(thing).__module__):
            continue
        seen.add(id(thing))
        if isinstance(thing, FunctionType):
            waiting += [cell.cell_contents for cell in thing.__closure__ or () if _full(cell)]
            waiting += thing.__defaults__ or ()
        elif isinstance(thing, MethodType):
            waiting += (thing.__self__, thing.__func__)
        else:
            total += sys.getsizeof(thing)
            waiting += gc.get_referents(thing)
    return total


def _full(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
