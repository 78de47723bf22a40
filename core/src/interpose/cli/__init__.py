"""The command line: parse with nothing but argparse, then import the one command that is wanted.

A mistake of the user's is told as a problem, never as a traceback; see :mod:`interpose.cli.exits`
for what the exit codes mean.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from interpose.cli.exits import CLOSED, INTERRUPTED
from interpose.cli.parser import parse
from interpose.cli.terminal import discard_output, never_fail_to_encode


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. ``argv``: without the program's name.

    Raises :class:`SystemExit` for ``--help`` (0) and for a command line that has no meaning (2).
    """
    never_fail_to_encode()
    # Otherwise pydantic reads every installed distribution's entry points, also damaged ones.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    arguments = parse(argv)
    try:
        command = import_module(f"interpose.cli.{arguments.module}")
        code: int = command.main(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough of it, as `head` does.
        discard_output()
        return CLOSED
    except Exception as error:  # noqa: BLE001 - the program's edge: everything ends as a message
        from interpose.cli.failing import report

        return report(error, debug=arguments.debug)
    return code
