"""Run in a fresh process: make a host ready, or import the protocol, and tell what took how long.

Prints one line of JSON: processor seconds by phase. ``sys.path`` and the working directory are the
caller's; nothing of the benchmarks is imported here.
"""

from __future__ import annotations

import functools
import gc
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

PHASES: Final = {
    "read_files": "reading configuration",
    "_Preparation._gather": "reading configuration",
    "_Preparation._read_host": "reading configuration",
    "_Preparation._catalogue": "discovery",
    "build_catalogue": "importing active plugins",
    "_Preparation._tables": "validating settings",
    "compose": "validating settings",
    "_Preparation._declare": "validating settings",
    "_Preparation._configured": "planning",
    "_Preparation._plan": "planning",
}
"""What of ``interpose.startup.preparing`` belongs to which phase, without what it calls of others.

``_catalogue`` is discovery, and what it then calls to import what was found.
"""


class Watch:
    """A clock that runs for one phase at a time: what a phase calls of another is not its own."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._phases = ["imports"]
        self._since = time.process_time()

    def enter(self, phase: str) -> None:
        """Let the time count for this phase from now on."""
        self._stop()
        self._phases.append(phase)

    def leave(self) -> None:
        """Let it count for the phase before again."""
        self._stop()
        self._phases.pop()

    def _stop(self) -> None:
        now = time.process_time()
        phase = self._phases[-1]
        self.spent[phase] = self.spent.get(phase, 0.0) + now - self._since
        self._since = now

    def collecting(self, phase: Literal["start", "stop"], _: Mapping[str, int]) -> None:
        """Let a garbage collection be a phase of its own: whom it falls on is chance."""
        if phase == "start":
            self.enter("garbage collection")
        else:
            self.leave()

    def wrap(self, holder: Any, name: str, phase: str) -> None:
        """Let every call of this function count for a phase."""
        wrapped: Callable[..., Any] = getattr(holder, name)

        @functools.wraps(wrapped)
        def timed(*arguments: Any, **named: Any) -> Any:
            self.enter(phase)
            try:
                return wrapped(*arguments, **named)
            finally:
                self.leave()

        setattr(holder, name, timed)


def ready(watch: Watch) -> None:
    """Make the host of ``interpose.toml`` here, and enter it."""
    import asyncio

    from interpose import Host
    from interpose.startup import preparing

    for path, phase in PHASES.items():
        *holders, name = path.split(".")
        watch.wrap(functools.reduce(getattr, holders, preparing), name, phase)

    async def main() -> None:
        watch.enter("the rest of Host(...)")
        host = Host.from_config()
        watch.leave()
        watch.enter("entering")
        async with host:
            watch.leave()

    watch.enter("entering")
    asyncio.run(main())


def protocol(_: Watch) -> None:
    """Import what every part of a host needs."""
    import ag_ui.core  # noqa: F401 - its import is what is measured


if __name__ == "__main__":
    running = Watch()
    gc.callbacks.append(running.collecting)
    {"ready": ready, "protocol": protocol}[sys.argv[1]](running)
    gc.callbacks.remove(running.collecting)
    running.leave()
    sys.stdout.write(json.dumps(running.spent))
