"""What a part's class says: its hooks, its settings, and what is wrong with it.

Everything here looks at classes and calls nothing of theirs, so that all faults of all parts can
be reported together.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, get_args, get_origin

from ag_ui.core import BaseEvent
from pydantic import BaseModel
from typing_extensions import TypeVar

from interpose.authoring import (
    AgentFactory,
    Declaration,
    Middleware,
    NoSettings,
    Provider,
)
from interpose.errors import described, nearest
from interpose.events import MARK
from interpose.model import ModelFactory
from interpose.startup.declaration_rules import declaration_faults, once_faults, slips
from interpose.startup.hook_rules import HOOKS
from interpose.startup.settings_rules import settings_faults

_MUTABLE: Final = (list, dict, set, bytearray, deque)


@dataclass(frozen=True, slots=True)
class OnMethod:
    """A method marked with ``@on``: for one event class, under its name, sync or async."""

    event: type[BaseEvent]
    name: str
    is_async: bool


@dataclass(frozen=True, slots=True)
class MiddlewareFacts:
    """What a middleware's class says.

    ``hooks``: the overridden hooks, and whether each is async. ``on``: its ``@on`` methods.
    ``faults``: what is wrong with it, each a sentence that names the attribute and the remedy.
    """

    cls: type[Middleware[Any, Any]]
    settings_class: type[BaseModel]
    hooks: Mapping[str, bool]
    on: tuple[OnMethod, ...]
    faults: tuple[str, ...]

    @property
    def has_event_hooks(self) -> bool:
        """Whether events pass through a method of the class."""
        return bool(self.on) or "on_event" in self.hooks

    @property
    def has_lifespan(self) -> bool:
        """Whether the class makes something that outlives a run."""
        return _differs(self.cls, "lifespan")

    def on_method(self, event: type[BaseEvent]) -> OnMethod | None:
        """Return the method that takes events of this class: the most derived declaration wins."""
        fitting = [method for method in self.on if issubclass(event, method.event)]
        return max(fitting, key=lambda method: len(method.event.__mro__), default=None)


def inspect_middleware(cls: type[Middleware[Any, Any]]) -> MiddlewareFacts:
    """Read a middleware's class."""
    hooks = {name: _is_async(cls, name) for name in HOOKS if _differs(cls, name)}
    marked = tuple(_on_methods(cls))
    on = tuple(
        OnMethod(event, name, inspect.iscoroutinefunction(getattr(cls, name)))
        for name, events in marked
        for event in events
    )
    settings = settings_class(cls)
    faults = (
        *_construction_faults(cls),
        *_shared_state_faults(cls),
        *declaration_faults(cls),
        *once_faults(cls),
        *slips(_own_classes(cls)),
        *_transform_faults(cls),
        *_hook_faults(cls, hooks),
        *_on_faults(cls, marked, on),
        *settings_argument_faults(cls),
        *settings_faults(settings, "middleware"),
    )
    return MiddlewareFacts(cls, settings, MappingProxyType(hooks), on, faults)


def class_declaration(
    cls: type[Middleware[Any, Any]],
) -> tuple[MiddlewareFacts, Declaration] | None:
    """Return what the class itself declares; None when that depends on settings."""
    if _differs(cls, "declare"):
        return None
    return inspect_middleware(cls), Declaration(
        **{name: getattr(cls, name) for name in Declaration.__dataclass_fields__}
    )


def settings_class(cls: type) -> type[BaseModel]:
    """Return ``S`` of ``Middleware[S]``, ``Provider[S]`` and the factories."""
    for base in (Middleware, Provider, AgentFactory, ModelFactory):
        if issubclass(cls, base):
            found = _type_argument(cls, base, 0)
            if isinstance(found, TypeVar):  # only now: a subclass might have given it a value
                found = getattr(found, "__default__", None)
            return found if isinstance(found, type) and issubclass(found, BaseModel) else NoSettings
    return NoSettings


def settings_argument_faults(cls: type) -> Iterator[str]:
    """Yield what is wrong with ``S`` itself: it must be a pydantic model."""
    for base in (Middleware, Provider, AgentFactory, ModelFactory):
        if issubclass(cls, base):
            found = _type_argument(cls, base, 0)
            if isinstance(found, TypeVar) or found is None or found is Any:
                return
            if not (isinstance(found, type) and issubclass(found, BaseModel)):
                shown = getattr(found, "__name__", found)
                yield f"its settings are {shown}, which is no model; derive it from Settings"


def _transform_faults(cls: type) -> Iterator[str]:
    from interpose.text import TextTransform

    if not issubclass(cls, TextTransform):
        return
    if cls.scan is TextTransform.scan:
        yield "it is a text transform without scan; override scan(self, text, start, final)"
    elif not _accepts(cls.scan, 4):
        yield "scan must take (text, start, final) after self"


def _differs(cls: type, name: str) -> bool:
    found, base = getattr(cls, name), getattr(Middleware, name)
    return getattr(found, "__func__", found) is not getattr(base, "__func__", base)


def _is_async(cls: type, name: str) -> bool:
    return inspect.iscoroutinefunction(getattr(cls, name))


def _own_classes(cls: type) -> Iterator[type]:
    """Yield the classes that an author wrote, most derived first."""
    for klass in cls.__mro__:
        if klass is Middleware:
            return
        if not klass.__module__.startswith("interpose."):
            yield klass


def _on_methods(cls: type) -> Iterator[tuple[str, tuple[type[BaseEvent], ...]]]:
    """Yield each ``@on`` method's name; an override keeps the mark of what it overrides."""
    seen: set[str] = set()
    for klass in cls.__mro__:
        for name, value in vars(klass).items():
            events = getattr(value, MARK, None)
            if events is not None and name not in seen:
                seen.add(name)
                current = getattr(getattr(cls, name), MARK, None)
                yield name, current or events


def _type_argument(cls: type, base: type, index: int) -> Any:
    """Resolve ``base``'s type parameter at ``index`` for ``cls``, through generic subclasses."""
    parameter = base.__parameters__[index]  # type: ignore[attr-defined]
    for original in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(original) or original
        if not (isinstance(origin, type) and issubclass(origin, base)):
            continue
        args = get_args(original)
        if origin is base:
            found = args[index] if index < len(args) else parameter
        else:
            found = _type_argument(origin, base, index)
            own = getattr(origin, "__parameters__", ())
            if isinstance(found, TypeVar) and found in own and own.index(found) < len(args):
                found = args[own.index(found)]
        return found
    return None


def _construction_faults(cls: type) -> Iterator[str]:
    own: Any = cls
    if type(cls) is type and own.__init__ is object.__init__ and own.__new__ is object.__new__:
        return  # as nearly always, and reading the signature of what is built in takes long
    try:
        inspect.signature(cls).bind()
    except TypeError:
        yield (
            "its __init__ takes arguments, but the host makes each run's instance without any; "
            "read self.settings, and prepare the run in setup"
        )
    except ValueError:  # a signature that Python cannot read
        return


def _shared_state_faults(cls: type) -> Iterator[str]:
    for klass in _own_classes(cls):
        for name, value in vars(klass).items():
            if isinstance(value, list | dict | set | bytearray | deque) and not name.startswith(
                "__"
            ):
                yield (
                    f"the class attribute {name} is {described(value)}, which all runs would "
                    f"share; make it a tuple or frozenset, or set self.{name} in setup"
                )


def _hook_faults(cls: type, hooks: Mapping[str, bool]) -> Iterator[str]:
    marked = {name for name, _ in _on_methods(cls)}
    for klass in _own_classes(cls):
        for name, value in vars(klass).items():
            unknown = name.startswith(("on_", "around_")) and name not in HOOKS
            if unknown and name not in marked and callable(value):
                near = nearest(name, HOOKS)
                yield f"{name} is no hook" + (
                    f"; did you mean {near}?" if near else "; mark it with @on(EventClass)"
                )
    for name in hooks:
        function: Callable[..., Any] = getattr(cls, name)
        rule = HOOKS[name]
        takes = rule.arguments
        if not _accepts(function, takes + 1):
            yield f"{name} must take {takes} arguments after self"
        if rule.shape == "stream" and inspect.iscoroutinefunction(function):
            yield f"{name} is a coroutine; it wraps a stream, so it must be an async generator"
        elif rule.shape == "call" and not inspect.iscoroutinefunction(function):
            yield f"{name} must be `async def` and return a value"
        elif rule.shape == "value" and (
            inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)
        ):
            yield f"{name} is a generator; it must return its answer (a list for several events)"


def _on_faults(
    cls: type,
    marked: tuple[tuple[str, tuple[type[BaseEvent], ...]], ...],
    on: tuple[OnMethod, ...],
) -> Iterator[str]:
    taken: dict[type[BaseEvent], str] = {}
    for method in on:
        first = taken.setdefault(method.event, method.name)
        if first != method.name:
            yield f"{first} and {method.name} both take {method.event.__name__}; keep one"
    for name, _ in marked:
        function = getattr(cls, name)
        if not _accepts(function, 3):
            yield f"{name} must take 2 arguments after self"
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            yield f"{name} is a generator; it must return its answer (a list for several events)"


def _accepts(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return True
    return True
