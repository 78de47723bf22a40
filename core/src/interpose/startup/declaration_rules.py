"""What a declaration may say: in a middleware's attributes, and in what ``declare`` returns."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from interpose.authoring import Declaration, Middleware, Point, Stage
from interpose.capability import Capability
from interpose.errors import nearest
from interpose.startup.hook_rules import HOOKS

_TUPLES: Final[Mapping[str, type]] = MappingProxyType(
    {
        "requires": Capability,
        "optional_requires": Capability,
        "provides": Capability,
        "conflicts": str,
        "before": str,
        "after": str,
        "essential": Point,
    }
)
_CHOICES: Final[Mapping[str, tuple[object, ...]]] = MappingProxyType(
    {
        "stage": (None, *Stage),
        "on_failure": (None, "fail", "skip"),
        "form": ("expanded", "raw"),
        "rewrites_history": (False, True),
        "observes_only": (False, True),
        "may_repeat": (False, True),
        "may_continue": (False, True),
        "tracks_state": (False, True),
    }
)
_ID = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_MIDDLEWARE: Final = re.compile(rf"{_ID}(?:\.{_ID})?\Z")
_WISH: Final = re.compile(rf"(?:{_ID}(?:\.{_ID})?|cap:(?:{_ID}/)?{_ID})\Z")
_LIKENESS: Final = 0.88
"""How alike a name must be to one of ours to be taken for a slip of the pen."""


def declaration_faults(declared: type[Middleware[Any, Any]] | Declaration) -> Iterator[str]:
    """Yield what is wrong with a class's attributes, or with what ``declare`` returned."""
    for name, kind in _TUPLES.items():
        yield from _tuple_faults(name, kind, getattr(declared, name))
    for name, choices in _CHOICES.items():
        value = getattr(declared, name)
        if value not in choices or (type(value) is int):
            listed = " or ".join(repr(str(item) if item else item) for item in choices)
            yield f"{name} is {value!r}; write {listed}"
    if declared.observes_only is True and declared.rewrites_history is True:
        yield "observes_only and rewrites_history contradict each other; keep one"


def _tuple_faults(name: str, kind: type, value: Any) -> Iterator[str]:
    if isinstance(value, kind):
        shown = f'"{value}"' if isinstance(value, str) else repr(value)
        yield f"{name} is a single {kind.__name__}; write {name} = ({shown},)"
        return
    if not isinstance(value, tuple) or not all(isinstance(item, kind) for item in value):
        yield f"{name} must be a tuple of {kind.__name__}"
        return
    if kind is str:
        pattern = _MIDDLEWARE if name == "conflicts" else _WISH
        for item in value:
            if not pattern.match(item):
                also = "" if name == "conflicts" else ' or "cap:<capability>"'
                yield f'{name} names {item!r}; write "plugin" or "plugin.middleware"{also}'


def once_faults(cls: type) -> Iterator[str]:
    """Yield what is wrong with ``lifespan`` and ``declare``, which are called on the class."""
    for name in ("lifespan", "declare"):
        static = inspect.getattr_static(cls, name, None)
        if static is None:
            continue
        if not isinstance(static, classmethod):
            yield f"{name} must be a @classmethod: it is called before there is an instance"
            continue
        function = static.__func__
        if inspect.iscoroutinefunction(function):
            yield (
                f"{name} is `async def` without a yield"
                if name == "lifespan"
                else ("declare is `async def`; it must return a Declaration")
            )
        elif name == "lifespan" and inspect.isasyncgenfunction(function):
            yield "lifespan lacks @asynccontextmanager, below @classmethod"


def slips(own: Iterator[type]) -> Iterator[str]:
    """Yield the attributes of an author's classes that are most likely meant to be ours."""
    methods = {*HOOKS, "lifespan", "declare"}
    values = set(Declaration.__dataclass_fields__)
    for klass in own:
        for name, value in vars(klass).items():
            known = hasattr(Middleware, name) or name.startswith(("_", "on_", "around_"))
            function = getattr(value, "__func__", value)
            ours = methods if inspect.isfunction(function) else values
            meant = None if known or isinstance(value, type) else nearest(name, ours, _LIKENESS)
            if meant is not None:
                yield f"{name} is nothing that the host looks at; did you mean {meant}?"
