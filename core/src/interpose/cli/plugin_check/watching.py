"""What a plugin does to its process while it is imported, and who of it did it.

Some of it is told by Python's audit events, the rest by comparing the process's state around each
import: so a change is known to be the plugin's own, or that of a library that it imports.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

Key = tuple[str, str]
"""What is changed or done, and of what: ``("variable", "PATH")``."""

_AUDITED: Final[Mapping[str, str]] = {
    "socket.bind": "network",
    "socket.connect": "network",
    "socket.getaddrinfo": "network",
    "socket.gethostbyname": "network",
    "socket.sendto": "network",
    "subprocess.Popen": "process",
    "os.exec": "process",
    "os.fork": "process",
    "os.posix_spawn": "process",
    "os.system": "process",
    "os.mkdir": "file",
    "os.remove": "file",
    "os.rename": "file",
    "os.rmdir": "file",
    "os.truncate": "file",
}
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SIGNALS: Final = tuple(
    (each, each.name) for each in signal.Signals if each.name not in ("SIGKILL", "SIGSTOP")
)
_HOOKS: Final = ("excepthook", "displayhook", "unraisablehook", "stdout", "stderr", "stdin")


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that was done. ``by``: the top-level module that did it."""

    kind: str
    item: str
    by: str


class Watch:
    """Watches what happens inside its ``with`` block. One at a time: an audit hook stays."""

    def __init__(self) -> None:
        self._events: dict[Key, str] = {}
        self._changes: dict[Key, str] = {}
        self._before: dict[Key, object] = {}
        self._last: dict[Key, object] = {}
        self._watching = False
        self._import = builtins.__import__

    def __enter__(self) -> Self:
        sys.addaudithook(self._audit)
        self._stdout = sys.stdout
        sys.stdout = _Listening(self._said)
        self._before = self._last = _state()
        builtins.__import__ = self._importing
        self._watching = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watching = False
        builtins.__import__ = self._import
        self._mark("")
        sys.stdout = self._stdout

    def effects(self) -> Iterator[Effect]:
        """Yield what was done and has not been undone."""
        for (kind, item), by in self._events.items():
            yield Effect(kind, item, by)
        for key, by in self._changes.items():
            if self._before.get(key) != self._last.get(key):
                yield Effect(*key, by)

    def _importing(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the name that callers use
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - likewise
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        if level == 0 and not fromlist and name in sys.modules:
            return self._import(name, globals, locals, fromlist, level)
        importer = str((globals or {}).get("__name__", ""))
        self._mark(importer)
        try:
            return self._import(name, globals, locals, fromlist, level)
        finally:
            self._mark(importer if level else name)

    def _mark(self, module: str) -> None:
        """Put what changed since the last look to the account of ``module``."""
        now = _state()
        if now != self._last:
            for key in now.keys() | self._last.keys():
                if now.get(key) != self._last.get(key):
                    self._changes[key] = module.partition(".")[0] or self._changes.get(key, "")
            self._last = now

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._watching:
            return
        kind = _AUDITED.get(event)
        item = _text(arguments[0] if arguments else "")
        if event == "open":
            if not _is_write(*arguments[:3]):
                return
            kind = "file"
        elif kind == "network":
            item = _address(event, arguments)
        if kind == "file" and "__pycache__" in item:
            return  # Python's own doing
        if kind is not None:
            self._note(kind, item)

    def _said(self, text: str) -> None:
        if self._watching and text.strip():
            self._note("output", "")

    def _note(self, kind: str, item: str) -> None:
        by = _culprit(sys._getframe(2))  # noqa: SLF001 - there is no public way to look
        if by:
            self._events.setdefault((kind, item), by)


class _Listening(io.StringIO):
    def __init__(self, told: Any) -> None:
        super().__init__()
        self._told = told

    def write(self, text: str) -> int:
        self._told(text)
        return len(text)


def _culprit(frame: FrameType | None) -> str:
    """Return who is behind a call: the innermost module that is neither Python's nor ours."""
    while frame is not None:
        top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if top and top not in sys.stdlib_module_names and top not in ("interpose", "__main__"):
            return top
        frame = frame.f_back
    return ""


def _is_write(path: Any, mode: Any, flags: Any) -> bool:
    if isinstance(path, int) or path is None:
        return False
    name = _text(path)
    if name == os.devnull:
        return False
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(isinstance(flags, int) and flags & _WRITING)


def _address(event: str, arguments: tuple[Any, ...]) -> str:
    if event.startswith("socket.get"):
        return _text(arguments[0] if arguments else "")
    address = arguments[1] if len(arguments) > 1 else ""
    return ":".join(map(str, address[:2])) if isinstance(address, tuple) else _text(address)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _state() -> dict[Key, object]:
    """Return what an import must leave alone. Values are compared, and never shown."""
    state: dict[Key, object] = {("variable", name): value for name, value in os.environ.items()}
    state |= {("path", entry): True for entry in map(str, sys.path)}
    state |= {("signal", name): signal.getsignal(number) for number, name in _SIGNALS}
    state |= {("thread", thread.name): thread.ident for thread in threading.enumerate()}
    state |= {("hook", f"sys.{name}"): id(getattr(sys, name)) for name in _HOOKS}
    state["hook", "threading.excepthook"] = id(threading.excepthook)
    state["hook", "sys.settrace"] = id(sys.gettrace())
    state["hook", "sys.setprofile"] = id(sys.getprofile())
    state |= {("finder", type(each).__name__): id(each) for each in sys.meta_path}
    state["warnings", ""] = tuple(map(repr, warnings.filters))
    state["folder", ""] = str(Path.cwd())
    state["timeout", ""] = socket.getdefaulttimeout()
    _logging(state)
    return state


def _logging(state: dict[Key, object]) -> None:
    logging = sys.modules.get("logging")
    if logging is not None:
        root = logging.getLogger()
        state["logging", ""] = (root.level, tuple(map(id, root.handlers)))
    loguru = sys.modules.get("loguru")
    if loguru is not None:
        # What is added and removed is known to the logger's core alone.
        core = getattr(loguru.logger, "_core", None)
        state["loguru", ""] = tuple(getattr(core, "handlers", ()))
    asyncio = sys.modules.get("asyncio.events")
    if asyncio is not None:
        policy = getattr(asyncio, "_event_loop_policy", None)
        state["policy", ""] = type(policy).__name__ if policy is not None else None
