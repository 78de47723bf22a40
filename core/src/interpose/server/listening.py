"""Serving an application with uvicorn: sockets, signals, and an orderly stop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from interpose.errors import Problem, StartupError
from interpose.server.application import ServerApp

_MARGIN = 5.0
_INTERRUPTED = 130


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises :class:`StartupError` when there can be none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while attempting")[0]
        raise StartupError(
            [
                Problem(
                    "cannot-listen",
                    f"The server cannot listen on {host} port {port}: {reason}.",
                    hint="Choose another with --host and --port, or in the table [server].\n"
                    "Write the address alone, as 127.0.0.1 or ::1.",
                )
            ]
        ) from None


def address(sock: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port, *_ = sock.getsockname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _leave(said: str, code: int) -> None:
    os.write(2, f"{said}\n".encode())
    os._exit(code)


class Server(uvicorn.Server):
    """Serves one application until a signal comes, then drains it.

    ``drain``: seconds that open runs have to end by themselves; ``ending``: seconds that a
    cancelled one may take. ``stopped_by`` is the signal.
    """

    def __init__(self, app: ServerApp, *, drain: float, ending: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",  # whoever serves has entered the host
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                ws="none",
                timeout_graceful_shutdown=int(drain + ending + _MARGIN),
            )
        )
        self.stopped_by: int | None = None
        self._app = app
        self._drain = drain
        self._last: threading.Timer | None = None
        self._longest = drain + 3 * ending + _MARGIN

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to :meth:`signals`, which also covers the host's start and stop."""
        yield

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Stop at SIGINT and SIGTERM inside the block; it has to end soon after such a signal."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
            if self._last is not None:
                self._last.cancel()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Take note of a signal. A second SIGINT ends the program at once."""
        if self.stopped_by is not None and sig == signal.SIGINT:
            _leave("interrupted again: open runs were not closed", _INTERRUPTED)
        if self.stopped_by is None:
            self.stopped_by = sig
            # Code that ignores cancellation must not keep the process.
            said = "the server did not stop in time"
            self._last = threading.Timer(self._longest, _leave, (said, 1))
            self._last.daemon = True
            self._last.start()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and give the open runs their time."""
        draining = asyncio.create_task(self._app.drain(self._drain), name="drain the server")
        try:
            await super().shutdown(sockets)
        finally:
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)
