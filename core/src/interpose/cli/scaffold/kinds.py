"""The kinds of plugins that can be begun, and what is special about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. ``about``: a line for people; ``values``: what its templates are filled with."""

    name: str
    about: str
    values: Mapping[str, str]


_MIDDLEWARE: Final = '@plugin@ = "@package@:@Stem@"'
_MODULE: Final = '@plugin@ = "@package@"'

KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind(
            "stream",
            "a middleware that changes text in the stream, also where chunks cut it",
            {
                "description": "An Interpose middleware that masks words in what an agent says",
                "dependencies": '"ag-ui-protocol>=1.0,<2", "@core@", "pydantic>=2.11.2", '
                '"regex>=2024.7.24"',
                "entry": _MIDDLEWARE,
                "offers": "",
                "extra": "",
            },
        ),
        Kind(
            "loop",
            "a middleware around the tool calls of the built-in loop",
            {
                "description": "An Interpose middleware that decides which tools may run",
                "dependencies": '"@core@", "pydantic>=2.11.2"',
                "entry": _MIDDLEWARE,
                "offers": "",
                "extra": "[loop]",
            },
        ),
        Kind(
            "provider",
            "a provider of a capability that middlewares of others can require",
            {
                "description": "A provider of a key-value store for Interpose",
                "dependencies": '"@core@", "pydantic>=2.11.2"',
                "entry": _MODULE,
                "offers": '"capability.@distribution@/store" = "@package@"',
                "extra": "",
            },
        ),
        Kind(
            "agent",
            "an agent with settings, for `[agent] use = ...`",
            {
                "description": "An agent for Interpose",
                "dependencies": '"ag-ui-protocol>=1.0,<2", "@core@", "pydantic>=2.11.2"',
                "entry": _MODULE,
                "offers": "",
                "extra": "",
            },
        ),
        Kind(
            "several",
            "two middlewares and a provider that they share, in one plugin",
            {
                "description": "Interpose middlewares that count and limit the runs of users",
                "dependencies": '"@core@", "pydantic>=2.11.2"',
                "entry": _MODULE,
                "offers": '"capability.@distribution@/counts" = "@package@"',
                "extra": "",
            },
        ),
        Kind(
            "local",
            "one file in an application, used by `module:Class`, without a package",
            {"description": "A middleware of this application"},
        ),
    )
}
