"""A pair of servers, and nginx in front of them, for all tests that leave them running."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from driving import Server
from gateways import KEY, outer_of, running
from proxies import SETTINGS, nginx


@contextmanager
def environment() -> Iterator[None]:
    """What servers find in their environment: the key, and a proxy that nobody asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GATEWAY_KEY", KEY)
        for name in ("HTTP_PROXY", "ALL_PROXY"):
            patch.setenv(name, "http://127.0.0.1:9")
            patch.setenv(name.lower(), "http://127.0.0.1:9")
        yield


@pytest.fixture(scope="module", autouse=True)
def key() -> Iterator[None]:
    """For the servers that tests start themselves. Nothing of it outlasts the module."""
    with environment():
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both servers log."""
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="session")
def inner(folder: Path) -> Iterator[Server]:
    with ExitStack() as stack:
        with environment():
            server = stack.enter_context(running("inner", folder))
        yield server


@pytest.fixture(scope="session")
def outer(folder: Path, inner: Server) -> Iterator[Server]:
    with ExitStack() as stack:
        with environment():
            server = stack.enter_context(outer_of(inner.url, folder))
        yield server


@pytest.fixture(scope="session", params=SETTINGS)
def front(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, outer: Server
) -> Iterator[Server]:
    """nginx, told not to buffer, or left to obey what the server says of its streams."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("no nginx on this machine; Debian has it as nginx-light")
    folder = tmp_path_factory.mktemp("nginx")
    with nginx(program, folder, outer.url, settings=SETTINGS[request.param]) as server:
        yield server
