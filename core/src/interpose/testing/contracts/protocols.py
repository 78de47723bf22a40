"""Whether a value keeps the Protocol of its capability: members, parameters, sync or async."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

from typing_extensions import get_protocol_members, is_protocol

from interpose.capability import Capability

_AWAITABLES: Final = ("Awaitable", "Coroutine", "Future", "Task", "Any", "object", "AsyncIter")


def protocol_faults(capability: Capability[Any], value: object) -> list[str]:
    """Return what a reader of the capability could not do with ``value``, each a clause."""
    missing = capability.missing_members(value)
    if missing:
        return [f"it lacks {', '.join(missing)}"]
    kind = capability.value_type
    if not isinstance(kind, type):
        return []
    if not is_protocol(kind):
        fits = isinstance(value, kind)
        return [] if fits else [f"it is a {type(value).__name__}, not a {kind.__name__}"]
    return [
        fault
        for name in sorted(get_protocol_members(kind))
        for fault in _method_faults(kind, name, value)
    ]


def _method_faults(protocol: type, name: str, value: object) -> Iterator[str]:
    wanted = inspect.getattr_static(protocol, name, None)
    if not inspect.isfunction(wanted):
        return
    found = getattr(value, name)
    if not callable(found):
        yield f"{name} is a {type(found).__name__}, and cannot be called"
        return
    yield from _parameter_faults(name, wanted, found)
    if inspect.iscoroutinefunction(wanted):
        if _is_plain(found):
            yield f"{name} is a plain function, and its readers await it"
    elif inspect.iscoroutinefunction(found) and not _may_be_awaited(wanted):
        yield f"{name} is `async def`, and its readers do not await it"


def _parameter_faults(name: str, wanted: Any, found: Any) -> Iterator[str]:
    try:
        given = list(inspect.signature(wanted).parameters.values())[1:]
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return
    by_name = {p.name: None for p in given if p.kind is p.KEYWORD_ONLY}
    positional = [p for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty]
    for arguments in (needed, positional):
        try:
            signature.bind(*arguments, **by_name)
        except TypeError as error:
            yield f"{name} cannot be called as the Protocol says: {error}"
            return


def _is_plain(function: Any) -> bool:
    """Say whether a function surely gives nothing to await."""
    known = inspect.isfunction(function) or inspect.ismethod(function)
    if not known or inspect.iscoroutinefunction(function):
        return False
    returned = inspect.signature(function).return_annotation
    return returned is not inspect.Signature.empty and not _mentions_awaitable(returned)


def _may_be_awaited(function: Any) -> bool:
    returned = inspect.signature(function).return_annotation
    return returned is inspect.Signature.empty or _mentions_awaitable(returned)


def _mentions_awaitable(annotation: Any) -> bool:
    said = annotation if isinstance(annotation, str) else repr(annotation)
    return any(name in said for name in _AWAITABLES)
