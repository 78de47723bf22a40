"""Noticing calls that block the loop's thread, while the author's own code makes them.

Each detector stands in the place of a function for a while. It looks at the stack: only a call that
the author's code has made in the loop's thread counts, and none that asyncio makes for it.
"""

from __future__ import annotations

import builtins
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

_ASYNC: Final = ("asyncio", "uvloop", "anyio", "trio")
"""What waits without blocking, or hands the call to a thread."""
_HTTP: Final = (("requests.sessions", "Session", "send"), ("httpx", "Client", "send"))
"""Clients of other packages, looked at if they are there."""


class WouldBlock(OSError):
    """Raised in the place of a call that would wait for the network or for another thread."""


@dataclass(slots=True)
class Blocked:
    """The blocking calls that were made: ``time.sleep in Guard.on_event (guard.py, line 7)``."""

    packages: frozenset[str]
    thread: int
    calls: list[str] = field(default_factory=list)

    def note(self, what: str) -> bool:
        """Take note of a call if the author's code makes it on the loop; True if so."""
        if threading.get_ident() != self.thread:
            return False
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the stack is what is asked
        while frame is not None:
            top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if top in _ASYNC:
                return False
            if top in self.packages:
                code = frame.f_code
                file = code.co_filename.replace("\\", "/").rpartition("/")[2]
                self.calls.append(f"{what} in {code.co_qualname} ({file}, line {frame.f_lineno})")
                return True
            frame = frame.f_back
        return False


@contextmanager
def noticing(cls: type) -> Iterator[Blocked]:
    """Notice the blocking calls that the code of a class makes in this thread.

    A sleep is skipped, and a wait for the network, a process, a person or another thread raises
    :class:`WouldBlock`. Everything is put back in the end.
    """
    blocked = Blocked(_packages(cls), threading.get_ident())
    with ExitStack() as stack:

        def put(owner: Any, name: str, stand_in: Callable[..., Any]) -> None:
            stack.enter_context(_replaced(owner, name, stand_in, blocked.packages))

        _put_sleep(blocked, put)
        _put_waits(blocked, put)
        _put_network(blocked, put)
        yield blocked


Put = Callable[[Any, str, Callable[..., Any]], None]


def _put_sleep(blocked: Blocked, put: Put) -> None:
    real = time.sleep

    def sleep(seconds: float, /) -> None:
        if not blocked.note("time.sleep"):
            real(seconds)

    put(time, "sleep", sleep)


def _put_waits(blocked: Blocked, put: Put) -> None:
    """Stand in for waits for threads, processes and people."""
    # Event, Queue, Semaphore, Barrier and Future all wait by this, and only when they have to.
    real_wait = threading.Condition.wait

    def wait(self: threading.Condition, timeout: float | None = None) -> bool:
        if _starts_a_thread() or not blocked.note("a wait for another thread"):
            return real_wait(self, timeout)
        raise WouldBlock("a wait for another thread on the loop")

    put(threading.Condition, "wait", wait)
    _put_raising(blocked, put, threading.Thread, "join", "Thread.join")
    _put_raising(blocked, put, subprocess.Popen, "__init__", "subprocess")
    _put_raising(blocked, put, os, "system", "os.system")
    _put_raising(blocked, put, builtins, "input", "input")


def _put_network(blocked: Blocked, put: Put) -> None:
    _put_raising(blocked, put, socket, "getaddrinfo", "a look-up of a host name")
    _put_raising(blocked, put, socket, "create_connection", "a connection")
    _put_raising(blocked, put, http.client.HTTPConnection, "request", "a request over HTTP")
    for name in ("connect", "recv", "recv_into", "send", "sendall", "accept"):
        real = getattr(socket.socket, name)

        def call(
            self: socket.socket, *args: Any, _real: Any = real, _name: str = name, **options: Any
        ) -> Any:
            if self.gettimeout() != 0 and blocked.note(f"socket.{_name}"):
                raise WouldBlock(f"socket.{_name} on the loop")
            return _real(self, *args, **options)

        put(socket.socket, name, call)
    for module, owner, name in _HTTP:
        found = getattr(sys.modules.get(module), owner, None)
        if found is not None:
            _put_raising(blocked, put, found, name, f"{module.partition('.')[0]}.{owner}")


def _put_raising(blocked: Blocked, put: Put, owner: Any, name: str, what: str) -> None:
    real = getattr(owner, name)

    def call(*args: Any, **options: Any) -> Any:
        if blocked.note(what):
            raise WouldBlock(f"{what} on the loop")
        return real(*args, **options)

    put(owner, name, call)


@contextmanager
def _replaced(
    owner: Any, name: str, stand_in: Callable[..., Any], packages: frozenset[str]
) -> Iterator[None]:
    """Put a stand-in in the place of a function, also where the author's modules imported it."""
    real = getattr(owner, name)
    inherited = name not in vars(owner)
    places = [
        (module, bound)
        for key, module in list(sys.modules.items())
        if key.partition(".")[0] in packages and module is not owner
        for bound, value in list(vars(module).items())
        if value is real
    ]
    setattr(owner, name, stand_in)
    for module, bound in places:
        setattr(module, bound, stand_in)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, real)
        for module, bound in places:
            setattr(module, bound, real)


def _starts_a_thread() -> bool:
    """Whether the wait is that of ``Thread.start`` for its thread to have begun."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the stack is what is asked
    for _ in range(4):
        if frame is None:
            return False
        if frame.f_code is threading.Thread.start.__code__:
            return True
        frame = frame.f_back
    return False


def _packages(cls: type) -> frozenset[str]:
    """Return the packages that the code of a class, and of its bases below, belongs to."""
    tops = {each.__module__.partition(".")[0] for each in cls.__mro__}
    return frozenset(tops - {"interpose", "builtins", "typing", "abc"})
