"""What ``_meta`` of a tool says about MCP Apps."""

from __future__ import annotations

from typing import Any

from mcp.types import Tool

_ROLES = frozenset({"model", "app"})
_ABSENT: Any = object()


def resource_uri(tool: Tool) -> str | None:
    """Return the UI resource of a tool: ``_meta.ui.resourceUri``, or the older flat key."""
    meta = tool.meta or {}
    ui = meta.get("ui")
    if isinstance(ui, dict) and isinstance(ui.get("resourceUri"), str):
        return str(ui["resourceUri"])
    flat = meta.get("ui/resourceUri")
    return flat if isinstance(flat, str) else None


def is_for_model(tool: Tool) -> bool:
    """Tell whether a model may see the tool: unless ``_meta.ui.visibility`` leaves it out."""
    visibility = _visibility(tool)
    if visibility is _ABSENT:
        return True
    return isinstance(visibility, list) and "model" in visibility


def is_for_app(tool: Tool) -> bool:
    """Tell whether a frame may call the tool. What cannot be understood is for nobody."""
    meta = tool.meta or {}
    if "ui" in meta and not isinstance(meta["ui"], dict):
        return False
    visibility = _visibility(tool)
    if visibility is _ABSENT:
        return True
    if not isinstance(visibility, list) or not visibility:
        return False
    if not all(isinstance(each, str) and each in _ROLES for each in visibility):
        return False
    return "app" in visibility


def visibility_of(tool: Tool) -> str:
    """Return who may use the tool, for people."""
    roles = [("model", is_for_model(tool)), ("app", is_for_app(tool))]
    return ", ".join(role for role, may in roles if may) or "nobody"


def _visibility(tool: Tool) -> Any:
    ui = (tool.meta or {}).get("ui")
    return ui.get("visibility", _ABSENT) if isinstance(ui, dict) else _ABSENT
