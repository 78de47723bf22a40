"""The lock file on disk: where it is, reading it, and writing it in one step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from interpose.errors import Problem, StartupError
from interpose.startup.lockmodel import Lock, from_bytes, invalid_lock, to_text

FILE_NAME: Final = "interpose.lock"


def place_of(named: str | None, files: Sequence[str]) -> str:
    """Return the file that was named, else the one beside the first config file."""
    return named or str(Path(files[0] if files else "").parent / FILE_NAME)


def read_lock(name: str) -> Lock | Problem:
    """Read a lock, or say why that is not possible."""
    try:
        content = Path(name).read_bytes()
    except FileNotFoundError:
        return Problem(
            "missing-lock",
            f"There is no lock {name}.",
            (str(Path(name).absolute()),),
            "Write one: interpose lock.",
        )
    except OSError as error:
        return invalid_lock(name, error.strerror or str(error))
    return from_bytes(content, name)


def write_lock(name: str, lock: Lock) -> None:
    """Put a lock in the place of the old one, so that a reader finds either and never a part.

    Raises :class:`StartupError` where that is not possible; then the old one is as it was.
    """
    target = Path(os.path.realpath(name))
    draft = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        try:
            draft.write_bytes(to_text(lock).encode())
            if target.exists():
                shutil.copymode(target, draft)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        problem = Problem(
            "cannot-write-lock",
            f"The lock {name} cannot be written: {error.strerror or error}.",
            (str(target),),
            "Make the folder writable, or name another file with --output.",
        )
        raise StartupError([problem]) from None
