"""Which names the code of a class mentions; read from its compiled form, nothing is run."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from interpose.authoring import Middleware


def mentioned(cls: type, method: str | None = None) -> frozenset[str]:
    """Return the names that the author's methods mention, or one of them."""
    return frozenset(
        name
        for klass in _own(cls)
        for attribute, value in vars(klass).items()
        if method in (None, attribute)
        for code in _codes(value)
        for name in _names(code)
    )


def mentioned_around(cls: type) -> frozenset[str]:
    """Return the names that the class or its package mentions, other middlewares left out."""
    packages = {klass.__module__.partition(".")[0] for klass in _own(cls)}
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in packages and isinstance(module, ModuleType)
    ]
    around = (
        name
        for module in modules
        for value in list(vars(module).values())
        if str(getattr(value, "__module__", "")).partition(".")[0] in packages
        for part in _parts(value)
        for code in _codes(part)
        for name in _names(code)
    )
    return mentioned(cls) | frozenset(around)


def _own(cls: type) -> Iterator[type]:
    """Yield the classes that an author wrote."""
    for klass in cls.__mro__:
        package = klass.__module__.partition(".")[0]
        if package != "interpose" and package not in sys.stdlib_module_names:
            yield klass


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, type):
        return () if issubclass(value, Middleware) else list(vars(value).values())
    return (value,)


def _codes(value: Any) -> Iterator[CodeType]:
    for each in (value, getattr(value, "__func__", None), getattr(value, "fget", None)):
        function = inspect.unwrap(each) if callable(each) and not isinstance(each, type) else each
        if isinstance(function, FunctionType):
            yield function.__code__


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
        elif isinstance(constant, str):
            yield constant  # getattr(ctx, "messages")
