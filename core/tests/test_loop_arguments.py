"""What cannot be an argument of the loop is refused where it is given, with a way out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from ag_ui.core import (
    BaseEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    Tool,
)
from looping import Spy, asking, loop

from interpose import Host, ModelContext, ModelRequest, Reject, UsageError
from interpose.loop import (
    Budget,
    LoopAgent,
    ScriptedModel,
    max_iterations,
    max_tool_calls,
    tool,
)

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tool_timeout": -1}, "tool_timeout"),
    ({"tool_timeout": float("nan")}, "tool_timeout"),
    ({"tool_timeout": True}, "tool_timeout"),
    ({"answer_within": 0}, "answer_within"),
    ({"answer_within": 1e300}, "answer_within"),
    ({"answer_within": None}, "answer_within"),
    ({"repairs": -1}, "repairs"),
    ({"repairs": 1.5}, "repairs"),
    ({"concurrency": "x"}, "concurrency"),
    ({"concurrency": 0}, "concurrency"),
    ({"budget": 5}, "budget"),
    ({"settings": 5}, "settings"),
    ({"instructions": 5}, "instructions"),
    ({"instructions": ["be kind", 5]}, "instructions"),
]


@pytest.mark.parametrize(("options", "name"), WRONG, ids=[str(options) for options, _ in WRONG])
def test_an_argument_of_the_agent_that_cannot_be_one_is_refused(
    options: dict[str, Any], name: str
) -> None:
    with pytest.raises(UsageError) as caught:
        LoopAgent(ScriptedModel("hi"), **options)

    assert caught.value.where == (f"LoopAgent({name}=...)",)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["seconds", "tokens", "model_calls", "tool_calls"])
@pytest.mark.parametrize("value", [-1, "5", True, float("inf"), float("nan")])
def test_a_budget_of_what_cannot_be_counted_is_refused(name: str, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Budget(**{name: value})

    assert caught.value.where == (f"Budget({name}=...)",)
    assert caught.value.hint


def test_what_the_file_takes_the_agent_takes() -> None:
    """The bounds themselves are fine."""
    budget = Budget(seconds=0.5, tokens=0, model_calls=0, tool_calls=0)

    made = LoopAgent(
        budget=budget, repairs=0, concurrency=1, tool_timeout=None, answer_within=315_360_000
    )

    assert made.parts.budget == budget


@pytest.mark.parametrize("strategy", [max_iterations, max_tool_calls])
@pytest.mark.parametrize("value", ["x", 1.5, None, True, -1])
def test_a_strategy_counts_whole_numbers(strategy: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(UsageError, match="counts nothing"):
        strategy(value)


def test_the_class_of_a_model_is_no_model() -> None:
    with pytest.raises(UsageError, match="class ScriptedModel") as caught:
        LoopAgent(ScriptedModel)  # type: ignore[arg-type]

    assert "ScriptedModel(...)" in caught.value.hint


@pytest.mark.parametrize("answers", [5, {1: True}, "yes", [5], {"a": True, None: False}])
def test_what_cannot_be_answers_is_refused(answers: Any) -> None:
    async def main() -> None:
        async with Host(agent=LoopAgent(ScriptedModel("hi"))) as host:
            host.run("hi", resume=answers)

    with pytest.raises(UsageError, match="resume holds something else") as caught:
        asyncio.run(main())

    assert caught.value.hint


# -- names of tools -------------------------------------------------------------------------------


@tool(lazy=True)
def rare() -> str:
    """Do what is rarely asked for."""
    return "rare"


@tool
def disclose_tools() -> str:
    """Bear the name that lazy tools need."""
    return "mine"


def test_a_tool_with_the_name_that_discloses_lazy_ones_is_refused_when_the_agent_is_made() -> None:
    with pytest.raises(UsageError, match=r"'disclose_tools'.*'rare'") as caught:
        LoopAgent(ScriptedModel("hi"), [rare, disclose_tools])

    assert caught.value.where == ("LoopAgent(tools=...)",)
    alone = LoopAgent(ScriptedModel("hi"), [disclose_tools])  # nobody else needs the name
    assert [each.name for each in alone.parts.tools] == ["disclose_tools"]


@tool
def look() -> str:
    """Look."""
    return "seen"


CLIENTS = {
    "taken": Tool(name="look", description="", parameters={"type": "object"}),
    "ours": Tool(name="disclose_tools", description="", parameters={"type": "object"}),
    "name": Tool(name="a bad name!", description="", parameters={"type": "object"}),
    "schema": Tool(name="pick", description="", parameters={"type": "array"}),
}


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_clients_tool_that_cannot_be_one_is_a_refusal(kind: str, logged: list[str]) -> None:
    """It is the client's mistake: told to the client as such, and no error of the operator's."""
    model = Spy("never")

    played = loop([], model, [look, rare], asked=asking(tools=[CLIENTS[kind]]))

    assert not model.requests
    error = played.result.error
    assert isinstance(error, Reject)
    assert (error.code, error.status) == ("invalid-input", 400)
    assert played.error == ("invalid-input", error.message)
    assert CLIENTS[kind].name in error.message
    assert not [line for line in logged if line.startswith("ERROR") or "Traceback" in line]


def test_two_tools_of_one_name_from_a_client_are_a_refusal() -> None:
    pick = Tool(name="pick", description="", parameters={"type": "object"})
    model = Spy("never")

    played = loop([], model, [look], asked=asking(tools=[pick, pick]))

    assert not model.requests
    assert played.error is not None
    assert played.error[0] == "invalid-input"
    assert "two of them have one name: pick" in played.error[1]


# -- what a model leaves open ---------------------------------------------------------------------


def test_reasoning_that_a_model_leaves_open_is_closed_from_the_inside() -> None:
    class Thinks:
        async def stream(
            self, request: ModelRequest, ctx: ModelContext, /
        ) -> AsyncIterator[BaseEvent]:
            yield ReasoningStartEvent(message_id="r")
            yield ReasoningMessageStartEvent(message_id="r", role="reasoning")
            yield ReasoningMessageContentEvent(message_id="r", delta="hm")

    played = loop([], Thinks())

    ends = [each for each in played.types if each.startswith("REASONING") and "END" in each]
    assert ends == ["REASONING_MESSAGE_END", "REASONING_END"]
    assert played.result.outcome == "success"
