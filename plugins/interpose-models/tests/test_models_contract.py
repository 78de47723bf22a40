"""The plugin's model keeps the contract of models, against a provider that a test writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from ag_ui.core import UserMessage
from wiring import KEY, chat_answer, chat_chunk, serving

from interpose import ModelRequest
from interpose.testing import model_contract
from interpose_models import Models

_CALLS = 200
"""More answers than a contract asks for."""


@pytest.fixture(name="url", scope="module")
def url_fixture() -> Iterator[str]:
    """The address of a provider in a thread of its own: each check has its own loop."""
    urls: list[str] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()

    async def serve(until: asyncio.Event) -> None:
        answer = chat_answer(
            chat_chunk(role="assistant", content="Hel"),
            chat_chunk(content="lo."),
            chat_chunk(finish="stop"),
        )
        async with serving(*[answer] * _CALLS) as provider:
            urls.append(f"{provider.url}/v1")
            ready.set()
            await until.wait()

    until = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve(until)))
    thread.start()
    ready.wait(10)
    yield urls[0]
    loop.call_soon_threadsafe(until.set)
    thread.join()
    loop.close()


def test_the_model_keeps_the_contract(url: str) -> None:
    report = model_contract(
        Models,
        settings={"name": "openai-chat:gpt-4o", "api_key": KEY, "base_url": url},
        request=ModelRequest("main", (UserMessage(id="u1", content="Hello"),)),
    ).run()
    assert report, str(report)
