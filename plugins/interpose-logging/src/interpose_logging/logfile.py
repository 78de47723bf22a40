"""A file of lines, shared by all runs of a layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Self

from interpose import InterposeError


class LogFileError(InterposeError):
    """The file that a layer is to log to cannot be opened for appending; raised at startup."""

    code = "log-file"


class LogFile:
    """Appends whole lines, from any thread, each in one unbuffered write.

    So what was logged is there after a crash, and rotation by copy and truncate works.
    """

    __slots__ = ("_lock", "_stream")

    def __init__(self, path: Path) -> None:
        self._stream = path.open("ab", buffering=0)
        self._lock = Lock()

    @classmethod
    @contextmanager
    def opened(cls, path: Path, layer_id: str) -> Iterator[Self]:
        """Open the file for a layer, and close it.

        Raises :class:`LogFileError`.
        """
        try:
            file = cls(path)
        except OSError as error:
            raise LogFileError(
                f"The log file {path} cannot be opened: {error.strerror or error}.",
                where=f"[middleware.{layer_id}] file",
                hint="Name a file that this user may append to, in a folder that exists.",
            ) from error
        try:
            yield file
        finally:
            file.close()

    def write(self, line: str) -> None:
        """Append one line of ASCII; raises OSError when the disk does not take it."""
        with self._lock:
            self._stream.write(line.encode("ascii") + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
