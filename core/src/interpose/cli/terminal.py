"""Where output goes: colours only where they are wanted, and no failure over a character."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Mapping
from typing import Final, TextIO

_HEAD: Final = re.compile(r"^(error|warning|note)(\[[^\]\n]*\])", re.MULTILINE)
_STYLES: Final = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "note": "\x1b[1;36m"}
_RESET: Final = "\x1b[0m"
_CONTROLS: Final = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"
}


def colored(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Say whether to colour what goes to ``stream``: a terminal, without NO_COLOR."""
    wanted = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return wanted and stream.isatty()


def paint(problems: str, stream: TextIO) -> str:
    """Colour the severities of rendered problems, if ``stream`` takes colours."""
    if not colored(stream):
        return problems
    return _HEAD.sub(lambda found: f"{_STYLES[found[1]]}{found[0]}{_RESET}", problems)


def complain(problems: str) -> None:
    """Show rendered problems on standard error."""
    print(paint(visible(problems), sys.stderr), file=sys.stderr, flush=True)


def visible(text: str) -> str:
    """Return ``text`` with control characters spelled out: an agent may not steer a terminal."""
    return text.translate(_CONTROLS)


def never_fail_to_encode() -> None:
    """Let output that the terminal's encoding lacks be shown escaped, instead of ending us."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Let what is still buffered for a closed pipe go nowhere, also when Python exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, io.UnsupportedOperation):
        pass  # nothing that could fail at exit
    finally:
        os.close(nowhere)
