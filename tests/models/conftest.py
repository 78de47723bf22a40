"""One fake provider, aimock, for all tests with it: a real server that speaks several protocols."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from driving import SECONDS, lines_of, stop
from loguru import logger

from interpose import LifespanContext, ModelContext
from interpose_models import Models, ModelsSettings

HERE = Path(__file__).parent
KEY = "sk-test-0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Aimock:
    """A running aimock."""

    url: str

    def model(self, name: str, **settings: Any) -> Any:
        """Return a model of ours that talks to it."""
        base_url = self.url if name.startswith("anthropic") else f"{self.url}/v1"
        given = {"name": name, "api_key": KEY, "base_url": base_url, **settings}
        return Models()(ModelsSettings.model_validate(given), cast("LifespanContext", None))

    def last_request(self) -> dict[str, Any]:
        """Return what it was sent last, in the words of the chat protocol whatever came."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=SECONDS)
        try:
            connection.request("GET", "/__aimock/journal")
            entries = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return dict(entries[-1]["body"])


def lacking() -> str:
    if shutil.which("node") is None:
        return "no Node.js on this machine"
    if not (HERE / "node_modules/@copilotkit/aimock/package.json").is_file():
        return "run `npm ci --ignore-scripts` in tests/models"
    return ""


@pytest.fixture(scope="session")
def aimock() -> Iterator[Aimock]:
    reason, node = lacking(), shutil.which("node")
    if reason or node is None:
        pytest.skip(reason)
    process = subprocess.Popen(  # noqa: S603 - the server of this folder
        [node, str(HERE / "serve.mjs")],
        stdin=subprocess.PIPE,  # it ends with this process, however this one ends
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = lines_of(process.stdout).get(timeout=SECONDS)
        assert address is not None
        yield Aimock(address.strip())
    finally:
        stop(process)


@pytest.fixture
def context() -> ModelContext:
    return ModelContext(cast("Any", SimpleNamespace(log=lambda _model: logger)), "main", "m1")
