"""One mutable thing, whatever its kind: a copy of what it holds, to compare and to put back."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import MutableMapping, MutableSequence, MutableSet
from itertools import count
from types import CellType, FunctionType
from typing import Any, Final

from interpose.testing.contracts.reaching import Cached, attributes

_BIGGEST: Final = 10_000
"""Entries of a container that is copied; a bigger one is data, no bookkeeping of runs."""
_PRIMITIVES: Final = (asyncio.Lock, asyncio.Semaphore, asyncio.Event, asyncio.Queue)
_PLAIN: Final = (int, float, complex, str, bytes, tuple, frozenset)


def same(before: object, now: object) -> bool:
    """Whether it is the same thing, or an equal plain value.

    An ``itertools.count`` counts as the same: how far it is, its repr tells.
    """
    if before is now or (isinstance(before, count) and isinstance(now, count)):
        return True
    return type(before) is type(now) and isinstance(before, _PLAIN) and before == now


class Saved:
    """One mutable thing, and what it held. ``name``: what messages call it."""

    def __init__(self, name: str, found: Any) -> None:
        self.name = name
        self.found = found
        self.before = self.held()

    def held(self) -> dict[Any, Any]:
        """Return what it holds now."""
        raise NotImplementedError

    def put(self, before: dict[Any, Any]) -> None:
        """Make it hold this."""
        raise NotImplementedError

    def differs(self) -> bool:
        """Whether it holds something else now."""
        now = self.held()
        return list(now) != list(self.before) or any(
            not same(now[key], self.before[key]) for key in now
        )

    def restore(self) -> None:
        """Put back in place what it held."""
        self.put(self.before)


class _Container(Saved):
    def held(self) -> dict[Any, Any]:
        if isinstance(self.found, MutableMapping):
            return dict(self.found.items())
        return (
            dict(enumerate(self.found))
            if isinstance(self.found, MutableSequence)
            else {each: each for each in self.found}
        )

    def put(self, before: dict[Any, Any]) -> None:
        self.found.clear()
        if isinstance(self.found, MutableMapping):
            self.found.update(before)
        elif isinstance(self.found, MutableSequence):
            self.found.extend(before.values())
        else:
            for each in before:
                self.found.add(each)


class _Object(Saved):
    def held(self) -> dict[Any, Any]:
        return attributes(self.found)

    def put(self, before: dict[Any, Any]) -> None:
        for name in {**before, **self.held()}:
            with contextlib.suppress(AttributeError):
                if name in before:
                    object.__setattr__(self.found, name, before[name])
                else:
                    object.__delattr__(self.found, name)


class _Cell(Saved):
    def held(self) -> dict[Any, Any]:
        try:
            return {"": self.found.cell_contents}
        except ValueError:
            return {}

    def put(self, before: dict[Any, Any]) -> None:
        if before:
            self.found.cell_contents = before[""]


class _Cache(Saved):
    def held(self) -> dict[Any, Any]:
        return {"entries": self.found.cache_info().currsize}

    def put(self, before: dict[Any, Any]) -> None:
        del before
        self.found.cache_clear()


class _Lock(Saved):
    def held(self) -> dict[Any, Any]:
        return {"locked": self.found.locked()}

    def put(self, before: dict[Any, Any]) -> None:
        if not before["locked"]:
            with contextlib.suppress(RuntimeError):
                self.found.release()


def save(name: str, found: Any, *, is_own: bool) -> Saved | None:
    """Return a copy of what is held; None for what cannot change, or is not to be touched.

    ``is_own``: an object whose class is the author's.
    """
    kind: type[Saved] | None = None
    if isinstance(found, Cached):
        name, kind = f"the functools cache of {name}", _Cache
    elif isinstance(found, CellType):
        kind = _Cell
    elif isinstance(found, MutableMapping | MutableSet | MutableSequence):
        is_weak = isinstance(found, weakref.WeakKeyDictionary | weakref.WeakValueDictionary)
        kind = _Container if not is_weak and len(found) <= _BIGGEST else None
    elif type(found).__module__ in ("_thread", "threading") and hasattr(found, "locked"):
        kind = _Lock
    elif isinstance(found, _PRIMITIVES) or (is_own and not isinstance(found, type | FunctionType)):
        kind = _Object
    return None if kind is None else kind(name, found)
