"""What pluggy lets pass and a plugin's author would find out too late.

pluggy accepts a hook with a misspelt name, never fills an argument that has a default or is
keyword-only, takes a class for an object and a coroutine for a result. Each of these is a fault
here, and all faults of a plugin are reported together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from interpose import hookspecs
from interpose.errors import nearest
from interpose.hookspecs import PROJECT

PREFIX: Final = f"{PROJECT}_"
_MARK: Final = f"{PROJECT}_impl"  # where pluggy's HookimplMarker keeps the options
_SPEC_MARK: Final = f"{PROJECT}_spec"
_ORDERING: Final = ("tryfirst", "trylast", "wrapper", "hookwrapper")

HOOKS: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(inspect.signature(spec).parameters)
    for name, spec in vars(hookspecs).items()
    if hasattr(spec, _SPEC_MARK)
}
"""Each hook of a plugin, and the names of its arguments."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks that a plugin implements, ready to be called, and what is wrong with it.

    Each fault is a sentence without its full stop, which names the function and the remedy.
    """

    functions: dict[str, Callable[..., Any]]
    faults: tuple[str, ...]


def find_hooks(plugin: object) -> Hooks:
    """Look at a plugin's module or object; calls nothing of it."""
    if inspect.isclass(plugin):
        fault = (
            f"{plugin.__qualname__} is a class, and hooks are called on an instance; "
            f"name an object: plugin = {plugin.__name__}()"
        )
        return Hooks({}, (fault,))
    functions: dict[str, Callable[..., Any]] = {}
    faults: list[str] = []
    for attribute, function, options in _candidates(plugin):
        name = (options or {}).get("specname") or attribute
        wrong = tuple(_faults(name, function, options))
        if not wrong and name in functions:
            wrong = (f"{name} is implemented twice; keep one",)
        faults += wrong
        if not wrong:
            functions[name] = function
    if not functions and not faults:
        faults.append(
            f"{_described(plugin)} implements no hook; "
            f"mark a function with @hookimpl, as {PREFIX}middlewares"
        )
    return Hooks(functions, tuple(faults))


def _candidates(plugin: object) -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """Yield what is marked as a hook, and what looks like one. Runs no property."""
    for attribute in dir(plugin):
        static = inspect.getattr_static(plugin, attribute, None)
        function = getattr(static, "__func__", static)
        if not inspect.isfunction(function):
            continue
        options = getattr(static, _MARK, None) or getattr(function, _MARK, None)
        looks_like_one = attribute in HOOKS or (
            attribute.startswith(PREFIX) and _meant(attribute) is not None
        )
        if options is not None or (looks_like_one and not hasattr(function, _SPEC_MARK)):
            yield attribute, getattr(plugin, attribute), options


def _faults(name: str, function: Callable[..., Any], options: Any) -> Iterator[str]:
    if name not in HOOKS:
        near = _meant(name)
        yield f"{name} is no hook; " + (
            f"did you mean {near}?" if near else f"the hooks are {', '.join(HOOKS)}"
        )
        return
    if options is None:
        yield f"{name} is not marked, so it would never be called; put @hookimpl above it"
        options = {}
    for option in _ORDERING:
        if options.get(option):
            yield (
                f"{name} uses {option}, and order is the configuration's; "
                f"remove it, and use stage, before and after on the middleware"
            )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield f"{name} is `async def`, but hooks of a plugin are called synchronously; use `def`"
    elif inspect.isgeneratorfunction(function):
        yield f"{name} contains `yield`, but its answer is what it returns; use `return`"
    yield from _argument_faults(name, function)


def _argument_faults(name: str, function: Callable[..., Any]) -> Iterator[str]:
    known = HOOKS[name]
    takes = f"{name} takes " + (", ".join(known) or "no arguments")
    for argument in inspect.signature(function).parameters.values():
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            stars = "*" if argument.kind is argument.VAR_POSITIONAL else "**"
            yield f"{name} has {stars}{argument.name}, which receives nothing; {takes}"
        elif argument.name not in known:
            near = nearest(argument.name, known)
            yield f"{name} has no argument {argument.name}; " + (
                f"did you mean {near}?" if near else takes
            )
        elif argument.kind is argument.KEYWORD_ONLY:
            yield f"{name} has the keyword-only argument {argument.name}; remove the * before it"
        elif argument.default is not argument.empty:
            yield f"{name} gives {argument.name} a default, so it is never passed; remove it"


def _meant(name: str) -> str | None:
    """Return the hook that a name is close to; the prefix that all share does not count."""
    near = nearest(name.removeprefix(PREFIX), (hook.removeprefix(PREFIX) for hook in HOOKS))
    return near and f"{PREFIX}{near}"


def _described(plugin: object) -> str:
    if inspect.ismodule(plugin):
        return f"the module {plugin.__name__}"
    return f"the {type(plugin).__name__} object"
