"""The command line: parse with nothing but argparse, then import the one command that is wanted.

A mistake of the user's is told as a problem, never as a traceback; see :mod:`interpose.cli.exits`
for what the exit codes mean.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from interpose.cli.exits import CLOSED, INTERRUPTED
from interpose.cli.parser import ASKED, Command, parse
from interpose.cli.terminal import discard_output, never_fail_to_encode


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. ``argv``: without the program's name.

    Raises :class:`SystemExit` for ``--help`` (0) and for a command line that has no meaning (2).
    """
    never_fail_to_encode()
    # Otherwise pydantic reads every installed distribution's entry points, also damaged ones.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    debug = "--debug" in (sys.argv if argv is None else argv)
    try:
        arguments = parse(argv)
        debug = arguments.debug
        asked: Command = getattr(arguments, ASKED)
        run = asked.main or _imported(f"interpose.cli.{asked.module}", for_good=argv is None).main
        code: int = run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough of it, as `head` does.
        discard_output()
        return CLOSED
    except Exception as error:  # noqa: BLE001 - the program's edge: everything ends as a message
        from interpose.cli.failing import report

        return report(error, debug=debug)
    return code


def _imported(name: str, *, for_good: bool) -> ModuleType:
    """Import a command. ``for_good``: this process is for it alone.

    Then nothing that was imported ever becomes garbage, and looking through it, while importing,
    in every full collection and at the end, would be a quarter of a short command's time.
    """
    if not for_good:
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()
