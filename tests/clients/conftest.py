"""One server, and one process for each version of the client, for all tests with real clients."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from driving import CLIENTS, Client, Server, missing, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("serve") / "stderr.txt"
    with serving(CLIENTS / "agent/interpose.toml", log) as running:
        yield running


@pytest.fixture(scope="session")
def start_client() -> Iterator[Callable[[str], Client]]:
    running: dict[str, Client] = {}

    def start(version: str) -> Client:
        lacking = missing(version)
        node = shutil.which("node")
        if lacking or node is None:
            pytest.skip(lacking)
        if version not in running:
            running[version] = Client(version, node)
        return running[version]

    yield start
    for client in running.values():
        client.close()


@pytest.fixture(params=["v1", "v0"])
def client(request: pytest.FixtureRequest, start_client: Callable[[str], Client]) -> Client:
    """Each version: 1.0.0, and 0.0.59, which speaks the protocol as it was before 1.0."""
    return start_client(request.param)


@pytest.fixture
def new_client(start_client: Callable[[str], Client]) -> Client:
    return start_client("v1")


@pytest.fixture
def old_client(start_client: Callable[[str], Client]) -> Client:
    return start_client("v0")
