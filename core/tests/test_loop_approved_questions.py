"""A call that a person approves, and whose tool then asks a question of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from looping import Spy, answering, asking, calls, entry, results, seen, within
from playing import Played

from interpose import (
    Ask,
    InterruptDefinition,
    InvalidResume,
    Middleware,
    RunContext,
    ToolCall,
    ToolDecision,
)
from interpose.loop import LoopAgent, LoopTool, ToolContext, tool

SURE = InterruptDefinition("sure", response=bool)
KEY = {"overrides": {"host": {"signing_key": "k" * 32}}}


class Guards(Middleware):
    """Lets no call run that nobody has approved."""

    def on_before_tool_call(self, ctx: RunContext, call: ToolCall, /) -> ToolDecision | None:
        return Ask(f"May {call.name} run?")


def paying(ran: list[str], **options: Any) -> LoopTool:
    """Return a tool that asks before it does something."""

    async def pay(ctx: ToolContext, euros: int = 5) -> str:
        if not ctx.ask(SURE, "sure", "Really?"):
            return "not paid"
        ran.append(f"{ctx.call_id} {euros}")
        return f"paid {euros}"

    return tool(pay, **options)


def play(
    layers: Sequence[type[Middleware]],
    agents: Sequence[LoopAgent],
    *steps: Callable[[Played | None], Any],
) -> list[Played]:
    """Play runs that follow each other, each on a host and with an agent of its own."""
    played: list[Played] = []
    for agent, step in zip(agents, steps, strict=True):
        asked = step(played[-1] if played else None)

        async def use(host: Any, asked: Any = asked) -> Played:
            return await seen(host.run(asked))

        played.append(within(layers, agent, use, **KEY))
    return played


def first(_: Played | None) -> Any:
    return asking()


def answer(*payloads: Any, run: str) -> Callable[[Any], Any]:
    return lambda before: answering(before, *payloads, run_id=run)


def agents_of(ran: list[str], turn: Any, count: int, **options: Any) -> list[LoopAgent]:
    """Return agents as the processes of one deployment have them."""
    return [LoopAgent(Spy(turn, "done"), [paying(ran, **options)]) for _ in range(count)]


@pytest.mark.parametrize("other_process", [False, True])
@pytest.mark.parametrize("who", ["a layer", "the tool"])
def test_the_tool_runs_once_after_both_answers(who: str, *, other_process: bool) -> None:
    ran: list[str] = []
    layers = [Guards] if who == "a layer" else []
    agents = agents_of(ran, calls("pay"), 3, approval=who == "the tool")
    if not other_process:
        agents = agents[:1] * 3

    approval, question, last = play(
        layers, agents, first, answer(True, run="run-2"), answer(True, run="run-3")
    )

    assert [each.reason for each in approval.result.interrupts] == ["tool_call"]
    assert [each.reason for each in question.result.interrupts] != ["tool_call"]
    assert last.result.text == "done"
    assert results(last) == {"call-1-1": "paid 5"}
    assert ran == ["call-1-1 5"]


def test_what_a_person_changed_the_arguments_to_still_holds_after_the_question() -> None:
    ran: list[str] = []
    agents = agents_of(ran, calls(("pay", {"euros": 500})), 3)
    edited = {"approved": True, "editedArgs": {"euros": 7}}

    *_, last = play([Guards], agents, first, answer(edited, run="run-2"), answer(True, run="run-3"))

    assert results(last) == {"call-1-1": "paid 7"}
    assert ran == ["call-1-1 7"]
    [event] = [each for each in last.events if each.type.value == "TOOL_CALL_RESULT"]
    assert event.metadata == {"interpose:edited-arguments": {"euros": 7}}


def test_the_approval_of_one_call_is_none_of_another() -> None:
    """Denied at first, the other call is neither asked about again nor executed."""
    ran: list[str] = []
    agents = agents_of(ran, calls("pay", "pay"), 3)

    *_, question, last = play(
        [Guards], agents, first, answer(True, False, run="run-2"), answer(True, run="run-3")
    )

    [asked] = question.result.interrupts
    assert "call-1-1" in asked.id.partition("~")[0]
    assert results(question) == {"call-1-2": "User declined tool execution."}
    assert results(last) == {"call-1-1": "paid 5"}
    assert ran == ["call-1-1 5"]


def test_a_call_that_nobody_has_approved_yet_is_asked_about_although_another_one_is() -> None:
    """A layer that asks about the second call only once the first is approved."""
    ran: list[str] = []

    class Hesitates(Middleware):
        def on_before_tool_call(self, ctx: RunContext, call: ToolCall, /) -> ToolDecision | None:
            if call.id == "call-1-1" or ctx.input.resume:
                return Ask("May it run?")
            return None

    agents = agents_of(ran, calls("pay", "pay"), 4)

    one, other, questions, last = play(
        [Hesitates],
        agents,
        first,
        answer(True, run="run-2"),
        answer(True, run="run-3"),
        answer(True, True, run="run-4"),
    )

    assert [each.tool_call_id for each in one.result.interrupts] == ["call-1-1"]
    assert [each.tool_call_id for each in other.result.interrupts] == ["call-1-2"]
    assert [each.reason for each in other.result.interrupts] == ["tool_call"]
    assert len(questions.result.interrupts) == 2
    assert results(last) == {"call-1-1": "paid 5", "call-1-2": "paid 5"}
    assert ran == ["call-1-1 5", "call-1-2 5"]


def test_an_answer_to_the_tools_question_is_good_for_one_execution() -> None:
    ran: list[str] = []
    agent = agents_of(ran, calls("pay"), 1)[0]

    async def use(host: Any) -> None:
        approval = await seen(host.run(asking()))
        question = await seen(host.run(answering(approval, True)))
        last = await seen(host.run(answering(question, True, run_id="run-3")))
        assert last.result.text == "done"
        again = await seen(host.run(answering(question, True, run_id="run-4")))
        assert isinstance(again.result.error, InvalidResume)
        asked_again = asking(
            approval.result.messages,
            run_id="run-5",
            resume=[entry(approval.result.interrupts[0], True)],
        )
        assert isinstance((await seen(host.run(asked_again))).result.error, InvalidResume)

    within([Guards], agent, use, **KEY)

    assert ran == ["call-1-1 5"]
