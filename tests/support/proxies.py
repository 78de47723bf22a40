"""nginx as a child process in front of a server, with all that it writes in one folder."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

from driving import SECONDS, Server, stop

# One process, which is a child of the tests and has their rights.
CONFIGURATION = Template("""\
daemon off;
master_process off;
pid $folder/nginx.pid;
error_log stderr warn;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path $folder/body;
  proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi;
  scgi_temp_path $folder/scgi;
  uwsgi_temp_path $folder/uwsgi;
  server {
    listen 127.0.0.1:$port;
    location / {
      proxy_pass $behind;
      proxy_set_header Host $$http_host;
      proxy_read_timeout 5s;
      $settings
    }
  }
}
""")
SETTINGS = {
    "streaming": 'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;',
    "as it comes": "",  # it buffers, unless an answer says that it must not
}
_ATTEMPTS = 5


@contextmanager
def nginx(program: str, folder: Path, behind: str, *, settings: str) -> Iterator[Server]:
    """Run nginx in front of ``behind`` on a free port; afterwards end it, by its own id."""
    log = folder / "error.txt"
    for _ in range(_ATTEMPTS):
        port = _free_port()
        server = Server(
            _started(program, folder, log, behind=behind, settings=settings, port=port),
            f"http://127.0.0.1:{port}/",
            log,
        )
        if _answers(server, port):
            break
        stop(server.process)  # somebody else took the port
    else:
        raise AssertionError(log.read_text())
    try:
        yield server
    finally:
        code = stop(server.process, signal.SIGQUIT)
    assert code == 0, log.read_text()


def _started(
    program: str, folder: Path, log: Path, *, behind: str, settings: str, port: int
) -> subprocess.Popen[str]:
    written = folder / "nginx.conf"
    written.write_text(
        CONFIGURATION.substitute(
            folder=folder, port=port, behind=behind.rstrip("/"), settings=settings
        )
    )
    with log.open("w") as errors:
        return subprocess.Popen(  # noqa: S603 - nginx, as found on PATH
            [program, "-p", str(folder), "-e", "stderr", "-c", str(written)],
            stdin=subprocess.DEVNULL,
            stderr=errors,
            text=True,
        )


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _answers(server: Server, port: int) -> bool:
    """Wait until the port is open; False when the process has ended instead."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if server.process.poll() is not None:
            return False
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False
