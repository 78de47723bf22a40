"""Reading the body of a request."""

from __future__ import annotations

import asyncio
import gc
import json
import sys

import pytest
from starlette.requests import Request
from starlette.types import Message

from interpose.errors import InputError
from interpose.server.reading import read_input


def request(content: bytes) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    headers = [(b"content-type", b"application/json")]
    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


def test_a_body_that_is_nested_too_deeply_is_told_so() -> None:
    content = b'{"state":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
    with pytest.raises(InputError, match="The body is nested too deeply"):
        asyncio.run(read_input(request(content), 100_000))


def test_nothing_that_a_request_says_is_kept() -> None:
    async def read(numbers: range) -> None:
        for number in numbers:
            content = json.dumps({"runId": f"run-{number}", "state": {"token": f"t-{number}"}})
            assert (await read_input(request(content.encode()), 1000))["runId"] == f"run-{number}"

    asyncio.run(read(range(100)))
    gc.collect()
    before = sys.getallocatedblocks()
    asyncio.run(read(range(100, 3100)))
    gc.collect()
    assert sys.getallocatedblocks() - before < 500
