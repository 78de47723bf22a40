"""Which tool of which server a name stands for, and whether a server's tool can be offered."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import Tool
from jsonschema import SchemaError  # type: ignore[import-untyped]
from jsonschema.validators import validator_for  # type: ignore[import-untyped]
from mcp.types import Tool as McpTool

from interpose_mcp.meta import resource_uri

LONGEST: Final = 64
"""Characters that providers allow in the name of a tool."""
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Route:
    """A name that a model calls, and the tool of a server that it stands for."""

    name: str
    server: str
    tool: McpTool

    @property
    def resource_uri(self) -> str | None:
        """The UI resource that shows the tool's results."""
        return resource_uri(self.tool)


def fault_of(tool: McpTool) -> str | None:
    """Return why a tool cannot be offered to a model; None when it can."""
    schema: Any = tool.input_schema
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "its input schema is not that of an object"
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        return f"its input schema is none: {error.message}"
    except Exception as error:  # noqa: BLE001 - a stranger's schema may be anything
        return f"its input schema cannot be read: {type(error).__name__}"
    return None


def sound(tools: Iterable[McpTool]) -> tuple[tuple[McpTool, ...], dict[str, str]]:
    """Return the tools that can be offered, and why others of these names cannot."""
    whole: dict[str, McpTool] = {}
    faults: dict[str, str] = {}
    for tool in tools:
        fault = "the server lists it twice" if tool.name in whole else fault_of(tool)
        if fault is None:
            whole[tool.name] = tool
        else:
            faults[tool.name] = fault
    return tuple(whole.values()), faults


def named(listings: Mapping[str, Iterable[McpTool]], taken: Collection[str]) -> dict[str, Route]:
    """Give each tool a name of its own: ``mcp__<server>__<tool>``.

    Characters that providers refuse become ``_``, and no name is longer than 64 characters. One
    that is taken gets ``_2``, ``_3`` and so on. It does not depend on the order of a listing.
    """
    routes: dict[str, Route] = {}
    for server, tools in listings.items():
        for tool in sorted(tools, key=lambda each: each.name):
            plain = _NOT_IN_A_NAME.sub("_", f"mcp__{server}__{tool.name}")
            name, number = plain[:LONGEST], 1
            while name in routes or name in taken:
                number += 1
                ending = f"_{number}"
                name = plain[: LONGEST - len(ending)] + ending
            routes[name] = Route(name, server, tool)
    return routes


def is_name(name: str) -> bool:
    """Tell whether a tool may be called so by a model as it is."""
    return _NAME.fullmatch(name) is not None


def declared(route: Route, *, tell_ui: bool = False) -> Tool:
    """Return a tool as AG-UI declares it. ``tell_ui``: its description names the UI resource."""
    description = route.tool.description or ""
    uri = route.resource_uri
    if tell_ui and uri is not None:
        description = f"{description}\n[UI Resource: {uri}]"
    schema = route.tool.input_schema or {"type": "object", "properties": {}}
    return Tool(name=route.name, description=description, parameters=schema)
