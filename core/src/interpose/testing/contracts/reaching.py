"""What can be reached from an object, and the path that leads there: for naming what is kept."""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

Root = tuple[str, object]
"""A name for messages, as ``shared``, and what it names."""

_MOST: Final = 3000
"""Objects that are looked at; what holds more is no bookkeeping of runs."""
_CLOSED: Final = frozenset(
    {"interpose", "ag_ui", "pydantic", "pydantic_core", "loguru", "logging", "pytest", "_pytest"}
)
"""Packages whose objects are not looked into."""
_OPEN: Final = frozenset(
    {"asyncio", "threading", "queue", "collections", "types", "dataclasses", "contextlib"}
)
"""Modules of the standard library whose objects are."""
_ATOMS: Final = (str, bytes, int, float, complex, bool, type(None), type, ModuleType)
_WEAK: Final = (
    weakref.ref,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    weakref.WeakSet,
)
_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))
_LONGEST: Final = 40

Cached = functools._lru_cache_wrapper  # noqa: SLF001 - the class has no public name
"""What ``functools.lru_cache`` and ``functools.cache`` make of a function."""


def walk(roots: Iterable[Root]) -> Iterator[Root]:
    """Yield every object that the roots hold, and the path to it; the nearest first."""
    waiting = deque(roots)
    seen: set[int] = set()
    while waiting and len(seen) < _MOST:
        path, found = waiting.popleft()
        yield path, found
        if isinstance(found, _ATOMS) or id(found) in seen:
            continue
        seen.add(id(found))
        waiting.extend(held_by(path, found))


def holder(roots: Iterable[Root], wanted: Sequence[object]) -> str:
    """Return the path to the first of the wanted objects that the roots hold, or ``""``."""
    targets = {id(each) for each in wanted}
    for path, found in walk(roots):
        if id(found) in targets:
            return path
    return ""


def numbers(roots: Iterable[Root]) -> dict[str, float]:
    """Return all numbers, sizes and locks that the roots hold, by their paths."""
    found: dict[str, float] = {}
    for path, each in walk(roots):
        if isinstance(each, int | float):
            found.setdefault(path, each)
        elif isinstance(each, Mapping | AbstractSet | Sequence) and not isinstance(
            each, str | bytes
        ):
            found.setdefault(f"len({path})", len(each))
        elif isinstance(each, _LOCKS) and hasattr(each, "locked"):
            found.setdefault(f"{path}.locked()", each.locked())
    return found


def held_by(path: str, found: object) -> Iterator[Root]:
    """Yield what an object holds directly. What it only refers to weakly is not held."""
    plain = _PLAIN.get(type(found))
    if plain is not None:
        yield from plain(path, found)
        return
    if isinstance(found, _WEAK):
        return
    for kind, look in _KINDS:
        if isinstance(found, kind):
            yield from look(path, found)
            break
    if is_open(found):
        yield from ((f"{path}.{name}", value) for name, value in attributes(found).items())


def is_open(found: object) -> bool:
    """Whether the attributes of an object are looked at: it is an author's, or holds a lock.

    An event loop's are not: what is ready on it, and what is due, is everybody's.
    """
    if isinstance(found, asyncio.AbstractEventLoop):
        return False
    module = type(found).__module__
    top = module.partition(".")[0]
    if top in _CLOSED or top == "builtins":
        return False
    return top in _OPEN or top not in sys.stdlib_module_names


def attributes(found: object) -> dict[str, Any]:
    """Return what the instance itself holds, in its ``__dict__`` and its slots."""
    held = dict(getattr(found, "__dict__", {}))
    for cls in type(found).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name in ("__dict__", "__weakref__"):
                continue
            private = name.startswith("__") and not name.endswith("__")
            mangled = f"_{cls.__name__.lstrip('_')}{name}" if private else name
            try:
                held[name] = object.__getattribute__(found, mangled)
            except AttributeError:
                continue
    return held


def _of_function(path: str, function: FunctionType) -> Iterator[Root]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"{path}'s variable {name}", cell.cell_contents
        except ValueError:
            continue
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield f"a default argument of {path}", value
    for name, value in function.__dict__.items():
        yield f"{path}.{name}", value


def _of_mapping(path: str, found: Mapping[Any, Any]) -> Iterator[Root]:
    for key, value in _copied(found.items()):
        shown = repr(key) if isinstance(key, str | int) else type(key).__name__
        if len(shown) > _LONGEST:
            shown = f"{shown[:_LONGEST]}..."
        yield f"{path}[{shown}]", value
        if not isinstance(key, _ATOMS):
            yield f"a key of {path}", key


def _of_method(path: str, found: Any) -> Iterator[Root]:
    yield f"{path} (a method of it)", found.__self__
    yield path, found.__func__


def _of_partial(path: str, found: Any) -> Iterator[Root]:
    for value in (*found.args, *found.keywords.values()):
        yield f"{path} (an argument of it)", value
    yield path, found.func


def _of_task(path: str, found: Any) -> Iterator[Root]:
    frame = getattr(found.get_coro(), "cr_frame", None)
    for name, value in {} if frame is None else frame.f_locals.items():
        yield f"{name} of the task {found.get_name()} in {path}", value


def _of_cache(path: str, found: Any) -> Iterator[Root]:
    for value in gc.get_referents(found):
        yield f"the functools cache of {path}", value


def _of_set(path: str, found: Any) -> Iterator[Root]:
    for value in _copied(found):
        yield f"a member of {path}", value


def _of_sequence(path: str, found: Any) -> Iterator[Root]:
    for index, value in enumerate(_copied(found)):
        yield f"{path}[{index}]", value


def _copied(found: Iterable[Any]) -> list[Any]:
    """Return the items; none where another thread changes them meanwhile."""
    try:
        return list(found)
    except RuntimeError:
        return []


_KINDS: Final[tuple[tuple[Any, Callable[[str, Any], Iterator[Root]]], ...]] = (
    (FunctionType, _of_function),
    (MethodType, _of_method),
    (staticmethod | classmethod, lambda path, found: iter([(path, found.__func__)])),
    (functools.partial, _of_partial),
    (Cached, _of_cache),
    (asyncio.Task, _of_task),
    (Mapping, _of_mapping),
    (AbstractSet, _of_set),
    (Sequence, _of_sequence),
)
_PLAIN: Final[Mapping[type, Callable[[str, Any], Iterator[Root]]]] = {
    dict: _of_mapping,
    list: _of_sequence,
    tuple: _of_sequence,
    set: _of_set,
    frozenset: _of_set,
    FunctionType: _of_function,
}
"""The common kinds, found without asking every abstract class."""
