"""A part of the configuration: one table, and the model that reads it.

Every table has two owners. The host owns a few keys of it (``use``, ``enabled``, ``layer``), or all
of them (``[server]``); what is left belongs to the plugin, for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from interpose.startup.tree import KeyPath

HOST_KEYS: Mapping[str, frozenset[str]] = {
    "middleware": frozenset({"use", "enabled", "layer"}),
    "providers": frozenset({"use"}),
    "agents": frozenset({"use", "middleware"}),
    "models": frozenset({"use"}),
}
"""The keys that the host owns in a table of each section; of other sections it owns all."""

LAYER_KEYS = ("required", "before", "after", "stage", "on_failure", "deadline", "agents")
"""The keys of the sub-table ``layer``."""


def is_override(path: KeyPath) -> bool:
    """Say whether ``path`` is that of an ``[agents.<agent>.middleware.<layer>]``."""
    return len(path) == 4 and path[0] == "agents" and path[2] == "middleware"  # noqa: PLR2004


@dataclass(frozen=True, slots=True)
class Part:
    """What one half of the table at ``path`` is read as.

    ``base`` is the table whose values it starts from: ``[middleware.<layer>]`` for
    ``[agents.<agent>.middleware.<layer>]``. ``title`` names the model in the JSON Schema (the
    middleware's id). ``given`` is an instance from code; files and variables may override it.
    """

    path: KeyPath
    model: type[BaseModel]
    half: Literal["host", "plugin"] = "plugin"
    base: KeyPath | None = None
    title: str = ""
    given: BaseModel | None = None

    @property
    def host_keys(self) -> frozenset[str] | None:
        """The keys that the host owns in this table; None: all of them."""
        if is_override(self.path):
            return HOST_KEYS["middleware"]
        return HOST_KEYS.get(str(self.path[0])) if self.path else None

    def reads(self, key: str) -> bool:
        """Say whether ``key`` belongs to this half of the table."""
        owned = self.host_keys
        if self.half == "plugin":
            return owned is None or key not in owned
        # [agents.<agent>.middleware] holds tables of its own, which are parts themselves.
        return owned is None or (key in owned and key != "middleware")
