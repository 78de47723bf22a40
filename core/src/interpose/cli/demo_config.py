"""The demo's configuration: the first plugins that are installed, written as an operator would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from interpose.startup.discovery import Discovery

FILE_NAME: Final = "interpose.toml"

_AGENT: Final = """\
[agent]
use = "scripted"
"""
_LOOP: Final = """\
[agent]
use = "loop"
model = "clerk"
tools = ["interpose.cli.demo_shop:find_order", "interpose.cli.demo_shop:refund"]

[models.clerk]                # scripted: it needs no network
use = "interpose.cli.demo_shop:Clerk"

[middleware.quota]
use = "interpose.cli.demo_shop:Quota"
tool_calls = 3

[middleware.currency]
use = "interpose.cli.demo_shop:Currency"
"""
# Not in the order in which they will stand: that is the plan's work.
_TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "redact": """\
[middleware.redact]
entities = ["email", "card"]
action = "mask"
""",
        "tool-filter": """\
[middleware.tool-filter]
deny = ["lookup_order"]
""",
        "logging": """\
[middleware.logging]
""",
    }
)


@dataclass(frozen=True, slots=True)
class DemoConfig:
    """A config file, and the ids of the plugins that would stand in it if they were installed."""

    toml: str
    missing: tuple[str, ...]

    @property
    def install(self) -> str:
        """The command that installs what is missing; empty when nothing is."""
        names = " ".join(f"interpose-{plugin}" for plugin in self.missing)
        return f"pip install {names}" if names else ""


def demo_config(discovery: Discovery) -> DemoConfig:
    """Return the configuration that switches on every first plugin there is."""
    return _with_plugins(_AGENT, _TABLES, discovery)


def loop_config(discovery: Discovery) -> DemoConfig:
    """Return the configuration of a loop, with the plugin that has most to do in it."""
    return _with_plugins(_LOOP, {"redact": _TABLES["redact"]}, discovery)


def _with_plugins(head: str, tables: Mapping[str, str], discovery: Discovery) -> DemoConfig:
    found = [head]
    missing: list[str] = []
    for plugin, table in tables.items():
        owners = {entry.distribution.canonical for entry in discovery.named(plugin)}
        own = f"interpose-{plugin}"
        if own not in owners:
            missing.append(plugin)
        elif len(owners) > 1:
            # Somebody else's plugin has the same id.
            found.append(table.replace("]\n", f']\nuse = "{plugin}@{own}"\n', 1))
        else:
            found.append(table)
    return DemoConfig("\n".join(found), tuple(missing))
