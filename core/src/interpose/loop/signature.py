"""What a function is: its name, what it says about itself, and what it asks for."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from interpose.errors import UsageError
from interpose.loop.tool_context import ToolContext
from interpose.loop.tool_docs import Docs, read_docs

EMPTY: Final = inspect.Parameter.empty
_CONTEXT: Final = re.compile(r"\s*(?:[\w.]+\.)?ToolContext(?:\s*\|\s*None)?\s*")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that is passed by name. ``default`` is :data:`EMPTY` when it has none."""

    name: str
    annotation: Any
    default: Any


@dataclass(frozen=True, slots=True)
class Function:
    """What calls of a function are made of.

    ``parameters``: without ``contexts``, the ones that take a :class:`ToolContext`, and without
    what a ``functools.partial`` has bound. ``takes_any``: it has ``**kwargs``.
    """

    call: Callable[..., Any]
    name: str
    where: str
    docs: Docs
    parameters: tuple[Parameter, ...]
    contexts: tuple[str, ...]
    takes_any: bool


def read_function(function: Callable[..., Any]) -> Function:
    """Read a function, a bound method, a ``functools.partial`` or an object with ``__call__``.

    Raises :class:`UsageError` for what cannot be called by name with values.
    """
    given: object = function
    if isinstance(given, type) or not callable(given):
        kind = "the class" if isinstance(given, type) else "a value of type"
        shown = given if isinstance(given, type) else type(given)
        raise UsageError(
            f"{kind} {shown.__qualname__} is no function, and no tool can be made of it",
            hint="give a function, a bound method or a LoopTool",
        )
    bound, inner = _unbound(function)
    source = inspect.unwrap(inner if inspect.isroutine(inner) else type(inner).__call__)
    name = str(getattr(inner, "__name__", None) or type(inner).__name__)
    qualname = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    where = f"{getattr(inner, '__module__', None) or type(inner).__module__}.{qualname}"
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError, NameError) as error:
        raise UsageError(
            f"the parameters of {name!r} cannot be read: {error}",
            where=where,
            hint="wrap it in a function with annotations",
        ) from error
    parameters: list[Parameter] = []
    contexts: list[str] = []
    takes_any = False
    for index, each in enumerate(signature.parameters.values()):
        if each.name in bound:
            continue
        if each.kind is each.VAR_KEYWORD:
            takes_any = True
            continue
        _check_kind(each, index, name, where)
        hint = _hint(each, getattr(source, "__globals__", {}), where)
        if _is_context(hint):
            contexts.append(each.name)
        else:
            parameters.append(Parameter(each.name, hint, each.default))
    docs = read_docs(inner if inspect.isroutine(inner) else source, where)
    return Function(function, name, where, docs, tuple(parameters), tuple(contexts), takes_any)


def _unbound(function: Any) -> tuple[frozenset[str], Any]:
    """Return what partials have bound by name, and what they are partials of."""
    bound: set[str] = set()
    while isinstance(function, partial):
        bound |= function.keywords.keys()
        function = function.func
    return frozenset(bound), function


def _check_kind(parameter: inspect.Parameter, index: int, name: str, where: str) -> None:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise UsageError(
            f"the tool {name!r} takes *{parameter.name}, but arguments of tools have names",
            where=where,
            hint=f"write {parameter.name}: list[...]",
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise UsageError(
            f"the parameter {parameter.name!r} of the tool {name!r} is positional-only, but "
            "arguments of tools have names",
            where=where,
            hint="leave out the / in its signature",
        )
    if index == 0 and parameter.name in ("self", "cls") and parameter.annotation is EMPTY:
        raise UsageError(
            f"the tool {name!r} is a method without its object",
            where=where,
            hint=f"make the tool of a bound method: tool(object.{name})",
        )


def _hint(parameter: inspect.Parameter, names: dict[str, Any], where: str) -> Any:
    """Return the annotation with its strings resolved, one parameter at a time.

    So what cannot be resolved elsewhere, as a return type for type checkers alone, does not matter.
    """
    annotation = parameter.annotation
    if annotation is EMPTY:
        return Any
    if isinstance(annotation, str) and _CONTEXT.fullmatch(annotation):
        return ToolContext  # which often is imported for type checkers alone
    holder = SimpleNamespace(__annotations__={parameter.name: annotation})
    try:
        return get_type_hints(holder, globalns=names, include_extras=True)[parameter.name]
    except Exception as error:
        raise UsageError(
            f"the annotation {annotation!r} of the parameter {parameter.name!r} cannot be "
            f"resolved: {type(error).__name__}: {error}",
            where=where,
            hint="define or import its names at the top of the module, not in a function and not "
            "under TYPE_CHECKING; or leave out `from __future__ import annotations`",
        ) from error


def _is_context(hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Annotated:
        return _is_context(get_args(hint)[0])
    return hint is ToolContext or (
        origin in (Union, UnionType) and any(each is ToolContext for each in get_args(hint))
    )
