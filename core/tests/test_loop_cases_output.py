"""Numbered cases of a chat loop: structured output, on a call of its own and with the tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import BaseEvent, CustomEvent, RunErrorEvent, UserMessage
from looping import Spy, calls, loop
from pydantic import BaseModel

from interpose import (
    Ability,
    ErrorInfo,
    FinishInfo,
    Middleware,
    ModelConfig,
    ModelFinished,
    OutputError,
    RunContext,
)
from interpose.loop import tool


class City(BaseModel):
    name: str
    people: int


GOOD = '{"name": "Ulm", "people": 126000}'
WRONG = '{"name": "Ulm"}'
NATIVE = frozenset({Ability.OUTPUT_WITH_TOOLS})


@tool
def look(q: str = "x") -> str:
    """Look something up."""
    return f"found {q}"


def model_of(way: str, *turns: Any) -> Spy:
    return Spy(*turns, abilities=NATIVE if way == "native" else frozenset())


def output(layers: Any, model: Any, tools: Any = (), **options: Any) -> Any:
    return loop(layers, model, tools, run={"output": City}, **options)


def names(played: Any) -> list[str]:
    return [event.name for event in played.events if isinstance(event, CustomEvent)]


def test_case_54_without_tools_only_the_structured_call_is_made() -> None:
    """No tools, a schema apart: one model call, in the phase structured_output, one hook of its own."""
    phases: list[str] = []
    asked: list[ModelConfig] = []

    class Watches(Middleware):
        def on_event(self, ctx: RunContext, event: BaseEvent) -> None:
            if "TEXT" in event.type.value:
                phases.append(ctx.phase)

        def on_structured_output_config(self, ctx: RunContext, config: ModelConfig) -> None:
            asked.append(config)

    model = model_of("separate", GOOD)

    played = output([Watches], model)

    assert len(model.requests) == 1
    assert set(phases) == {"structured_output"}
    (config,) = asked
    assert config.output_schema is not None
    assert config.output_schema["properties"].keys() == {"name", "people"}
    assert not config.tools
    assert played.result.output == City(name="Ulm", people=126000)


@pytest.mark.parametrize("way", ["separate", "native"])
def test_case_56_the_consumer_sees_one_run_with_the_output_inside(way: str) -> None:
    """One RUN_STARTED, one terminal; start and complete between them, whatever the model can do."""
    turns = [calls("look"), GOOD] if way == "native" else [calls("look"), "found", GOOD]

    played = output([], model_of(way, *turns), [look])

    assert (played.types.count("RUN_STARTED"), played.types.count("RUN_FINISHED")) == (1, 1)
    assert played.types[-1] == "RUN_FINISHED"
    assert names(played) == ["structured-output.start", "structured-output.complete"]
    assert played.result.output == City(name="Ulm", people=126000)
    assert played.result.result == {"name": "Ulm", "people": 126000}


def test_case_56_the_native_way_gives_the_schema_with_the_tools() -> None:
    """A model that takes both in one request: no call of its own is made."""
    model = model_of("native", calls("look"), GOOD)

    output([], model, [look])

    assert model.tools == [["look"], ["look"]]
    assert all(request.output_schema for request in model.requests)


def test_case_57_what_is_changed_for_the_structured_call_no_other_call_sees() -> None:
    """Schema, prompts and messages of on_structured_output_config: only in the last request."""
    schema = {"title": "Changed", "type": "object", "properties": {}}

    class Shapes(Middleware):
        def on_structured_output_config(self, ctx: RunContext, config: ModelConfig) -> ModelConfig:
            more = UserMessage(id="u9", content="As JSON.")
            return ModelConfig(
                output_schema=schema,
                system_prompts=("shaped",),
                messages=(*(config.messages or ()), more),
                persist=True,
            )

    model = model_of("separate", calls("look"), "found", GOOD)

    played = output([Shapes], model, [look], instructions="base")

    assert model.prompts == [["base"], ["base"], ["shaped"]]
    assert [request.output_schema for request in model.requests] == [None, None, schema]
    assert [request.messages[-1].id == "u9" for request in model.requests] == [False, False, True]
    assert not [message for message in played.result.messages if message.id == "u9"]


@pytest.mark.parametrize("way", ["separate", "native"])
@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("  ", "structured-output-missing-result"),
        ("Ulm, I think", "structured-output-parse-failed"),
        (WRONG, "structured-output-validation-failed"),
    ],
)
def test_case_60_an_output_that_is_missing_or_wrong_fails_the_run(
    way: str, said: str, code: str
) -> None:
    """After its repairs the run ends with one error of this code, and on_error hears of it."""
    ends: list[ErrorInfo] = []

    class Ends(Middleware):
        def on_error(self, ctx: RunContext, info: ErrorInfo) -> None:
            ends.append(info)

    model = model_of(way, said, said)

    played = output([Ends], model)

    assert played.error[0] == code
    assert isinstance(ends[0].error, OutputError)
    assert len(ends) == 1
    assert len(model.requests) == 2  # one repair
    assert played.result.output is None


@pytest.mark.parametrize("way", ["separate", "native"])
def test_case_60_a_wrong_output_is_repaired_and_the_history_knows_no_complaint(way: str) -> None:
    """The model is told what was wrong, for this call alone."""
    model = model_of(way, WRONG, GOOD)

    played = output([], model)

    assert played.result.output == City(name="Ulm", people=126000)
    assert "people: Field required" in str(model.requests[1].messages[-1].content)
    assert [message.content for message in played.result.messages if message.role == "user"] == [
        "hi"
    ]


class SendsAnError:
    """A model that sends an error, where it should raise one."""

    abilities = NATIVE

    async def stream(self, request: Any, ctx: Any, /) -> AsyncIterator[BaseEvent]:
        yield RunErrorEvent(message="overloaded")
        yield ModelFinished()


def test_case_62_an_error_that_the_model_sends_gives_one_error_and_no_output() -> None:
    """A RUN_ERROR of the model is a failed call: one terminal, nothing is parsed or repaired."""
    played = output([], SendsAnError())

    assert played.types.count("RUN_ERROR") == 1
    assert played.error[0] == "model-failed"
    assert names(played) == []


def test_case_56_the_usage_tells_the_loop_from_the_structured_call() -> None:
    """The run's usage is all of it; the loop's own does not have the structured call."""
    infos: list[FinishInfo] = []

    class Ends(Middleware):
        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            infos.append(info)

    def spends(text: str, tokens: int) -> dict[str, Any]:
        return {"text": text, "usage": {"input_tokens": tokens, "output_tokens": 0}}

    tooled = {**calls("look"), "usage": {"input_tokens": 1, "output_tokens": 0}}
    model = model_of("separate", tooled, spends("found", 10), spends(GOOD, 100))

    output([Ends], model, [look])

    (info,) = infos
    assert info.loop is not None
    assert [each.input_tokens for each in info.usage] == [111]
    assert [each.input_tokens for each in info.loop.usage] == [1, 10]
    side = info.loop.other_usage["structured-output"]
    assert [each.input_tokens for each in side] == [100]
    assert info.loop.content == "found"
    assert info.loop.output == {"name": "Ulm", "people": 126000}
