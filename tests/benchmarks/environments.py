"""Environments of peers: made from pinned files, kept by a digest of them, removed if half made."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / ".environments"
"""Where environments are kept; it may be removed at any time, and git ignores it."""

INSTALLATION: Final = 600.0
"""Seconds that the installation of an environment may take."""

_COMPLETE: Final = "complete"
_LONGEST: Final = 200


class Unavailable(Exception):
    """A peer cannot be measured here; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Environment(ABC):
    """An environment. ``pins``: the file or folder that says what is installed."""

    name: str
    pins: Path
    below: Path = FOLDER
    timeout: float = INSTALLATION

    @property
    def folder(self) -> Path:
        """Where it is, or would be: other pins or another interpreter are another folder."""
        digest = hashlib.sha256(self._interpreter().encode())
        for file in self._files():
            digest.update(file.read_bytes())
        return self.below / f"{self.name}-{digest.hexdigest()[:12]}"

    def make(self) -> None:
        """Make it where it is not there yet; another process that makes it is waited for.

        :raises Unavailable: when it cannot be made; nothing is left of it then.
        """
        folder = self.folder
        if (folder / _COMPLETE).exists():
            return
        self.below.mkdir(parents=True, exist_ok=True)
        with _alone(self.below / f"{folder.name}.lock", self.timeout):
            if (folder / _COMPLETE).exists():
                return
            shutil.rmtree(folder, ignore_errors=True)
            try:
                folder.mkdir()
                self._install(folder, time.monotonic() + self.timeout)
                (folder / _COMPLETE).touch()
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise

    @abstractmethod
    @contextlib.contextmanager
    def command(self, script: Path) -> Generator[tuple[list[str], Path], None, None]:
        """Yield the command that starts a script in here, and the folder to start it from."""

    @abstractmethod
    def _interpreter(self) -> str:
        """Return what tells one interpreter from another."""

    @abstractmethod
    def _files(self) -> list[Path]:
        """Return the files that hold the pins."""

    @abstractmethod
    def _install(self, folder: Path, until: float) -> None:
        """Install what is pinned."""


class PythonEnvironment(Environment):
    """A virtual environment of the interpreter that runs us, from a file of requirements."""

    __slots__ = ()

    @contextlib.contextmanager
    def command(self, script: Path) -> Generator[tuple[list[str], Path], None, None]:
        """Start it as a module of its folder: so that no script hides a package by its name."""
        module = f"{script.parent.name}.{script.stem}"
        yield [str(_python_of(self.folder)), "-m", module], script.parent.parent

    def _interpreter(self) -> str:
        return sys.version

    def _files(self) -> list[Path]:
        return [self.pins]

    def _install(self, folder: Path, until: float) -> None:
        _run([sys.executable, "-m", "venv", str(folder)], folder, until)
        options = ("--quiet", "--no-input", "--disable-pip-version-check")
        _run(
            [str(_python_of(folder)), "-m", "pip", "install", *options, "-r", str(self.pins)],
            folder,
            until,
        )


class NodeEnvironment(Environment):
    """Packages for Node.js, from a folder with ``package.json`` and ``package-lock.json``."""

    __slots__ = ()

    @contextlib.contextmanager
    def command(self, script: Path) -> Generator[tuple[list[str], Path], None, None]:
        """Start a copy: Node.js looks for packages above the script, not where it is started."""
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="run-") as name:
            copies = Path(name)
            for each in script.parent.glob("*.mjs"):
                shutil.copy(each, copies)
            yield ["node", "--expose-gc", str(copies / script.name)], copies

    def _interpreter(self) -> str:
        return "node"

    def _files(self) -> list[Path]:
        return [self.pins / name for name in ("package.json", "package-lock.json")]

    def _install(self, folder: Path, until: float) -> None:
        for each in self._files():
            shutil.copy(each, folder)
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        _run(["npm", "ci", *options], folder, until)


def _python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def _run(command: Sequence[str], folder: Path, until: float) -> None:
    """Run a command to its end, or kill it with its children when the time is over."""
    name = Path(command[0]).name if command[0] != sys.executable else "venv"
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(  # noqa: S603 - pip and npm, with our own pins
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"{name} does not start: {error.strerror}") from error
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Unavailable("its installation took too long") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode != 0:
            output.seek(0)
            raise Unavailable(f"not installed: {reason(output.read().decode('utf-8', 'replace'))}")


def reason(output: str) -> str:
    """Return the line of an installer's output that says why, without addresses."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [
        line
        for line in lines
        if line.casefold().startswith(("error", "npm err"))
        and not re.match(r"npm err\w*!? code ", line, re.IGNORECASE)
    ]
    said = (errors or lines[-1:] or ["it did not say why"])[0]
    said = re.sub(r"^(error:|npm err(or)?!?)\s*", "", said, flags=re.IGNORECASE)
    said = re.sub(r"\w+://\S+", "the index", said)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."


@contextlib.contextmanager
def _alone(lock: Path, timeout: float) -> Generator[None, None, None]:
    """Hold a lock among processes, or wait for it for at most so many seconds."""
    until = time.monotonic() + timeout
    with lock.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Unavailable("another process takes too long to install it") from None
                time.sleep(0.2)
        yield
