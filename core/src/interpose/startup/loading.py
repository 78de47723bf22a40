"""Importing what the configuration names, and nothing else.

Never pluggy's own loader: one plugin that fails to import must be one diagnostic, not the end of
the program, and the declared range on Interpose is checked before any of its code runs.
"""

from __future__ import annotations

import importlib
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from interpose._version import __version__
from interpose.errors import InterposeError, Problem, nearest
from interpose.startup.discovery import CommandEntry, PluginEntry
from interpose.startup.uses import ObjectUse

_PACKAGE: Final = Path(__file__).parents[1]
_COMMANDS: Final = _PACKAGE / "cli"
_LONGEST: Final = 300
"""Characters of somebody else's message that are shown."""


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin that was imported: its entry point, and what the entry point names."""

    entry: PluginEntry
    value: Any


def check_range(entry: PluginEntry | CommandEntry, running: str = __version__) -> Problem | None:
    """Say what is wrong when a plugin declares that it is for another version of Interpose."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    declared = entry.distribution.interpose_range
    if declared is None:
        return None
    name = entry.distribution.name
    try:
        fits = SpecifierSet(declared).contains(running, prereleases=True)
    except InvalidSpecifier:
        fits = False
    if fits:
        return None
    return Problem(
        "incompatible-plugin",
        f"{entry} is built for another version of Interpose: required {declared}, found {running}.",
        (entry.distribution.location,),
        f'pip install --upgrade {name}, or pip install "interpose{declared}"',
    )


def load(entry: PluginEntry, running: str = __version__) -> LoadedPlugin | Problem:
    """Import a plugin, or say why that is not possible."""
    value = import_entry(entry, running)
    return value if isinstance(value, Problem) else LoadedPlugin(entry, value)


def import_entry(entry: PluginEntry | CommandEntry, running: str = __version__) -> object | Problem:
    """Return what an entry point names, or say why that is not possible.

    ``KeyboardInterrupt`` passes; ``SystemExit`` of a module that calls ``sys.exit`` does not.
    """
    unfit = check_range(entry, running)
    if unfit is not None:
        return unfit
    module, _, attr = entry.value.partition(":")
    try:
        value: object = importlib.import_module(module)
        for name in filter(None, attr.split(".")):
            value = getattr(value, name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
        return Problem(
            "failed-import",
            f"{entry} cannot be imported: {cause(error)}.",
            _raised_at(error),
            _remedy(entry, module, error),
        )
    return value


def import_object(use: ObjectUse, place: str = "") -> object | Problem:
    """Return the object that ``module:attribute`` names, or say why there is none."""
    where = (place,) if place else ()
    try:
        module = value = importlib.import_module(use.module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - in-house code may raise anything
        lost = _names_missing(error, use.module)
        return Problem(
            "failed-import",
            f"{use} cannot be imported: {cause(error)}.",
            where + (() if lost else _raised_at(error)),
            f"Check the name, and that the folder of {use.module.partition('.')[0]} is on "
            f"sys.path: the command line adds the config file's folder, an embedded Host adds none."
            if lost
            else _said_how(error)
            or f"Correct {use.module}, so that `python -c 'import {use.module}'` works.",
        )
    walked = use.module
    for name in use.attr.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            near = nearest(name, (n for n in dir(value) if not n.startswith("_")))
            return Problem(
                "missing-attribute",
                f"{use}: {walked} has no attribute {name!r}.",
                (*where, str(getattr(module, "__file__", None) or use.module)),
                f"Did you mean {near!r}?" if near else "Define it there, or correct the name.",
            )
        except Exception as error:  # noqa: BLE001 - a module's __getattr__ may raise anything
            return Problem(
                "failed-import",
                f"{use} cannot be imported: {cause(error)}.",
                (*where, *_raised_at(error)),
                f"Correct {use.module}.",
            )
        walked = f"{walked}.{name}"
    return value


def cause(error: BaseException) -> str:
    """Return an exception's type and the first line of its text."""
    if isinstance(error, SystemExit):
        return f"it called sys.exit({'' if error.code is None else repr(error.code)})"
    told = error.message if isinstance(error, InterposeError) else str(error)
    first, *_ = told.splitlines() or [""]
    shown = first if len(first) <= _LONGEST else f"{first[:_LONGEST]}…"
    kind = type(error).__name__
    return f"{kind}: {shown.rstrip('.')}" if shown else kind


def _names_missing(error: BaseException, module: str) -> bool:
    """Say whether the import failed because ``module``, or a package around it, is not there."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return missing is not None and f"{module}.".startswith(f"{missing}.")


def _said_how(error: BaseException) -> str:
    """Return what Interpose itself says of how to correct what it refused."""
    return error.hint if isinstance(error, InterposeError) else ""


def _remedy(entry: PluginEntry | CommandEntry, module: str, error: BaseException) -> str:
    distribution = entry.distribution.name
    if _names_missing(error, module):
        return f"The installation is incomplete: pip install --force-reinstall {distribution}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return (
            f"A dependency is missing: pip install --upgrade {distribution}, "
            f"or install the package that has {error.name.partition('.')[0]}."
        )
    without = ", or take it out of the config" if isinstance(entry, PluginEntry) else ""
    return (
        f"pip install --upgrade {distribution}{without}; "
        f"if it stays, tell the authors of {distribution}."
    )


def _raised_at(error: BaseException) -> tuple[str, ...]:
    """Return the place in a file that raised, as far as there is one."""
    if isinstance(error, SyntaxError) and error.filename:
        return (f"{error.filename}:{error.lineno or 1}",)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and frame.filename != __file__
    ]
    # An import that fails ends inside importlib, or in what watches imports for `check-plugin`; the
    # line that asked for it is the one to show.
    own = [frame for frame in frames if "importlib" not in frame.filename]
    own = [frame for frame in own if not Path(frame.filename).is_relative_to(_COMMANDS)]
    if isinstance(error, InterposeError):
        # What Interpose refuses is wrong where it was called.
        own = [frame for frame in own if not Path(frame.filename).is_relative_to(_PACKAGE)]
    return (f"{own[-1].filename}:{own[-1].lineno}",) if own else ()
