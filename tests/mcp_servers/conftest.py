"""One of each outside part of MCP for all tests that leave it as it is; the log begins anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext

import pytest
from mcp_parts import (
    Peer,
    Served,
    apps_example,
    everything,
    missing_node_part,
    odd_server,
    python_server,
)


@pytest.fixture(scope="session")
def running_apps() -> Iterator[Served]:
    with python_server() as running:
        yield running


@pytest.fixture(scope="session")
def running_apps_over_sse() -> Iterator[Served]:
    with python_server("--transport", "sse") as running:
        yield running


@pytest.fixture
def apps(running_apps: Served) -> Served:
    """The Python server with MCP Apps, over streamable HTTP."""
    running_apps.clear()
    return running_apps


@pytest.fixture
def apps_over_sse(running_apps_over_sse: Served) -> Served:
    """The same, over SSE."""
    running_apps_over_sse.clear()
    return running_apps_over_sse


@pytest.fixture(scope="session")
def node_parts() -> None:
    """What is from npm, or a skip."""
    if reason := missing_node_part():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def everything_server(node_parts: None) -> Iterator[Served]:
    """server-everything from npm."""
    with everything() as running:
        yield running


@pytest.fixture(scope="session")
def example_server(node_parts: None) -> Iterator[Served]:
    """The example of a server with MCP Apps from npm."""
    with apps_example() as running:
        yield running


@pytest.fixture(scope="session")
def peer(node_parts: None) -> Iterator[Peer]:
    """The middleware for MCP Apps from npm."""
    running = Peer()
    try:
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def odd() -> Iterator[Callable[..., AbstractContextManager[Served]]]:
    """Odd servers that stay as they are: one for all tests of a file that want the same."""
    with ExitStack() as stack:
        running: dict[object, Served] = {}

        def get(kind: str, **options: str | int) -> AbstractContextManager[Served]:
            key = (kind, *sorted(options.items()))
            if key not in running:
                running[key] = stack.enter_context(odd_server(kind, **options))
            running[key].clear()
            return nullcontext(running[key])

        yield get
