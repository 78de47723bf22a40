import asyncio
from collections.abc import AsyncIterator

from acme_signature import Signature
from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from interpose import Host, Layer


async def two_messages(run_input: RunAgentInput) -> AsyncIterator[BaseEvent]:
    yield RunStartedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)
    for message in ("one", "two"):
        yield TextMessageStartEvent(message_id=message)
        yield TextMessageContentEvent(message_id=message, delta=message)
        yield TextMessageEndEvent(message_id=message)
    yield RunFinishedEvent(thread_id=run_input.thread_id, run_id=run_input.run_id)


def said(**settings: object) -> str:
    async def play() -> str:
        async with Host(layers=[Layer(Signature, settings)], agent=two_messages) as host:
            events = [event async for event in host.run("Hello")]
        return "|".join(e.delta for e in events if isinstance(e, TextMessageContentEvent))

    return asyncio.run(play())


def test_each_message_is_signed() -> None:
    assert said(text="Yours, Acme") == "one| Yours, Acme|two| Yours, Acme"


def test_only_the_first_message_is_signed() -> None:
    assert said(text="Yours, Acme", first_only=True) == "one| Yours, Acme|two"
