"""What the fields of a tool have to be."""

from __future__ import annotations

import inspect
import math
import re
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic_core import from_json, to_json

from interpose.errors import UsageError
from interpose.payloads import Effect

if TYPE_CHECKING:
    from interpose.loop.tools import LoopTool

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def check_name(name: object, where: str = "") -> None:
    """Check a tool's name: providers take no other. :class:`UsageError` otherwise."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return
    hint = "a name has 1 to 64 letters, digits, _, - and ."
    if name == "<lambda>":
        raise UsageError(
            "a lambda has no name", where=where, hint="tool(lambda city: ..., name='weather')"
        )
    raise UsageError(f"{name!r} cannot be the name of a tool", where=where, hint=hint)


def check_fields(tool: LoopTool) -> None:
    """Check all fields but the parameters. :class:`UsageError` for the first that is wrong."""
    check_name(tool.name)
    problem = ""
    if not isinstance(tool.description, str):
        problem = "has a description that is no text"
    elif tool.run is not None and not callable(tool.run):
        problem = "has something to run that cannot be called"
    elif tool.effect not in get_args(Effect):
        problem = f"has the effect {tool.effect!r}; there are read, write and idempotent"
    elif not isinstance(tool.lazy, bool):
        problem = "has a lazy that is not True or False"
    elif not _is_timeout(tool.timeout):
        problem = f"has the timeout {tool.timeout!r}; it takes seconds, more than 0, or None"
    elif not isinstance(tool.approval, bool | str) and not callable(tool.approval):
        problem = "has an approval that is no True, False, text or function"
    elif tool.approval == "":
        problem = "asks an empty question for approval"
    elif inspect.iscoroutinefunction(tool.approval):
        problem = "has an async function for approval; it has to be a plain one"
    if problem:
        raise UsageError(f"the tool {tool.name!r} {problem}")


def _is_timeout(value: object) -> bool:
    if value is None:
        return True
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0  # type: ignore[arg-type, operator]


def plain_metadata(tool: LoopTool) -> dict[str, Any]:
    """Return a copy of a tool's metadata, which has to be JSON as it goes over the wire."""
    try:
        plain = from_json(to_json(dict(tool.metadata), inf_nan_mode="strings"))
    except (ValueError, TypeError) as error:
        raise UsageError(f"the metadata of the tool {tool.name!r} is no JSON: {error}") from error
    return dict(plain)
