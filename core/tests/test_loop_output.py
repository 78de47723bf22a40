"""Structured output of a loop: what may be asked for, what is told of it, and what it costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, NotRequired

import pytest
from ag_ui.core import BaseEvent, CustomEvent, RunErrorEvent, RunFinishedEvent
from looping import THREAD, Spy, answering, asking, calls, loop, seen, user, within
from playing import Played, agent_of, say
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field
from typing_extensions import TypedDict

from interpose import (
    DROP,
    Ability,
    CallModel,
    FinishInfo,
    Host,
    Middleware,
    ModelRequest,
    PatternTransform,
    Result,
    RunContext,
    UsageError,
    on,
)
from interpose.loop import Budget, LoopAgent, max_iterations, tool
from interpose.loop.structured import OUTPUT_COMPLETE, OUTPUT_START

NATIVE = frozenset({Ability.OUTPUT_WITH_TOOLS})
WAYS = ["separate", "native"]


class City(BaseModel):
    name: str
    people: int = 0


@dataclass
class Town:
    name: str
    people: int = 0


class Place(TypedDict):
    name: str
    people: NotRequired[int]


GOOD = '{"name": "Ulm", "people": 126000}'
PLAIN: dict[str, Any] = {"name": "Ulm", "people": 126_000}


@tool
def look() -> str:
    """Look something up."""
    return "found"


def model_of(way: str, *turns: Any) -> Spy:
    return Spy(*turns, abilities=NATIVE if way == "native" else frozenset())


def output(layers: Any, model: Any, wanted: Any = City, tools: Any = (), **options: Any) -> Played:
    return loop(layers, model, tools, run={"output": wanted}, **options)


def complete(played: Played) -> Any:
    """Return the object that the consumer was told of."""
    [told] = [
        event.value
        for event in played.events
        if isinstance(event, CustomEvent) and event.name == OUTPUT_COMPLETE
    ]
    return told["object"]


def terminal(played: Played) -> Any:
    last = played.events[-1]
    assert isinstance(last, RunFinishedEvent | RunErrorEvent)
    return last


# What may be asked for --------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("wanted", "value"),
    [(City, City(**PLAIN)), (Town, Town(**PLAIN)), (Place, PLAIN), (dict[str, Any], PLAIN)],
    ids=["model", "dataclass", "TypedDict", "mapping"],
)
def test_the_output_is_one_of_the_type_that_was_asked_for(
    way: str, wanted: Any, value: Any
) -> None:
    model = model_of(way, GOOD)
    played = output([], model, wanted)
    assert played.result.outcome == "success"
    assert played.result.output == value
    assert type(played.result.output) is type(value)
    assert played.result.result == complete(played) == PLAIN
    assert model.requests[-1].output_schema["type"] == "object"  # type: ignore[index]


@pytest.mark.parametrize("wanted", [int, list[City], City | None, str, object], ids=str)
def test_what_is_no_object_is_refused_before_the_run(wanted: Any) -> None:
    async def use(host: Host) -> None:
        with pytest.raises(UsageError, match=r"no object|nothing that pydantic") as caught:
            host.run("hi", output=wanted)
        assert "pydantic model" in caught.value.hint

    model = Spy(GOOD)
    within([], LoopAgent(model), use)
    assert model.requests == []


def test_what_pydantic_cannot_validate_is_refused() -> None:
    class Strange:
        pass

    async def use(host: Host) -> None:
        with pytest.raises(UsageError, match="Strange is nothing that pydantic can validate"):
            host.run("hi", output=Strange)

    within([], LoopAgent(Spy(GOOD)), use)


def test_an_agent_without_a_model_gives_no_output() -> None:
    async def main() -> None:
        async with Host([], agent=agent_of(*say(GOOD))) as host:
            with pytest.raises(UsageError, match="it does not offer MODEL") as caught:
                host.run("hi", output=City)
            assert 'use = "loop"' in caught.value.hint

    asyncio.run(main())


# What reads back --------------------------------------------------------------------------------


class Aliased(BaseModel):
    user_name: str = Field(alias="userName")


class OtherwiseNamed(BaseModel):
    user_name: str = Field(validation_alias="userName")


class Computes(BaseModel):
    model_config = ConfigDict(extra="forbid")
    side: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.side**2


class Secretive(BaseModel):
    key: SecretStr


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (Aliased, '{"userName": "ada"}'),
        (OtherwiseNamed, '{"userName": "ada"}'),
        (Computes, '{"side": 3}'),
        (Secretive, '{"key": "hunter2"}'),
    ],
)
def test_a_model_that_is_written_otherwise_than_it_is_read(
    wanted: type[BaseModel], text: str
) -> None:
    """Aliases, computed fields, and secrets that are masked when written."""
    played = output([], Spy(text), wanted)
    assert played.result.error is None
    assert played.result.output == wanted.model_validate_json(text)
    assert complete(played) == json.loads(text)


def test_defaults_are_in_what_the_consumer_is_told() -> None:
    played = output([], Spy('{"name": "Ulm"}'))
    assert complete(played) == {"name": "Ulm", "people": 0}


def test_defaults_are_told_by_the_names_that_the_schema_has() -> None:
    class Account(BaseModel):
        user_name: str = Field(alias="userName")
        is_admin: bool = Field(default=False, alias="isAdmin")

    model = Spy('{"userName": "ada"}')
    played = output([], model, Account)
    assert complete(played) == {"userName": "ada", "isAdmin": False}
    schema = model.requests[0].output_schema
    assert schema is not None
    assert set(schema["properties"]) == {"userName", "isAdmin"}


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}\n```", "\n  {}\n"])
def test_a_fence_around_the_object_is_no_part_of_it(fence: str) -> None:
    played = output([], Spy(fence.replace("{}", GOOD)), repairs=0)
    assert played.result.output == City(**PLAIN)


# What is wrong ----------------------------------------------------------------------------------


class Share(BaseModel):
    share: float


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "structured-output-missing-result"),
        ("Sure!", "structured-output-parse-failed"),
        ('{"share": NaN}', "structured-output-parse-failed"),
        ('{"share": 1e999}', "structured-output-parse-failed"),
        ('{"share": ' + "[" * 100_000, "structured-output-parse-failed"),
        ("[1]", "structured-output-validation-failed"),
        ("null", "structured-output-validation-failed"),
        ('{"share": "much"}', "structured-output-validation-failed"),
    ],
    ids=["missing", "text", "NaN", "endless", "deep", "list", "null", "wrong"],
)
def test_an_output_that_cannot_be_had_is_one_error_of_the_run(
    way: str, text: str, code: str
) -> None:
    played = output([], model_of(way, text), Share, repairs=0)
    assert (played.result.outcome, played.result.output) == ("error", None)
    assert played.error[0] == code
    assert played.result.error.code == code
    assert "much" not in played.error[1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("repairs", [0, 1, 2])
def test_the_model_gets_as_many_further_tries_as_were_allowed(way: str, repairs: int) -> None:
    model = model_of(way, *["no"] * repairs, GOOD)
    played = output([], model, repairs=repairs)
    assert played.result.output == City(**PLAIN)
    assert len(model.requests) == repairs + 1

    stubborn = model_of(way, *["no"] * (repairs + 1), GOOD)
    played = output([], stubborn, repairs=repairs)
    assert played.error[0] == "structured-output-parse-failed"
    assert len(stubborn.requests) == repairs + 1


def test_a_repair_tells_the_model_what_was_wrong_and_nobody_else() -> None:
    model = Spy('{"people": 1}', GOOD)
    played = output([], model)
    complaint = str(model.requests[1].messages[-1].content)
    assert "does not fit City: name: Field required" in complaint
    assert complaint not in str(played.events)
    assert complaint not in str(played.result.messages)


# What layers make of it -------------------------------------------------------------------------


class Upper(PatternTransform):
    patterns = ("Ulm",)
    replacement = "Bonn"


@pytest.mark.parametrize("way", WAYS)
def test_a_layer_that_rewrites_text_changes_stream_and_result_alike(way: str) -> None:
    played = output([Upper], model_of(way, GOOD))
    assert json.loads(played.text) == {"name": "Bonn", "people": 126_000}
    assert complete(played)["name"] == "Bonn"
    assert played.result.output == City(name="Bonn", people=126_000)
    assert terminal(played).result == played.result.result == {"name": "Bonn", "people": 126_000}


@pytest.mark.parametrize(
    "value", [None, "broken", {"name": "City"}, {"name": "City", "object": {"people": "many"}}]
)
def test_a_layer_that_breaks_the_complete_event_fails_the_run(value: Any) -> None:
    class Breaks(Middleware):
        @on(CustomEvent)
        def custom(self, ctx: RunContext, event: CustomEvent) -> Result:
            if event.name != OUTPUT_COMPLETE:
                return event
            return event.model_copy(update={"value": value})

    played = output([Breaks], Spy(GOOD))
    assert (played.result.outcome, played.result.output) == ("error", None)
    assert played.error[0] == "structured-output-validation-failed"


def test_a_layer_that_takes_the_complete_event_away_takes_the_output_away() -> None:
    class Hides(Middleware):
        @on(CustomEvent)
        def custom(self, ctx: RunContext, event: CustomEvent) -> Result:
            return DROP if event.name == OUTPUT_COMPLETE else event

    played = output([Hides], Spy(GOOD))
    assert (played.result.outcome, played.result.output) == ("success", None)


def test_a_layer_that_ends_the_run_gives_no_output() -> None:
    class Finishes(Middleware):
        def setup(self, ctx: RunContext) -> None:
            ctx.finish(text="Not today.")

    model = Spy(GOOD)
    played = output([Finishes], model)
    assert (played.result.outcome, played.result.output) == ("success", None)
    assert played.result.text == "Not today."
    assert model.requests == []


def test_a_layer_may_answer_in_the_place_of_the_structured_call() -> None:
    class Answers(Middleware):
        async def around_model_call(
            self, ctx: RunContext, request: ModelRequest, call_next: CallModel
        ) -> AsyncIterator[BaseEvent]:
            if request.output_schema is None:
                async for event in call_next(request):
                    yield event
                return
            for event in say(GOOD, message=ctx.message_id or ""):
                yield event

    model = Spy(calls("look"), "found")
    played = output([Answers], model, tools=[look])
    assert played.result.output == City(**PLAIN)
    assert len(model.requests) == 2


# What it costs ----------------------------------------------------------------------------------


def test_the_structured_call_is_told_apart_in_the_usage() -> None:
    infos: list[FinishInfo] = []

    class Watches(Middleware):
        def on_finish(self, ctx: RunContext, info: FinishInfo) -> None:
            infos.append(info)

    def turn(text: str, tokens: int) -> dict[str, Any]:
        usage = {"provider": "p", "model": "m", "inputTokens": tokens, "outputTokens": 1}
        return {"text": text, "usage": usage}

    model = Spy({**turn("", 10), "calls": [{"name": "look"}]}, turn("found", 20), turn(GOOD, 300))
    played = output([Watches], model, tools=[look])
    [info] = infos
    assert info.loop is not None
    assert [each.input_tokens for each in played.result.usage] == [330]
    assert [each.input_tokens for each in info.usage] == [330]
    assert [each.input_tokens for each in info.loop.usage] == [10, 20]
    other = info.loop.other_usage["structured-output"]
    assert [each.input_tokens for each in other] == [300]
    assert (info.loop.content, info.loop.output) == ("found", PLAIN)


@pytest.mark.parametrize(
    ("budget", "made"),
    [(Budget(model_calls=2), 2), (Budget(model_calls=3), 3), (Budget(tokens=1), 1)],
    ids=["no call left", "no repair left", "no token left"],
)
def test_a_budget_that_is_used_up_leaves_no_structured_call(budget: Budget, made: int) -> None:
    model = Spy(calls("look"), "found", "no", GOOD)
    played = output([], model, tools=[look], budget=budget)
    assert len(model.requests) == made
    assert played.result.outcome == "error"
    assert str(played.error[0]).startswith("structured-output-")


def test_a_loop_that_was_cut_short_still_gives_its_output() -> None:
    """The iterations are the loop's; the structured call is none of them."""
    model = Spy(calls("look"), GOOD)
    played = output([], model, tools=[look], until=max_iterations(1))
    assert played.result.output == City(**PLAIN)
    assert terminal(played).metadata == {"interpose:limit": "max_iterations(1)"}


# Across a pause ---------------------------------------------------------------------------------


@tool(approval="Sure?")
def pay() -> str:
    """Pay."""
    return "paid"


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_waits_for_people_has_no_output_until_it_goes_on(way: str) -> None:
    turns = [calls("pay"), GOOD] if way == "native" else [calls("pay"), "paid", GOOD]

    async def use(host: Host) -> tuple[Played, Played]:
        first = await seen(host.run(asking([user()]), output=City))
        again = answering(first, True)
        return first, await seen(host.run(again, output=City))

    paused, resumed = within([], LoopAgent(model_of(way, *turns), [pay]), use)
    assert (paused.result.outcome, paused.result.output) == ("interrupt", None)
    assert OUTPUT_START not in str(paused.events)
    assert paused.result.result is None
    assert (resumed.result.outcome, resumed.result.output) == ("success", City(**PLAIN))
    assert terminal(resumed).thread_id == THREAD
