"""The subject with its instances at hand, for checks of what it keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from interpose.authoring import Middleware
from interpose.startup.inspection import inspect_middleware
from interpose.testing.contracts.subject import Subject


def watched(subject: Subject) -> tuple[Subject, list[Middleware[Any, Any]]]:
    """Return the subject, its class derived from so that each instance is put in the list."""
    made: list[Middleware[Any, Any]] = []
    original = subject.cls

    def init(self: Any) -> None:
        original.__init__(self)
        made.append(self)

    names = {
        "__init__": init,
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
    }
    cls = type(original.__name__, (original,), names)
    return replace(subject, cls=cls, facts=inspect_middleware(cls)), made
