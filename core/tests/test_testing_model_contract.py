"""The contract of models finds mistakes, and lets correct ones pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    Tool,
    UserMessage,
)
from contracting import failures
from pydantic import SecretStr

from interpose import (
    LifespanContext,
    ModelContext,
    ModelFactory,
    ModelFinished,
    ModelRequest,
    RateLimited,
    Settings,
    UsageError,
)
from interpose.loop import ScriptedModel
from interpose.testing import (
    model_contract,
    text,
    tool_call,
)

USED = TokenUsage(input_tokens=3, output_tokens=2, total_tokens=5)


class Model:
    """Says hello, and calls a tool if it has one."""

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        if not request.messages:
            raise RateLimited("slow down")
        for event in self.events(request, ctx):
            await asyncio.sleep(0)
            yield event

    def events(self, request: ModelRequest, ctx: ModelContext) -> list[BaseEvent]:
        return [*text("Hel", "lo", message_id=ctx.message_id), *self.calls(request), self.end()]

    def calls(self, request: ModelRequest) -> list[BaseEvent]:
        return [
            event
            for each in request.tools
            for event in tool_call(
                each.name, ('{"order":', ' "1"}'), tool_call_id=f"call-{each.name}"
            )
        ]

    def end(self) -> ModelFinished:
        return ModelFinished(finish_reason="tool_calls", usage=(USED,))


NOTHING = ModelRequest("any", ())


@pytest.mark.parametrize("check", model_contract(Model(), failing=[NOTHING]), ids=str)
def test_a_correct_model_passes(check: Callable[[], None]) -> None:
    check()


def test_the_scripted_model_passes() -> None:
    assert not failures(model_contract(ScriptedModel("Hello.")))
    assert not failures(model_contract(ScriptedModel({"thinking": "Hm.", "text": "Hello."})))


class ModelSettings(Settings):
    api_key: SecretStr
    """The key."""


class Factory(ModelFactory[ModelSettings]):
    def __call__(self, settings: ModelSettings, ctx: LifespanContext, /) -> Model:
        return Model()


class KeyInRepr(ModelFactory[ModelSettings]):
    def __call__(self, settings: ModelSettings, ctx: LifespanContext, /) -> Model:
        class Shows(Model):
            def __repr__(self) -> str:
                return f"Model({settings.api_key.get_secret_value()})"

        return Shows()


def test_a_factory_of_models_passes_and_its_settings_are_checked() -> None:
    assert not failures(model_contract(Factory, settings={"api_key": "k" * 20}))
    found = failures(model_contract(KeyInRepr, settings={"api_key": "k" * 20}))
    assert found.keys() == {"secrets-hidden"}


def test_settings_that_are_not_valid_are_refused() -> None:
    with pytest.raises(UsageError, match="the settings of the contract are not valid"):
        model_contract(Factory)


class NeverEnds(Model):
    def events(self, request: ModelRequest, ctx: ModelContext) -> list[BaseEvent]:
        return text("Hello", message_id=ctx.message_id)


class LeavesOpen(Model):
    def events(self, request: ModelRequest, ctx: ModelContext) -> list[BaseEvent]:
        return [*text("Hello", message_id=ctx.message_id)[:2], self.end()]


class SaysRunStarted(Model):
    def events(self, request: ModelRequest, ctx: ModelContext) -> list[BaseEvent]:
        return [RunStartedEvent(thread_id="t", run_id="r"), self.end()]


class NoTools(Model):
    def calls(self, request: ModelRequest) -> list[BaseEvent]:
        return []


class HalfJson(Model):
    def calls(self, request: ModelRequest) -> list[BaseEvent]:
        return tool_call("look_up", ('{"order": "1"',))


class TooLittle(Model):
    def end(self) -> ModelFinished:
        used = TokenUsage(input_tokens=3, output_tokens=2, total_tokens=3)
        return ModelFinished(finish_reason="tool_calls", usage=(used,))


class Shares(Model):
    """Keeps the text of the call at hand in the model."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        self.pieces = []
        for piece in ("Hel", "lo"):
            self.pieces.append(piece)
            await asyncio.sleep(0)
            yield TextMessageStartEvent(message_id=f"{ctx.message_id}-{piece}", role="assistant")
            yield TextMessageContentEvent(
                message_id=f"{ctx.message_id}-{piece}", delta="".join(self.pieces)
            )
            yield TextMessageEndEvent(message_id=f"{ctx.message_id}-{piece}")
        yield ModelFinished(finish_reason="stop", usage=(USED,))


class Pumps(Model):
    """Reads the provider in a task of its own, and forgets it when nobody listens."""

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        queue: asyncio.Queue[BaseEvent] = asyncio.Queue(maxsize=1)

        async def pump() -> None:
            for event in self.events(request, ctx):
                await queue.put(event)

        self.task = asyncio.ensure_future(pump())
        while True:
            event = await queue.get()
            yield event
            if isinstance(event, ModelFinished):
                return


class Stubborn(Model):
    """Takes its cancellation for a broken connection, and connects again."""

    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        for event in self.events(request, ctx):
            try:
                await asyncio.sleep(0)
            except BaseException:  # noqa: BLE001 - the mistake
                await asyncio.sleep(0)
            yield event


class Trims(Model):
    """Shortens the conversation, for itself, it thinks."""

    def events(self, request: ModelRequest, ctx: ModelContext) -> list[BaseEvent]:
        settings: Any = request.settings
        settings.pop("temperature", None)
        return super().events(request, ctx)


class OwnErrors(Model):
    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        if not request.messages:
            raise ConnectionError("no route to host")
        for event in self.events(request, ctx):
            yield event


class AnswersAnyway(Model):
    async def stream(self, request: ModelRequest, ctx: ModelContext, /) -> AsyncIterator[BaseEvent]:
        for event in self.events(request, ctx):
            yield event


class NoGenerator(Model):
    async def stream(  # type: ignore[override]
        self, request: ModelRequest, ctx: ModelContext, /
    ) -> Any:
        return text("Hello")


ASKED = ModelRequest(
    "any",
    (UserMessage(id="u", content="hi"),),
    tools=(Tool(name="look_up", description="Look up an order.", parameters={"type": "object"}),),
    settings={"temperature": 0},
)


@pytest.mark.parametrize(
    ("model", "check", "said"),
    [
        (NeverEnds(), "answer-valid", "its stream ends without ModelFinished"),
        (LeavesOpen(), "answer-valid", "what it streams is not valid: "),
        (
            SaysRunStarted(),
            "answer-valid",
            "the model 'contract-subject' gave RUN_STARTED, which is the loop's to say",
        ),
        (NoTools(), "answer-valid", "it says that it ended with tool calls, and made none"),
        (HalfJson(), "calls-json", """the arguments of look_up are '{"order": "1"'"""),
        (
            TooLittle(),
            "usage",
            "its usage has 3 tokens in total, and 5 of input and output",
        ),
        (Shares(), "interleaved-calls", "two calls at once: one of them is not what it is alone"),
        (Pumps(), "closes", "closed after 1 events, the task Pumps.stream.<locals>.pump is still"),
        (Stubborn(), "cancels", "cancelled after 1 events, it goes on"),
        (Trims(), "request-untouched", "it changes settings of the request in place"),
        (
            OwnErrors(),
            "fails-in-words",
            "request 1 of failing raises ConnectionError('no route to host')",
        ),
        (AnswersAnyway(), "fails-in-words", "request 1 of failing is answered"),
        (
            NoGenerator(),
            "answer-valid",
            "the model 'contract-subject' gave a coroutine, and no stream",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Model) else "",
)
def test_a_model_with_a_mistake_is_found(model: Model, check: str, said: str) -> None:
    found = failures(model_contract(model, request=ASKED, failing=[NOTHING]))
    assert said in found[check]


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(UsageError, match="takes a ModelFactory class or a model, not"):
        model_contract(Model)  # type: ignore[arg-type]


def test_a_contract_for_a_part_takes_excuses() -> None:
    contract = model_contract(NeverEnds(), excuse={"answer-valid": "an old model"})
    results: Mapping[str, str] = {each.name: each.status for each in contract.run().results}
    assert results["answer-valid"] == "excused"
    with pytest.raises(UsageError, match="'answer-value', which is no check"):
        model_contract(NeverEnds(), excuse={"answer-value": "an old model"})
