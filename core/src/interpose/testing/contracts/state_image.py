"""The state that outlives a run without being ``shared``: of a class, its module, its functions.

An image is taken of it, can be compared with what is there later, and puts everything back in
place. It holds class attributes, globals of the module, closures, default arguments, caches of
``functools``, and what these hold as containers or as objects of the author's own classes.
"""

from __future__ import annotations

import ast
import enum
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CellType, FunctionType, ModuleType
from typing import Any, Final

from pydantic import BaseModel

from interpose.testing.contracts.reaching import Root
from interpose.testing.contracts.saved_state import Saved, same, save
from interpose.testing.contracts.subject import Subject

_FOREIGN: Final = frozenset({"interpose", "builtins", "typing", "abc", "pydantic"})
_MOST_MODULES: Final = 20
_MOST: Final = 2000
_CODE: Final = (ModuleType, type, FunctionType, staticmethod, classmethod, property)
_MISSING: Final = object()


class StateImage:
    """What the class and its modules hold at the moment; see the module's docstring."""

    def __init__(self, subject: Subject) -> None:
        self._modules = _own_modules(subject.cls)
        self._packages = {module.__name__.partition(".")[0] for module in self._modules}
        self._owners = [*_classes(subject.cls, self._modules), *_named(self._modules)]
        self._bindings = [(owner, _bound_by(owner.it)) for owner in self._owners]
        self._counts = [
            (owner, name, repr(value))
            for owner, before in self._bindings
            for name, value in before.items()
            if isinstance(value, itertools.count)
        ]
        self._settings = subject.settings
        self._saved: list[Saved] = []
        self._take()

    def roots(self) -> list[Root]:
        """Return what the class and its modules hold now, by names for messages."""
        return [
            (name, found.cell_contents if isinstance(found, CellType) else found)
            for name, found in self._places()
            if not isinstance(found, CellType) or _is_filled(found)
        ]

    def changes(self) -> list[str]:
        """Return the names of what is not as it was: ``the module's global CACHE``."""
        found: list[str] = []
        for owner, before in self._bindings:
            now = _bound_by(owner.it)
            found += [
                owner.named(name)
                for name in {**before, **now}
                if not same(before.get(name, _MISSING), now.get(name, _MISSING))
            ]
        found += [
            owner.named(name)
            for owner, name, shown in self._counts
            if repr(vars(owner.it).get(name)) != shown
        ]
        found += [saved.name for saved in self._saved if saved.differs()]
        # A cache of functools is pure as a rule: it is named when nothing else is to blame.
        return list(dict.fromkeys(sorted(found, key=lambda name: "functools" in name)))

    def restore(self) -> None:
        """Put everything back in place."""
        for owner, before in self._bindings:
            now = _bound_by(owner.it)
            for name in {**before, **now}:
                if name not in before:
                    delattr(owner.it, name)
                elif not same(before[name], now.get(name, _MISSING)):
                    setattr(owner.it, name, before[name])
        for owner, name, shown in self._counts:
            setattr(owner.it, name, _count(shown))
        for saved in self._saved:
            if saved.differs():
                saved.restore()

    def _places(self) -> list[Root]:
        found: list[Root] = []
        for owner in self._owners:
            bound = _bound_by(owner.it)
            found += [(owner.named(name), value) for name, value in bound.items()]
            found += _kept_by_functions(owner.it)
        return found

    def _is_own(self, found: object) -> bool:
        return type(found).__module__.partition(".")[0] in self._packages

    def _take(self) -> None:
        waiting: list[Root] = [*self._places(), ("the settings", self._settings)]
        seen: set[int] = set()
        while waiting and len(self._saved) < _MOST:
            name, found = waiting.pop()
            if id(found) in seen:
                continue
            seen.add(id(found))
            saved = save(name, found, is_own=found is self._settings or self._is_own(found))
            if saved is not None:
                self._saved.append(saved)
                waiting += [(name, value) for value in saved.before.values()]


@dataclass(frozen=True, slots=True)
class _Owner:
    """A class or a module; ``said``: how its names are told, as ``the module's global {}``."""

    it: Any
    said: str

    def named(self, name: str) -> str:
        return self.said.format(name)


def _own_modules(cls: type) -> list[ModuleType]:
    """Return the modules of the class and its bases, and those of their packages that they use."""
    waiting = [sys.modules.get(each.__module__) for each in cls.__mro__]
    found: list[ModuleType] = []
    while waiting and len(found) < _MOST_MODULES:
        module = waiting.pop(0)
        if module is None or module in found or _is_foreign(module.__name__):
            continue
        found.append(module)
        top = module.__name__.partition(".")[0]
        for value in list(vars(module).values()):
            is_module = isinstance(value, ModuleType)
            name = value.__name__ if is_module else getattr(value, "__module__", None)
            if isinstance(name, str) and name.partition(".")[0] == top:
                waiting.append(sys.modules.get(name))
    return found


def _is_foreign(module: str) -> bool:
    return module.partition(".")[0] in _FOREIGN


def _classes(cls: type, modules: Sequence[ModuleType]) -> Iterator[_Owner]:
    """Yield the class, its bases below ``Middleware``, and the other classes of its modules."""
    own = [each for each in cls.__mro__ if not _is_foreign(each.__module__)]
    for module in modules:
        own += [
            each
            for each in list(vars(module).values())
            if isinstance(each, type) and each.__module__ == module.__name__
        ]
    for each in dict.fromkeys(own):
        if not issubclass(each, BaseModel | enum.Enum):
            yield _Owner(each, f"the class attribute {each.__qualname__}.{{}}")


def _named(modules: Sequence[ModuleType]) -> Iterator[_Owner]:
    for number, module in enumerate(modules):
        said = "the module's global {}" if number == 0 else f"the global {module.__name__}.{{}}"
        yield _Owner(module, said)


def _bound_by(owner: Any) -> dict[str, Any]:
    """Return what a module or a class binds to values: no functions, classes or modules."""
    return {
        name: value
        for name, value in list(vars(owner).items())
        if not (name.startswith("__") and name.endswith("__"))
        and not name.startswith(("_abc_", "@"))
        and not isinstance(value, _CODE)
    }


def _kept_by_functions(owner: Any) -> Iterator[Root]:
    """Yield what the functions of a class or a module keep: closures, defaults, attributes."""
    for value in list(vars(owner).values()):
        function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if not isinstance(function, FunctionType):
            continue
        if isinstance(owner, ModuleType) and function.__module__ != owner.__name__:
            continue
        where = function.__qualname__
        cells = function.__closure__ or ()
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
            if name != "__class__":
                yield f"the variable {name} around {where}", cell
        for kept in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            yield f"a default argument of {where}", kept
        if function.__dict__:
            yield f"an attribute of the function {where}", function.__dict__


def _is_filled(cell: CellType) -> bool:
    try:
        return bool(cell.cell_contents) or True
    except ValueError:
        return False


def _count(shown: str) -> itertools.count[Any]:
    """Return the ``itertools.count`` that a repr shows."""
    return itertools.count(*map(ast.literal_eval, shown[len("count(") : -1].split(", ")))
