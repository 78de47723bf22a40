"""Other programs, bounded in time and cleaned up after."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TAIL = 12
"""Lines of another program's output that are worth showing."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a program. ``code`` None: it took too long, and was killed."""

    code: int | None
    output: str

    @property
    def tail(self) -> str:
        """The last lines that it printed."""
        lines = [line.rstrip() for line in self.output.splitlines() if line.strip()]
        return "\n".join(lines[-_TAIL:])


def run(
    command: Sequence[str | Path], *, cwd: Path, environ: Mapping[str, str], deadline: float
) -> Ran:
    """Run a program, with what it prints on both streams. ``deadline``: seconds.

    It and whatever it started are gone afterwards, also after Ctrl-C.
    """
    # A file, not a pipe: a grandchild that keeps a pipe open would keep us waiting.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(  # noqa: S603 - what the check is made of
            [str(part) for part in command],
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(timeout=deadline)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        output.seek(0)
        return Ran(code, output.read().decode("utf-8", errors="replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
