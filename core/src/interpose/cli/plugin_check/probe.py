"""What runs beside the plugin, in a process that it may crash, block or leave a mess in.

``python -m interpose.cli.plugin_check.probe REQUEST ANSWER``: two files. The answer has a line of
JSON for each check, and one before each step, so that the last one tells where it all ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from interpose.cli.plugin_check.results import Check, to_json


@dataclass(frozen=True, slots=True)
class Request:
    """What the probe is to do.

    ``own``: the top-level packages. ``imports``: (module, place, guarded) of what is not its own.
    """

    distribution: str
    root: str
    own: Sequence[str]
    declared: Sequence[str]
    imports: Sequence[tuple[str, str, bool]]
    readme: str
    options: Sequence[str]

    def write(self, file: Path) -> None:
        """Write it for the other process."""
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")


def main(request: str, answer: str) -> None:
    """Make the checks that need the plugin to be loaded."""
    # Otherwise pydantic reads every installed distribution's entry points, also damaged ones.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    asked = Request(**json.loads(Path(request).read_text(encoding="utf-8")))
    with Path(answer).open("w", encoding="utf-8") as file:

        def tell(check: str, doing: str) -> None:
            _write(file, {"at": check, "doing": doing})

        for check in _checks(asked, tell):
            _write(file, to_json(check))
        _write(file, {"done": True})
    # A thread that the plugin left behind may not keep this process.
    os._exit(0)


def _checks(asked: Request, tell: Callable[[str, str], None]) -> Iterator[Check]:
    # All of Interpose that a plugin could touch is here before, so that it is not its doing.
    for door in ("host", "text", "agui", "commands", "loop"):
        with contextlib.suppress(ImportError):  # an extra that nothing here needs
            import_module(f"interpose.{door}")
    from interpose.cli.plugin_check.load_checks import load_all
    from interpose.cli.plugin_check.offer_checks import offer_check
    from interpose.cli.plugin_check.owner_checks import Needed, dependency_check
    from interpose.cli.plugin_check.plan_checks import plan_check
    from interpose.cli.plugin_check.setting_checks import setting_check
    from interpose.startup.discovery import discover

    tell("load", "looking for what is installed")
    yield dependency_check((Needed(*each) for each in asked.imports), asked.declared)
    discovery = discover()
    entries = [e for e in discovery.plugins if e.distribution.canonical == asked.distribution]
    loaded = load_all(entries, asked.own, Path(asked.root), tell)
    yield from loaded.checks
    if not loaded.contributions:
        for name in ("offers-true", "settings", "plan"):
            yield Check(name, skipped="no plugin could be loaded")
        return
    tell("offers-true", "asking the parts what they provide")
    yield offer_check(loaded.contributions)
    tell("settings", "looking at the settings")
    yield setting_check(loaded.contributions, asked.readme)
    yield plan_check(loaded.contributions, discovery, asked.options, tell)


def _write(file: TextIO, told: Mapping[str, Any]) -> None:
    file.write(json.dumps(told) + "\n")
    file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
